"""Writing markers into local partitions at the request of any broker."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from types import SimpleNamespace
from typing import Any

from pybroker.clock import ManualClock
from pybroker.cluster.metadata.image import OFFSETS_TOPIC
from pybroker.coordinator.txn.marker_writer import MarkerWriter
from pybroker.log.producers.marker import EndTxnMarker
from pybroker.topic_partition import TopicPartition
from pyclient.protocol import errors
from pyclient.protocol.errors import KafkaError

MARKER = EndTxnMarker(7, 1, 0, True, 2)


class Replicas:
    """Appends to a list. By topic, ``promises`` has the result of its promise, and ``errors`` the error of an append.
    """

    def __init__(self) -> None:
        self.appended: list[TopicPartition] = []
        self.refusals: dict[str, KafkaError] = {}
        self.promises: dict[str, KafkaError | None] = {}

    def append_marker(self, tp: TopicPartition, marker: EndTxnMarker, now_ms: int, timeout_ms: int) -> Any:
        assert marker == MARKER
        if tp.topic in self.refusals:
            raise self.refusals[tp.topic]
        self.appended.append(tp)
        done = self._later(self.promises[tp.topic]) if tp.topic in self.promises else None
        return SimpleNamespace(done=done)

    async def _later(self, error: KafkaError | None) -> None:
        await asyncio.sleep(0)
        if error is not None:
            raise error

    def complete_transaction(self, partition: int, marker: EndTxnMarker) -> Awaitable[None]:
        self.appended.append(TopicPartition(OFFSETS_TOPIC, partition))
        return self._later(self.promises.get(OFFSETS_TOPIC))


def write(replicas: Replicas, *topics: str) -> list[str | None]:
    async def run() -> list[str | None]:
        writer = MarkerWriter(replicas, replicas, ManualClock(), 1_000)
        partitions = [TopicPartition(topic, 0) for topic in topics]
        found = await writer.write(MARKER, partitions)
        return [None if (error := found[each]) is None else error.name for each in partitions]

    return asyncio.run(run())


def test_markers_are_written_at_once_and_confirmed_when_they_are_replicated() -> None:
    replicas = Replicas()
    replicas.promises = {"slow": None}
    assert write(replicas, "fast", "slow", OFFSETS_TOPIC) == [None, None, None]
    assert [each.topic for each in replicas.appended] == ["fast", "slow", OFFSETS_TOPIC]


def test_each_partition_has_its_own_outcome() -> None:
    replicas = Replicas()
    replicas.refusals = {"fenced": errors.TransactionCoordinatorFenced()}
    replicas.promises = {"late": errors.RequestTimedOut()}
    assert write(replicas, "fenced", "late", "fine") == [
        "TRANSACTION_COORDINATOR_FENCED",
        "REQUEST_TIMED_OUT",
        None,
    ]


def test_a_group_coordinator_that_is_not_ready_is_no_leader() -> None:
    for error in (errors.NotCoordinator(), errors.CoordinatorLoadInProgress()):
        replicas = Replicas()
        replicas.promises = {OFFSETS_TOPIC: error}
        assert write(replicas, OFFSETS_TOPIC, "fine") == ["NOT_LEADER_OR_FOLLOWER", None]


def test_many_partitions_let_others_have_their_turn() -> None:
    replicas = Replicas()
    assert write(replicas, *(f"t{number}" for number in range(250))) == [None] * 250
