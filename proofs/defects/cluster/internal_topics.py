"""Defects of topics that are created on first use, such as internal topics."""

from __future__ import annotations

from proofs.defects import Patch, defect
from proofs.defects.suites import in_histories
from pybroker.cluster.decisions import internal_topics
from pybroker.config import BrokerConfig
from pybroker.handlers import metadata
from pyclient.core import metadata as client_metadata


@defect("pybroker/cluster/tests/test_created_topics.py::test_internal_topics_are_created_once_there_are_brokers_for_all_replicas")
@in_histories("first start", "factor")
def internal_topics_take_what_brokers_there_are() -> list[Patch]:
    """If a client connects before the second broker, the topic keeps too few replicas for good."""

    def factor(config: BrokerConfig, key: str, brokers: int) -> int:
        return int(config[key]) if config.is_set(key) else max(1, min(int(config[key]), brokers))

    return [(internal_topics, "_factor", factor)]


@defect(
    "pybroker/handlers/tests/test_metadata.py"
    "::test_auto_creation_with_too_few_brokers_returns_leader_not_available"
)
def a_lack_of_brokers_is_told_as_if_it_were_final() -> list[Patch]:
    """The answer is INVALID_REPLICATION_FACTOR. So a producer fails at once, and Java's consumer retries only after
    five minutes.
    """
    return [(metadata, "_may_pass", lambda error: False)]


@defect("pyclient/core/tests/test_client_metadata.py::test_metadata_waits_while_a_topic_lacks_brokers_for_its_replicas")
def clients_take_a_lack_of_brokers_as_final() -> list[Patch]:
    """A client that starts before the second broker fails."""
    return [(client_metadata, "may_pass", lambda error: error.retriable)]
