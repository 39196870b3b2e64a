"""Defects of configurations and of what is said of them."""

from __future__ import annotations

from pybroker.cluster import config_changes, controller
from pybroker.config import KEYS
from pybroker.config.key import READ_ONLY
from pybroker.testing.defects import Patch, defect
from pyclient.protocol import errors


@defect("pybroker/cluster/tests/test_error_texts.py")
def a_topic_that_is_not_there_is_refused_in_our_words() -> list[Patch]:
    """Scripts that look for Kafka's sentence take it for another error."""

    def unknown(name: str | None) -> errors.UnknownTopicOrPartition:
        return errors.UnknownTopicOrPartition(f"there is no topic '{name}'")

    return [(controller, "unknown_topic", unknown)]


@defect(
    "pybroker/handlers/tests/test_configurations.py"
    "::test_what_kafka_lets_one_change_is_accepted_though_it_has_no_effect_here"
)
def keys_without_effect_cannot_be_changed() -> list[Patch]:
    """Scripts that set them on Kafka fail here."""
    name = "sasl.kerberos.min.time.before.relogin"
    return [(config_changes, "KEYS", {**KEYS, name: KEYS[name]._replace(scope=READ_ONLY)})]
