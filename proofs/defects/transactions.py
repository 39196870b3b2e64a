"""Defects of transactions: their markers, their owners, and what read_committed consumers see."""

from __future__ import annotations

from typing import Any

from proofs.defects import Patch
from proofs.defects.suites import TRANSACTIONS, TWICE, in_histories, in_trial
from pybroker.coordinator.group.offset_store import OffsetStore
from pybroker.coordinator.runtime import Runtime
from pybroker.coordinator.txn import ending, initialising
from pybroker.coordinator.txn.marker_sender import MarkerSender
from pybroker.coordinator.txn.marker_writer import MarkerWriter
from pybroker.coordinator.txn.shard import TransactionShard
from pybroker.handlers.common import admission
from pybroker.log.log import Log
from pybroker.log.producers.marker import EndTxnMarker
from pybroker.log.producers.producer_state import ProducerStates


@in_histories("late answers", *TRANSACTIONS)
def transactions_share_an_epoch() -> list[Patch]:
    """In transactions v1, a late EndTxn ends the next transaction (KIP-890)."""
    from proofs.simulator.clients.transactions import TransactionalWriter

    begin = TransactionalWriter.__init__

    def begin_old(self: TransactionalWriter, *arguments: Any) -> None:
        begin(self, *arguments, is_old=True)

    return [(TransactionalWriter, "__init__", begin_old)]


@in_histories("late answers", *TRANSACTIONS)
def a_late_marker_ends_the_next_transaction() -> list[Patch]:
    """The log ignores the marker's epoch (KIP-1228)."""
    return [(ProducerStates, "check_marker", lambda *_: None)]


@in_histories("late answers", *TRANSACTIONS)
def any_end_txn_is_valid() -> list[Patch]:
    """The coordinator ignores the epoch of an EndTxn."""
    return [(ending, "_is_valid_epoch", lambda *_: True)]


@in_trial("zombie", "aborted read")
@in_histories("zombies", *TRANSACTIONS, *TWICE)
def fences_nobody() -> list[Patch]:
    """A new owner of a transactional id gets the epoch of the old one."""

    def following(transaction: Any, expected: Any, ids: Any) -> tuple[int, int, int]:
        return transaction.producer_id, transaction.epoch, -1

    return [(initialising, "_next", following)]


@in_histories("commits", *TRANSACTIONS)
def writes_are_not_verified() -> list[Patch]:
    """A late write begins a transaction that nobody ends."""
    return [(admission, "inquiry", lambda *_: None)]


# Markers


@in_histories("commits", *TRANSACTIONS, rarely=True)
def markers_go_out_too_soon() -> list[Patch]:
    """The coordinator sends markers before the replicas have the outcome."""

    def when_safe(self: Any, hosted: Any, effects: list[object], promise: Any) -> None:
        for effect in effects:
            self._do(hosted.name.partition, effect)

    return [(Runtime, "_when_safe", when_safe)]


@in_trial("prepared", "stuck")
@in_histories("commits", *TRANSACTIONS)
def forgets_what_was_prepared() -> list[Patch]:
    """A new coordinator does not finish a prepared transaction."""
    loaded = TransactionShard.loaded

    def loaded_only(self: TransactionShard, result: Any) -> None:
        loaded(self, result)
        result.effects.clear()

    return [(TransactionShard, "loaded", loaded_only)]


@in_histories("commits", *TRANSACTIONS)
def sends_a_marker_once() -> list[Patch]:
    """The coordinator does not retry a marker that was refused."""

    async def end(self: MarkerSender, partition: int, leader_epoch: int, ending: Any) -> None:
        marker = EndTxnMarker(ending.producer_id, ending.producer_epoch, leader_epoch, ending.committed, ending.version)
        await self._deliver(marker, set(ending.partitions), ending.transactional_id)
        await self._host.complete(partition, ending)

    return [(MarkerSender, "_end", end)]


@in_trial("transactions", "aborted read")
def commits_what_was_aborted() -> list[Patch]:
    """The coordinator writes every marker as a commit."""
    write = MarkerWriter.write

    def commit(self: MarkerWriter, marker: Any, partitions: Any) -> Any:
        return write(self, marker._replace(committed=True), partitions)

    return [(MarkerWriter, "write", commit)]


@in_trial("transactions", "lost", "torn")
def aborts_in_the_first_partition() -> list[Patch]:
    """The first partition gets an abort marker, the others a commit marker."""
    append = MarkerWriter._append

    def abort_there(self: MarkerWriter, marker: Any, partition: Any) -> Any:
        return append(self, marker._replace(committed=False) if partition.partition == 0 else marker, partition)

    return [(MarkerWriter, "_append", abort_there)]


@in_trial("transactions", "stuck")
def forgets_a_marker() -> list[Patch]:
    """The second partition gets no marker."""
    append = MarkerWriter._append

    def append_most(self: MarkerWriter, marker: Any, partition: Any) -> Any:
        return None if partition.partition == 1 else append(self, marker, partition)

    return [(MarkerWriter, "_append", append_most)]


# What read_committed consumers and groups see


@in_trial("transactions", "aborted read")
@in_histories("commits", *TRANSACTIONS)
def shows_open_transactions() -> list[Patch]:
    """Consumers read undecided records."""
    return [(Log, "last_stable_offset", property(lambda self: self.high_watermark))]


@in_trial("transactions", "aborted read")
@in_histories("commits", *TRANSACTIONS)
def names_no_aborted_transactions() -> list[Patch]:
    """The broker does not tell consumers which transactions were aborted."""
    return [(Log, "aborted_transactions", lambda *_: [])]


@in_trial("offsets", "went back")
def loses_offsets_of_transactions() -> list[Patch]:
    """The coordinator treats every transaction's offsets as aborted."""
    end = OffsetStore.end
    return [(OffsetStore, "end", lambda self, producer_id, *, committed: end(self, producer_id, committed=False))]
