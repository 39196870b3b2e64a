"""Defects of settings, and of the messages about them."""

from __future__ import annotations

from collections.abc import Callable

from proofs.defects import Patch, defect
from pybroker.cluster.decisions import config_changes, topics
from pybroker.config import KEYS, broker_config, sources, tls_slips, unprotected
from pybroker.config.keys.key import READ_ONLY
from pyclient.protocol import errors


@defect("pybroker/cluster/decisions/tests/test_error_texts.py")
def a_topic_that_is_not_there_is_refused_in_our_words() -> list[Patch]:
    """Scripts that look for Kafka's sentence take the answer for another error."""

    def unknown(name: str | None) -> errors.UnknownTopicOrPartition:
        return errors.UnknownTopicOrPartition(f"there is no topic '{name}'")

    return [(topics, "unknown_topic", unknown)]


@defect(
    "pybroker/handlers/tests/admin/test_configurations.py"
    "::test_settings_that_are_dynamic_in_kafka_are_accepted_even_without_effect"
)
def keys_without_effect_cannot_be_changed() -> list[Patch]:
    """Scripts that set such keys on Kafka fail here."""
    name = "sasl.kerberos.min.time.before.relogin"
    return [(config_changes, "KEYS", {**KEYS, name: KEYS[name]._replace(scope=READ_ONLY)})]


@defect("pybroker/config/tests/test_remarks.py::test_unknown_keys_of_a_vendor_are_reported_in_one_line")
def keys_of_a_vendor_stop_the_start() -> list[Patch]:
    """A user needs seven starts, one for each key, until the broker accepts Confluent's file."""
    return [(broker_config, "is_foreign", lambda name, known: False)]


@defect("pybroker/config/tests/test_sources.py::test_a_file_in_utf_8_or_latin_1_is_read")
def files_are_in_utf_8_without_a_mark() -> list[Patch]:
    """The broker does not know the first key of a file from an editor on Windows."""
    return [(sources, "_decoded", lambda data: data.decode("utf-8"))]


@defect("pybroker/config/tests/test_remarks.py::test_a_mistyped_key_in_a_file_is_an_error_with_a_suggestion")
def a_slip_in_a_file_is_passed_over() -> list[Patch]:
    """As in Kafka, the default applies and nobody is warned."""
    return [(broker_config, "is_foreign", lambda name, known: True)]


@defect(
    "pybroker/config/tests/test_remarks.py"
    "::test_zookeeper_connect_in_a_file_for_kraft_is_ignored_and_reported"
)
def a_left_over_zookeeper_is_waited_for() -> list[Patch]:
    """The start fails after 18 s with "no answer"."""
    return [(broker_config, "unused_of", lambda known, given: ())]


@defect("pybroker/process/tests/test_start.py::test_a_file_with_an_unsupported_authorizer_is_refused")
def a_broker_with_acls_stands_open() -> list[Patch]:
    """The broker accepts the key, and everybody may do everything."""
    return [(unprotected, "check", lambda config, alone: None)]


@defect("pybroker/process/tests/test_start.py::test_the_error_for_an_invalid_listener_names_its_line_in_the_file")
def listeners_are_always_an_options() -> list[Patch]:
    """The message blames an option instead of the file that contains the setting."""
    return [(unprotected, "check", _once_chosen(unprotected.check))]


def _once_chosen(check: Callable[..., None]) -> Callable[..., None]:
    return lambda config, alone: check(config, alone=alone) if config.where("listeners") == "--set" else None


@defect("pybroker/config/tests/test_remarks.py::test_a_line_that_is_not_a_property_is_reported_with_its_line_number")
def any_line_is_a_property() -> list[Patch]:
    """The broker says that the first word of the line is an unknown key."""
    entries = sources._entries
    return [(sources, "_entries", lambda text: ((*each[:3], True) for each in entries(text)))]


@defect("pybroker/config/tests/test_tls_slips.py::test_a_mistyped_tls_key_is_refused_with_a_suggestion")
def a_slip_in_a_key_of_tls_is_passed_over() -> list[Patch]:
    """The broker asks no client for a certificate."""
    return [(tls_slips, "_complaint", lambda name, protocols, others, is_asking: "")]


@defect("pybroker/config/tests/test_remarks.py::test_a_private_key_whose_lines_do_not_end_in_a_backslash_is_not_shown")
def any_line_may_be_shown() -> list[Patch]:
    """The private key appears in the log."""
    return [(sources, "is_name", lambda text: True)]
