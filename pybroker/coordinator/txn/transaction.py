"""A transactional id with its producer and its current or last transaction: a value.

Each event makes the next value of it, whose record is written; only ``replay`` puts it in place.

Epochs. A producer that takes the id over gets a greater epoch; with transactions v2 (KIP-890) so does every
transaction: the markers that end it carry its epoch plus one, in which the producer goes on. The greatest epoch is
never given to a producer, so that the owner of the last but one can still be fenced. Such an id is *exhausted* and
replaced by a new producer id. That is ``next_producer_id`` while the markers of its last transaction are under way.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final, NamedTuple

from pybroker.coordinator.shard import Producer
from pybroker.coordinator.txn.state import (
    COMES_FROM,
    COMPLETE_ABORT,
    COMPLETE_COMMIT,
    EMPTY,
    ONGOING,
    PREPARE_ABORT,
    PREPARE_COMMIT,
    PREPARED,
    TransactionState,
)
from pybroker.topic_partition import TopicPartition
from pyclient.protocol import errors

NO_ID: Final = -1
NO_EPOCH: Final = -1
NO_TIME: Final = -1
MAX_EPOCH: Final = (1 << 15) - 1
V2: Final = 2
"""The first transaction version with an epoch for each transaction."""

NO_PARTITIONS: Final[frozenset[TopicPartition]] = frozenset()


def is_exhausted(epoch: int) -> bool:
    """True where the next epoch could no longer be fenced."""
    return epoch >= MAX_EPOCH - 1


class Transaction(NamedTuple):
    """The state of a transactional id.

    ``last_epoch``: the one before, if it was its owner who bumped it: a request in it may be a
    retry. It is not in the log. ``version``: transaction version of the client of the last
    transaction. Times are in milliseconds since the epoch.
    """

    transactional_id: str
    producer_id: int
    epoch: int
    timeout_ms: int
    state: TransactionState
    updated_ms: int
    previous_producer_id: int = NO_ID
    next_producer_id: int = NO_ID
    last_epoch: int = NO_EPOCH
    partitions: frozenset[TopicPartition] = NO_PARTITIONS
    started_ms: int = NO_TIME
    version: int = 0

    @property
    def is_exhausted(self) -> bool:
        """True where the producer needs a new id before its next epoch."""
        return is_exhausted(self.epoch)

    def has_timed_out(self, now_ms: int) -> bool:
        """True for a transaction that has been going on for longer than its producer wanted."""
        return self.state is ONGOING and self.started_ms + self.timeout_ms < now_ms

    def check_not_prepared(self) -> None:
        """Raises ConcurrentTransactions while markers are written.

        Check this before the producer: a producer that goes on after the markers is not yet known by its new epoch or
        id, and would be taken for a stranger.
        """
        if self.state in PREPARED:
            raise errors.ConcurrentTransactions(f"{self.transactional_id} is being ended")

    # What may come next

    def initialised(
        self, producer_id: int, epoch: int, last_epoch: int, timeout_ms: int, now_ms: int
    ) -> Transaction:
        """InitProducerId has succeeded."""
        return self._to(
            EMPTY,
            producer_id=producer_id,
            epoch=epoch,
            last_epoch=last_epoch,
            timeout_ms=timeout_ms,
            partitions=NO_PARTITIONS,
            started_ms=NO_TIME,
            updated_ms=now_ms,
        )

    def added(
        self, partitions: Iterable[TopicPartition], version: int, now_ms: int
    ) -> Transaction:
        """Partitions come in, into a new transaction where none is going on."""
        return self._to(
            ONGOING,
            partitions=self.partitions.union(partitions),
            started_ms=self.started_ms if self.state is ONGOING else now_ms,
            updated_ms=now_ms,
            version=version,
        )

    def prepared(
        self, committed: bool, version: int, next_producer_id: int, now_ms: int
    ) -> Transaction:
        """The outcome is decided; with v2 in the next epoch, except that of MAX_EPOCH nothing is
        next.
        """
        changes: dict[str, Any] = {}
        if version >= V2:
            changes["last_epoch"] = self.epoch
            changes["epoch"] = min(self.epoch + 1, MAX_EPOCH)
        if self.state is not ONGOING:
            changes["started_ms"] = now_ms
        return self._to(
            PREPARE_COMMIT if committed else PREPARE_ABORT,
            next_producer_id=next_producer_id,
            updated_ms=now_ms,
            version=version,
            **changes,
        )

    def fenced(self) -> Transaction:
        """Returns the same in the next epoch, which no producer gets: before a v1 abort."""
        return self._replace(epoch=min(self.epoch + 1, MAX_EPOCH), last_epoch=NO_EPOCH)

    @property
    def following(self) -> Producer:
        """The producer that continues when the transaction is complete: an exhausted one has its new id."""
        if self.version >= V2 and self.next_producer_id != NO_ID:
            return Producer(self.next_producer_id, 0)
        return Producer(self.producer_id, self.epoch)

    def completed(self, now_ms: int) -> Transaction:
        """Every partition has its marker."""
        following = self.following
        return self._to(
            COMPLETE_COMMIT if self.state is PREPARE_COMMIT else COMPLETE_ABORT,
            producer_id=following.id,
            epoch=following.epoch,
            next_producer_id=NO_ID,
            partitions=NO_PARTITIONS,
            updated_ms=now_ms,
        )

    def _to(self, state: TransactionState, **changes: Any) -> Transaction:
        if self.state not in COMES_FROM[state]:
            raise ValueError(f"{self.transactional_id}: {self.state.label} to {state.label}")
        return self._replace(state=state, previous_producer_id=self.producer_id, **changes)


class Ending(NamedTuple):
    """An effect: these partitions want markers, then the shard ``complete``."""

    transactional_id: str
    producer_id: int
    producer_epoch: int
    committed: bool
    version: int
    partitions: frozenset[TopicPartition]

    @classmethod
    def of(cls, prepared: Transaction) -> Ending:
        """What follows from a prepared transaction."""
        return cls(
            prepared.transactional_id,
            prepared.producer_id,
            prepared.epoch,
            prepared.state is PREPARE_COMMIT,
            prepared.version,
            prepared.partitions,
        )
