"""Writes the markers of ended transactions into partitions that this broker leads.

It serves a coordinator on this broker as well as on others (WriteTxnMarkers). Partitions of ``__consumer_offsets`` get
their markers through the group coordinator, whose shards must take over committed offsets.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Mapping, Sequence
from typing import Final, Protocol

from pybroker.clock import Clock
from pybroker.cluster.metadata.image import OFFSETS_TOPIC
from pybroker.log.producers.marker import EndTxnMarker
from pybroker.replication.promises import Appended
from pybroker.topic_partition import TopicPartition
from pyclient.protocol import errors
from pyclient.protocol.errors import KafkaError

Outcomes = Mapping[TopicPartition, KafkaError | None]

_TURN: Final = 100
"""How many markers are appended before other requests get their turn."""


class Replicas(Protocol):
    """The part of ``pybroker.replication.ReplicaManager`` that this module uses."""

    def append_marker(
        self, topic_partition: TopicPartition, marker: EndTxnMarker, now_ms: int, timeout_ms: int
    ) -> Appended: ...


class Offsets(Protocol):
    """The part of the group coordinator's runtime that this module uses."""

    def complete_transaction(self, partition: int, marker: EndTxnMarker) -> Awaitable[None]: ...


class MarkerWriter:
    """Writes markers into local partitions."""

    def __init__(
        self, replicas: Replicas, offsets: Offsets, clock: Clock, timeout_ms: int
    ) -> None:
        self._replicas = replicas
        self._offsets = offsets
        self._clock = clock
        self._timeout_ms = timeout_ms

    async def write(self, marker: EndTxnMarker, partitions: Sequence[TopicPartition]) -> Outcomes:
        """Appends the marker to each partition; the outcome is None once it has the guarantee of acks=all.

        Other outcomes are InvalidProducerEpoch, TransactionCoordinatorFenced, and errors to retry:
        UnknownTopicOrPartition, NotLeaderOrFollower, NotEnoughReplicas, NotEnoughReplicasAfterAppend, RequestTimedOut,
        KafkaStorageError.
        """
        outcomes: dict[TopicPartition, KafkaError | None] = {}
        waiting: dict[TopicPartition, Awaitable[None]] = {}
        for number, each in enumerate(partitions, 1):
            try:
                done = self._append(marker, each)
            except KafkaError as error:
                outcomes[each] = error
            else:
                outcomes[each] = None
                if done is not None:
                    waiting[each] = done
            if number % _TURN == 0:
                await asyncio.sleep(0)
        if waiting:
            found = await asyncio.gather(*waiting.values(), return_exceptions=True)
            for each, outcome in zip(waiting, found, strict=True):
                outcomes[each] = _error(outcome)
        return outcomes

    def _append(self, marker: EndTxnMarker, partition: TopicPartition) -> Awaitable[None] | None:
        if partition.topic == OFFSETS_TOPIC:
            return self._offsets.complete_transaction(partition.partition, marker)
        appended = self._replicas.append_marker(
            partition, marker, self._clock.now_ms(), self._timeout_ms
        )
        done: Awaitable[None] | None = appended.done
        return done


_NOT_READY = (
    errors.NotCoordinator,
    errors.CoordinatorLoadInProgress,
    errors.CoordinatorNotAvailable,
)


def _error(outcome: object) -> KafkaError | None:
    """Returns the error for transaction coordinators, which do not know the errors of group coordinators."""
    if isinstance(outcome, _NOT_READY):
        return errors.NotLeaderOrFollower(str(outcome))
    if outcome is None or isinstance(outcome, KafkaError):
        return outcome
    if isinstance(outcome, asyncio.CancelledError):
        return errors.NotLeaderOrFollower("another broker leads the partition now")
    if isinstance(outcome, BaseException):
        return errors.UnknownServerError(repr(outcome))
    return None
