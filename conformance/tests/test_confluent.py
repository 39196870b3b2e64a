"""A poll of librdkafka's driver makes two calls, and a rebalance may come between them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import pytest
from confluent_kafka import TopicPartition

from conformance.drivers.base import Place
from conformance.drivers.confluent import ConfluentConsumer
from harness.clients import librdkafka


class Message(NamedTuple):
    """A record of the topic ``t``."""

    place: int
    number: int

    def topic(self) -> str:
        return "t"

    def partition(self) -> int:
        return self.place

    def offset(self) -> int:
        return self.number

    def key(self) -> None:
        return None

    def value(self) -> bytes:
        return b""

    def error(self) -> None:
        return None


class Client:
    """Gives the first record of partition 0; a test defines its ``consume``."""

    def __init__(self, settings: dict[str, Any]) -> None:
        self.listeners: dict[str, Callable[[object, list[TopicPartition]], None]] = {}
        self.then: Callable[[], list[Message]] = list

    def subscribe(self, topics: list[str], **listeners: Callable[[object, list[TopicPartition]], None]) -> None:
        self.listeners = listeners

    def tell(self, kind: str) -> None:
        self.listeners[f"on_{kind}"](self, [TopicPartition("t", 0)])

    def poll(self, timeout_s: float) -> Message:
        return Message(0, 0)

    def consume(self, limit: int, timeout_s: float) -> list[Message]:
        return self.then()


@pytest.fixture
def consumer(monkeypatch: pytest.MonkeyPatch) -> ConfluentConsumer:
    monkeypatch.setattr(librdkafka, "Consumer", Client)
    found = ConfluentConsumer({})
    found.subscribe(["t"])
    return found


def offsets(consumer: ConfluentConsumer) -> list[tuple[Place, int]]:
    return [(row.place, row.offset) for row in consumer.poll()]


@pytest.mark.parametrize("kind", ["revoke", "lost"])
def test_a_record_of_a_partition_revoked_during_the_poll_is_dropped(
    consumer: ConfluentConsumer, kind: str
) -> None:
    def then() -> list[Message]:
        consumer._client.tell(kind)  # type: ignore[attr-defined]
        return [Message(1, 5)]

    consumer._client.then = then  # type: ignore[attr-defined]
    assert offsets(consumer) == [(Place("t", 1), 5)]


def test_a_record_of_a_partition_assigned_again_is_returned(consumer: ConfluentConsumer) -> None:
    def then() -> list[Message]:
        for kind in ("revoke", "assign"):
            consumer._client.tell(kind)  # type: ignore[attr-defined]
        return [Message(0, 0)]

    consumer._client.then = then  # type: ignore[attr-defined]
    assert offsets(consumer) == [(Place("t", 0), 0)]


def test_a_record_of_a_partition_that_was_kept_is_returned(consumer: ConfluentConsumer) -> None:
    consumer._client.then = lambda: [Message(0, 1)]  # type: ignore[attr-defined]
    assert offsets(consumer) == [(Place("t", 0), 0), (Place("t", 0), 1)]
