"""A transactional id with its producer and its current or last transaction, as an immutable value.

Each event makes its next value, whose record is written; only ``replay`` makes it the current one.

Epochs: a producer that takes over the id gets a greater epoch. With transactions v2 (KIP-890) so does every
transaction: the markers that end it have its epoch plus one, with which the producer continues. No producer ever gets
the greatest epoch: it can only fence the owner of the epoch before it. A producer id without a further epoch is
*exhausted*, and a new producer id replaces it. While the markers of its last transaction are being written,
``next_producer_id`` is the new one.
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
    """Returns whether the next epoch could not be fenced."""
    return epoch >= MAX_EPOCH - 1


class Transaction(NamedTuple):
    """The state of a transactional id.

    ``last_epoch`` is the previous epoch, if its owner itself bumped it: a request with it may be a retry. It is not in
    the log. ``version`` is the transaction version of the last transaction's client. Times are in milliseconds since
    1970.
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
        """True if the producer needs a new id before its next epoch."""
        return is_exhausted(self.epoch)

    def has_timed_out(self, now_ms: int) -> bool:
        """Returns whether the transaction has been open for longer than its timeout."""
        return self.state is ONGOING and self.started_ms + self.timeout_ms < now_ms

    def check_not_prepared(self) -> None:
        """Raises ConcurrentTransactions while markers are written.

        Check this before you check the producer. A producer that continues already has the new epoch or id, which the
        coordinator does not know until the markers are written. It would be refused for good.
        """
        if self.state in PREPARED:
            raise errors.ConcurrentTransactions(f"{self.transactional_id} is being ended")

    # # Next values

    def initialised(
        self, producer_id: int, epoch: int, last_epoch: int, timeout_ms: int, now_ms: int
    ) -> Transaction:
        """Returns the value after InitProducerId."""
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
        """Returns the value with these partitions added; begins a transaction if none is open."""
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
        """Returns the value with a decided outcome; with v2 in the next epoch, unless that is above MAX_EPOCH."""
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
        """Returns the value in the next epoch, which no producer gets: before a v1 abort."""
        return self._replace(epoch=min(self.epoch + 1, MAX_EPOCH), last_epoch=NO_EPOCH)

    @property
    def following(self) -> Producer:
        """The producer with which the client continues after the transaction. An exhausted id is replaced."""
        if self.version >= V2 and self.next_producer_id != NO_ID:
            return Producer(self.next_producer_id, 0)
        return Producer(self.producer_id, self.epoch)

    def completed(self, now_ms: int) -> Transaction:
        """Returns the value after all markers are written."""
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
    """An effect: write markers to these partitions, then call the shard's ``complete``."""

    transactional_id: str
    producer_id: int
    producer_epoch: int
    committed: bool
    version: int
    partitions: frozenset[TopicPartition]

    @classmethod
    def of(cls, prepared: Transaction) -> Ending:
        """Returns the ending of a prepared transaction."""
        return cls(
            prepared.transactional_id,
            prepared.producer_id,
            prepared.epoch,
            prepared.state is PREPARE_COMMIT,
            prepared.version,
            prepared.partitions,
        )
