"""Producers and consumers of other projects' clients, in one line each."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Protocol, TypeVar

import confluent_kafka
from confluent_kafka import Message, TopicPartition

from harness import librdkafka
from harness.keywords import with_dots
from harness.witnesses import used

Found = TypeVar("Found")


class Served(Protocol):
    """One broker, or several."""

    @property
    def bootstrap(self) -> str:
        """``host:port,…``"""


def present(found: Found | None) -> Found:
    """Returns a field of a message, which must have it."""
    assert found is not None
    return found


def until(look: Callable[[], Found | None], what: str, timeout_s: float = 90, pause_s: float = 0.05) -> Found:
    """Polls until ``look`` returns something true, with a pause after each look. Its failure says ``what`` it waited
    for.
    """
    deadline = time.monotonic() + timeout_s
    while not (found := look()):
        assert time.monotonic() < deadline, f"not within {timeout_s} s: {what}"
        time.sleep(pause_s)
    return found


def settled(ask: Callable[[], Any], passing: Collection[int], what: str, timeout_s: float = 90) -> Any:
    """The first reply, or row of one, whose error code is none of the ``passing`` ones; asks again after a pause."""
    replies: list[Any] = []

    def look() -> bool:
        replies[:] = [ask()]
        return replies[0].error_code not in passing

    until(look, what, timeout_s, pause_s=0.005)
    return replies[0]


def producer(broker: Served, **settings: object) -> confluent_kafka.Producer:
    """Returns librdkafka's producer. Settings have ``_`` for ``.``."""
    used("librdkafka")
    dotted = with_dots(settings)
    return confluent_kafka.Producer({"bootstrap.servers": broker.bootstrap, **dotted})


class Deliveries:
    """Collects delivery reports."""

    def __init__(self) -> None:
        self.messages: list[Message] = []
        self.errors: list[confluent_kafka.KafkaError] = []

    def __call__(self, error: confluent_kafka.KafkaError | None, message: Message) -> None:
        if error is None:
            self.messages.append(message)
        else:
            self.errors.append(error)


def send(client: confluent_kafka.Producer, topic: str, value: bytes, **options: object) -> None:
    """Gives one record to librdkafka. Waits while its queue is full, as it is on a slow machine."""

    def is_taken() -> bool:
        try:
            client.produce(topic, value, **options)  # type: ignore[arg-type]
        except BufferError:
            client.poll(0.1)
            return False
        return True

    until(is_taken, "place in librdkafka's queue", pause_s=0)


def write(
    broker: Served,
    topic: str,
    values: Iterable[bytes],
    *,
    partition: int | None = None,
    keys: Sequence[bytes] | None = None,
    **settings: object,
) -> list[Message]:
    """Writes all values in order, over retries too. Returns their delivery reports, all of them good."""
    reports = Deliveries()
    client = producer(broker, **{"acks": "all", "enable_idempotence": True, **settings})
    for place, value in enumerate(values):
        options: dict[str, object] = {} if partition is None else {"partition": partition}
        if keys is not None:
            options["key"] = keys[place]
        send(client, topic, value, on_delivery=reports, **options)
        if place % 10_000 == 9_999:
            client.poll(0.1)
    assert client.flush(60) == 0
    assert not reports.errors
    return reports.messages


@contextmanager
def consumer(broker: Served, group: str = "unused", **settings: object) -> Iterator[confluent_kafka.Consumer]:
    """Returns librdkafka's consumer, which begins at the earliest offset by default."""
    defaults = {"auto.offset.reset": "earliest", "fetch.queue.backoff.ms": 5, "fetch.wait.max.ms": 50}
    defaults |= {"heartbeat.interval.ms": 200, "log_level": 0}
    dotted = with_dots(settings)
    client = librdkafka.Consumer(
        {"bootstrap.servers": broker.bootstrap, "group.id": group, **defaults, **dotted}
    )
    try:
        yield client
    finally:
        client.close()


def take(client: confluent_kafka.Consumer, count: int, timeout_s: float = 90) -> list[Message]:
    """Reads exactly ``count`` messages, or fails."""
    found: list[Message] = []
    deadline = time.monotonic() + timeout_s
    while len(found) < count:
        assert time.monotonic() < deadline, f"{len(found)} of {count} messages came"
        for message in client.consume(count - len(found), 0.2):
            assert message.error() is None, message.error()
            found.append(message)
    return found


def read(broker: Served, topic: str, count: int, partition: int = 0, offset: int = 0) -> list[Message]:
    """Reads ``count`` messages of one partition."""
    with consumer(broker, enable_auto_commit=False) as client:
        client.assign([TopicPartition(topic, partition, offset)])
        return take(client, count)
