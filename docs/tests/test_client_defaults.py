"""The defaults of the client beside those of Kafka 4.4.0's own clients.

The file beside it has what the ConfigDefs of Kafka's ProducerConfig, ConsumerConfig and AdminClientConfig say, without
internal keys; ``all`` are those that the three share.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from docs.reference_tables import MEANT
from pyclient.config import ADMIN, CONSUMER, PRODUCER
from pyclient.config.hints import hint
from pyclient.config.key import OBJECT, Key

KAFKA = json.loads(Path(__file__).with_name("kafka_client_defaults.json").read_text(encoding="utf-8"))
TABLES = {"producer": PRODUCER, "consumer": CONSUMER, "admin": ADMIN}
NO_DEFAULT = "<none>"
CLASSES = {
    "org.apache.kafka.clients.consumer.RangeAssignor": "range",
    "org.apache.kafka.clients.consumer.CooperativeStickyAssignor": "cooperative-sticky",
}
"""What Kafka names by a class has a short name here."""


def kafkas(client: str) -> dict[str, str]:
    return {**KAFKA["all"], **KAFKA[client]}


def text(key: Key) -> str:
    """The default as Kafka's ConfigDef shows it."""
    if key.default is None:
        return "null"
    if isinstance(key.default, tuple):
        return f"[{', '.join(key.default)}]"
    return str(key.default).lower() if isinstance(key.default, bool) else str(key.default)


def named(default: str) -> str:
    for name, short in CLASSES.items():
        default = default.replace(f"class {name}", short)
    return default


def differing(client: str) -> dict[str, str]:
    """Kafka's default of each key that has another one here."""
    return {
        name: default
        for name, default in kafkas(client).items()
        if (key := TABLES[client].get(name)) is not None
        and key.kind is not OBJECT
        and not key.doc.startswith("without effect")
        and default != NO_DEFAULT
        and text(key) != named(default)
    }


@pytest.mark.parametrize("client", TABLES)
def test_a_default_is_kafkas_or_the_page_of_settings_names_kafkas(client: str) -> None:
    for name, default in differing(client).items():
        assert name in MEANT, f"{name}: Kafka's default is {default}"
        assert default in (MEANT[name][0] if MEANT[name][0] != "–" else ("", "null")), name


def test_the_page_of_settings_names_no_default_that_is_kafkas() -> None:
    assert MEANT.keys() == {name for client in TABLES for name in differing(client)}


@pytest.mark.parametrize("client", TABLES)
def test_a_key_of_kafka_that_is_missing_has_a_hint(client: str) -> None:
    assert [name for name in kafkas(client) if name not in TABLES[client] and not hint(name)] == []
