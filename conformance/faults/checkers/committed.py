"""Reads committed records while faults happen, and at the end from the first offset to the last."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from typing import Any

import confluent_kafka

from conformance.drivers import reaching
from conformance.drivers.base import Place
from conformance.faults.checkers.history import Row
from conformance.faults.targets import Target
from harness.clients import librdkafka
from harness.clients.librdkafka import present
from harness.protocol.error_codes import TOPIC_NOT_READY
from harness.protocol.wire_client import Wire
from harness.waiting import settled

#: Everything that must happen may take this long.
STALLED_S = 180.0


class CommittedReader(threading.Thread):
    """Reads the committed records of all partitions while faults happen, and notes each."""

    def __init__(self, target: Target, places: Sequence[Place]) -> None:
        super().__init__(name="committed reader", daemon=True)
        self.bootstrap = target.bootstrap
        self.seen: dict[Place, list[Row]] = {place: [] for place in places}
        self.stopping = threading.Event()
        self.failure = ""

    def run(self) -> None:
        client = reader(self.bootstrap)
        client.assign([confluent_kafka.TopicPartition(*place, 0) for place in self.seen])
        while not self.stopping.is_set():
            for message in client.consume(1_000, 0.1):
                error = message.error()
                if error is None:
                    self.seen[place_of(message)].append((present(message.offset()), present(message.value())))
                elif not error.retriable() and error.code() >= 0:
                    self.failure = str(error)
        client.close()


def reader(bootstrap: str) -> confluent_kafka.Consumer:
    """Makes librdkafka's consumer of committed records."""
    return librdkafka.Consumer(
        {
            **reaching.librdkafka(bootstrap),
            "group.id": "unused",
            "isolation.level": "read_committed",
            "auto.offset.reset": "error",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "check.crcs": True,
            "fetch.wait.max.ms": 50,
            "reconnect.backoff.ms": 10,
            "reconnect.backoff.max.ms": 200,
            "log_level": 0,
        }
    )


def place_of(message: confluent_kafka.Message) -> Place:
    return Place(present(message.topic()), present(message.partition()))


def end_offset(target: Target, place: Place, isolation_level: int) -> int:
    """Returns the high watermark (0) or the last stable offset (1); retries if a leader has just started."""
    row = {"partition_index": place.partition, "current_leader_epoch": -1, "timestamp": -1}
    topics = [{"name": place.topic, "partitions": [row]}]

    def ask() -> Any:
        with Wire(target.leader_of(place)) as wire:
            reply = wire.ask("ListOffsets", 5, replica_id=-1, isolation_level=isolation_level, topics=topics)
        return reply.topics[0].partitions[0]

    found = settled(ask, TOPIC_NOT_READY, f"a leader of {place}", STALLED_S)
    assert found.error_code == 0, found
    return int(found.offset)


def read_committed(target: Target, place: Place) -> list[Row]:
    """Returns a partition's committed records from its first offset to its last."""
    client = reader(target.bootstrap)
    client.assign([confluent_kafka.TopicPartition(*place, 0)])
    found: list[Row] = []
    deadline = time.monotonic() + STALLED_S
    try:
        while time.monotonic() < deadline:
            for message in client.consume(10_000, 0.1):
                error = message.error()
                if error is None:
                    found.append((int(message.offset() or 0), message.value() or b""))
                elif error.code() == confluent_kafka.KafkaError._PARTITION_EOF:
                    return found
                elif not error.retriable():
                    raise AssertionError(f"{place}: {error}")
    finally:
        client.close()
    raise AssertionError(f"{place} has no end after {len(found)} records")
