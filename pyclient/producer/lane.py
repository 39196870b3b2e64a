"""What the sender knows of one partition: what is under way, and the sequences of idempotence (KIP-98).

The broker takes a batch only if its sequence follows the one before it, so a lane sees to it that

- at most five batches are under way, and after a failure only the oldest one goes, until it is
  through: then the next one;
- the first batch under a producer id is alone until it is acknowledged: a broker that does not know
  the id takes any sequence, so a second batch could be written where the first one was lost;
- a batch of which nobody knows whether it was written goes again with the very same producer id,
  epoch and sequence, so that a second one is recognised;
- sequences start anew, at 0 under the next epoch, only when nothing is under way and it is known
  of every batch that is left that it was not written. Until then the lane is *halted*. Lanes do this
  one by one: the others go on under the old epoch, and change to the new one when they are empty;
- what became of a batch is told when that is told of all that were sent before it. It may be known
  earlier: of one that a broker answered while nobody had an answer to the one before. It is *held*.

A broker that misses what comes before a batch may have it nonetheless: after a restart Kafka knows only
the last batch of a producer (ProducerStateManager). So what may have been written is *denied* at first,
and those behind it that may have been written go too, one by one under their old sequences. Nothing is
appended behind a gap, so one that is acknowledged proves all before it. If all are denied, there is a gap,
and none was written; but where the last of them was given up, nobody knows, and the denied are *doubtful*.

No I/O, no clock.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from typing import Final, NamedTuple

from cy.mould import Mould
from cy.partition_queue import PartitionQueue
from cy.producer_batch import ProducerBatch

MAX_SEQUENCE = 0x7FFFFFFF
WINDOW = 5
"""Batches under way that a broker recognises when they come again."""
LAST: Final = 1 << 62
"""Behind every batch that has gone."""


class Identity(NamedTuple):
    """Who the broker takes the producer for."""

    producer_id: int
    epoch: int


class Verdict(Enum):
    """What a sequence error means."""

    RETRY = "an earlier batch is still under way"
    HALTED = "there is a gap: new sequences are needed"


class Held(NamedTuple):
    """A batch of which it is known what became, behind one of which it is not."""

    batch: ProducerBatch
    written: bool
    """It is in the log, and so is what was sent before it and may be."""
    tell: Callable[[], None]


class Lane:
    """One partition's batches between queue and broker. ``identity`` is None without idempotence."""

    __slots__ = (
        "acknowledged",
        "added",
        "denied",
        "halted",
        "held",
        "identity",
        "in_flight",
        "leader",
        "mould",
        "next_sequence",
        "queue",
        "unsure",
        "version",
    )

    def __init__(self, queue: PartitionQueue) -> None:
        self.queue = queue
        self.in_flight: list[ProducerBatch] = []
        self.identity: Identity | None = None
        self.next_sequence = 0
        self.acknowledged = False
        """The broker knows the producer id."""
        self.halted = False
        self.denied: list[ProducerBatch] = []
        """While halted: those that may have been written, and of which the broker says that they do not follow."""
        self.unsure = 0
        """The order of the last that may have been written and was given up."""
        self.held: list[Held] = []
        self.leader = -1
        self.version = -1
        """The cluster's version of which ``leader`` and ``mould`` are."""
        self.mould: Mould | None = None
        """Of requests with one of its batches; None: not made yet."""
        self.added = False
        """Part of the current transaction (version 1)."""

    def next(self) -> ProducerBatch | None:
        """The batch that may go now, None if none may. It stays in the queue."""
        head = self.queue.first()
        if head is None:
            return None
        if self.halted:
            return self._unknown()
        if self.in_flight and self.identity is not None and not self.acknowledged:
            return None
        if head.order == 0:
            return head if self._has_window() else None
        if self.in_flight and self.in_flight[0].order < head.order and self.identity is not None:
            return None
        return head

    def _has_window(self) -> bool:
        """A batch may go for the first time. Not while one goes again: it must not leave the window
        of those that the broker recognises.
        """
        if self.identity is None:
            return True
        in_flight = self.in_flight
        return not in_flight or (len(in_flight) + len(self.held) < WINDOW and in_flight[0].attempts == 1)

    def _unknown(self) -> ProducerBatch | None:
        """While halted: the first batch that may have been written and is not denied, alone."""
        if self.in_flight:
            return None
        waiting = self.queue.batches()
        return next((batch for batch in waiting if batch.maybe_written and batch not in self.denied), None)

    def wants_reset(self) -> bool:
        """Halted, and everything that is left is known not to be written."""
        return self.halted and not self.in_flight and self._unknown() is None

    def is_idle(self) -> bool:
        """Nothing is under way, nothing waits that has a sequence: the identity may change."""
        head = self.queue.first()
        return not self.in_flight and (head is None or not head.has_sequence)

    def reset(self, identity: Identity) -> None:
        """Sequences start anew; everything that waits gets new ones when it goes."""
        if self.identity is None or self.identity.producer_id != identity.producer_id:
            self.acknowledged = False
        self.identity = identity
        self.next_sequence = 0
        self.halted = False
        self.denied.clear()
        self.unsure = 0
        self.held = [held._replace(written=False) for held in self.held]
        for batch in self.queue.batches():
            batch.clear_sequence()
            batch.maybe_written = False

    def depart(self, batch: ProducerBatch, order: int) -> None:
        """The sealed batch, taken from the queue, goes: gives it its sequence."""
        if self.identity is None:
            if not batch.attempts:
                batch.assign()
        elif not batch.has_sequence:
            batch.assign(*self.identity, self.next_sequence)
            self.next_sequence = after(self.next_sequence, batch.count)
        elif batch.producer_id < 0:  # a part of one that was split: its share of the sequences
            batch.assign(*self.identity, batch.base_sequence)
        batch.order = batch.order or order
        batch.attempts += 1
        self._insert(batch)

    def _insert(self, batch: ProducerBatch) -> None:
        at = len(self.in_flight)
        while at and self.in_flight[at - 1].order > batch.order:
            at -= 1
        self.in_flight.insert(at, batch)

    def arrive(self, batch: ProducerBatch) -> None:
        """Its request is answered, or lost."""
        self.in_flight.remove(batch)

    def out_of_order(self, batch: ProducerBatch) -> Verdict:
        """The broker misses what comes before this batch (which has arrived)."""
        under_way = bool(self.in_flight) and self.in_flight[0].order < batch.order
        if not self.halted and (under_way or self._waits_before(batch.order)):
            return Verdict.RETRY
        self.halted = True
        if batch.maybe_written:
            self.denied.append(batch)
        return Verdict.HALTED

    def follows(self, batch: ProducerBatch) -> list[ProducerBatch]:
        """This batch (which has arrived) is in the log: those before it that were denied, which are too.
        They wait no more.
        """
        found = [other for other in self.denied if other.order < batch.order]
        for other in found:
            self.denied.remove(other)
            self.queue.remove(other)
        self.halted = self.halted and not found
        return found

    def doubtful(self) -> list[ProducerBatch]:
        """Those that are denied, where the only ones that could have proved them were given up: nobody will
        ever know whether they were written.
        """
        if not self.unsure or not self.wants_reset():
            return []
        return [batch for batch in self.denied if batch.order < self.unsure]

    # -- what is told ------------------------------------------------------------------------------

    def is_behind(self, batch: ProducerBatch) -> bool:
        """What became of one that was sent before this one (which waits no more) is not told yet."""
        if self.identity is None:
            return False
        order = batch.order or LAST
        if self._waits_before(order) or (self.held and (self.held[0].batch.order or LAST) < order):
            return True
        return bool(self.in_flight) and any(other.order < order and not other.done for other in self.in_flight)

    def _waits_before(self, order: int) -> bool:
        head = self.queue.first()
        return head is not None and 0 < head.order < order

    def hold(self, held: Held) -> None:
        """It is told later."""
        order, at = held.batch.order or LAST, len(self.held)
        while at and (self.held[at - 1].batch.order or LAST) > order:
            at -= 1
        self.held.insert(at, held)

    def released(self) -> Held | None:
        """The next that is not to be held any more, None if there is none."""
        if self.held and not self.is_behind(self.held[0].batch):
            return self.held.pop(0)
        return None

    def proves(self, batch: ProducerBatch) -> bool:
        """The batch may have been written, and one behind it was: so it is in the log."""
        may_be = batch.maybe_written or batch in self.in_flight
        return may_be and any(other.written and other.batch.order > batch.order for other in self.held)

    def refused(self, batch: ProducerBatch) -> None:
        """The batch (which waits no more) will not be sent again. If it was not written either, its
        sequences are missing.
        """
        if batch in self.denied:
            self.denied.remove(batch)
        if batch.maybe_written:
            self.unsure = max(self.unsure, batch.order)
        if self.identity is None or not batch.has_sequence or batch.maybe_written:
            return
        last = after(batch.base_sequence, batch.count) == self.next_sequence
        if last and batch.producer_id == self.identity.producer_id:
            self.next_sequence = batch.base_sequence
        else:
            self.halted = True

    def split(self, batch: ProducerBatch, limit: int) -> list[ProducerBatch]:
        """The batch (which has arrived) was too large: its parts wait in its place, and share its
        sequences.
        """
        parts = batch.split(limit)
        sequence, order = batch.base_sequence, batch.order
        for part in parts:
            part.order = order
            order += part.count
            if sequence >= 0:
                part.reserve_sequence(sequence)
                sequence = after(sequence, part.count)
            self.queue.put_back(part)
        return parts


def after(sequence: int, count: int) -> int:
    """The sequence that follows ``count`` records from this one."""
    return (sequence + count) & MAX_SEQUENCE
