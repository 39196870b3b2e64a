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
  one by one: the others go on under the old epoch, and change to the new one when they are empty.

No I/O, no clock.
"""

from __future__ import annotations

from enum import Enum
from typing import NamedTuple

from cy.partition_queue import PartitionQueue
from cy.producer_batch import ProducerBatch

MAX_SEQUENCE = 0x7FFFFFFF
WINDOW = 5
"""Batches under way that a broker recognises when they come again."""


class Identity(NamedTuple):
    """Who the broker takes the producer for."""

    producer_id: int
    epoch: int


class Verdict(Enum):
    """What a sequence error means."""

    RETRY = "an earlier batch is still under way"
    HALTED = "there is a gap: new sequences are needed"


class Lane:
    """One partition's batches between queue and broker. ``identity`` is None without idempotence."""

    __slots__ = (
        "acknowledged",
        "added",
        "halted",
        "identity",
        "in_flight",
        "leader",
        "next_sequence",
        "queue",
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
        self.leader = -1
        self.version = -1
        """The cluster's version of which ``leader`` is."""
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
        return not in_flight or (len(in_flight) < WINDOW and in_flight[0].attempts == 1)

    def _unknown(self) -> ProducerBatch | None:
        """While halted: the first batch that may have been written, alone."""
        if self.in_flight:
            return None
        return next((batch for batch in self.queue.batches() if batch.maybe_written), None)

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
        for batch in self.queue.batches():
            batch.clear_sequence()

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
        head = self.queue.first()
        before = [*self.in_flight[:1], *([head] if head is not None and head.order else [])]
        if any(other.order < batch.order for other in before):
            return Verdict.RETRY
        self.halted = True
        return Verdict.HALTED

    def refused(self, batch: ProducerBatch) -> None:
        """The batch (which has arrived) will never be written: its sequences are missing."""
        if self.identity is None or not batch.has_sequence:
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
