"""Keeps a partition's batches that were sent, and the sequences of idempotence (KIP-98).

A batch that was never sent is in the partition's queue. When it is first sent, it is appended to the lane's list. It
keeps its place there until its result is reported. Its phase tells its state:

    QUEUED -> UNDER_WAY -> ARRIVED -> WRITTEN, FAILED
              UNDER_WAY <- WAITING <- ARRIVED -> DENIED

The broker takes a batch only if its sequence follows the one before it. So a lane ensures the following:

- At most five batches are under way. After a failure only the oldest one is sent, until it is decided; then the next.
- The first batch under a producer id is alone until it is acknowledged. A broker that does not know the id takes any
  sequence, so a second batch could be written where the first one was lost.
- If nobody knows whether a batch was written, it is sent again with the same producer id, epoch and sequence. The
  broker then recognises a duplicate.
- Sequences start again, at 0 under the next epoch, only when nothing is under way and every remaining batch is known
  to be unwritten. Until then the lane is *halted*. Lanes do this one by one: the others continue under the old epoch,
  and change to the new one when they are empty.
- The result of a batch is reported after the results of all batches sent before it. It may be known earlier, if a
  broker answered it while the one before it had no answer yet.

A broker that misses what comes before a batch may have it nonetheless. After a restart Kafka knows only the last batch
of a producer (ProducerStateManager). So a batch that may have been written is first *denied*. The following ones that
may have been written are sent too, one by one under their old sequences. Nothing is appended behind a gap, so an
acknowledged batch proves all before it. If all are denied, there is a gap, and none was written. But if the last of
them was given up, nobody knows, and the denied ones are *doubtful*.

No I/O, no clock.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from typing import Final, NamedTuple

from cy.produce.partition_queue import PartitionQueue
from cy.produce.phase import ARRIVED, DENIED, QUEUED, UNDER_WAY, WAITING, WRITTEN, Phase
from cy.produce.produce_template import ProduceTemplate
from cy.produce.producer_batch import ProducerBatch

MAX_SEQUENCE = 0x7FFFFFFF
WINDOW = 5
"""Batches under way that a broker recognises when they come again."""
WAITS: Final = (WAITING, DENIED)


class Identity(NamedTuple):
    """The producer's identity for the broker."""

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
        "batches",
        "halted",
        "identity",
        "leader",
        "next_sequence",
        "queue",
        "template",
        "version",
    )

    def __init__(self, queue: PartitionQueue) -> None:
        self.queue = queue
        """What was never sent."""
        self.batches: list[ProducerBatch] = []
        """All others, in the order in which they were first sent, each until no request has it and its result was
        reported. Its ``phase`` says what is with it now.
        """
        self.identity: Identity | None = None
        self.next_sequence = 0
        self.acknowledged = False
        """The broker knows the producer id."""
        self.halted = False
        self.leader = -1
        self.version = -1
        """The cluster's version of which ``leader`` and ``template`` are."""
        self.template: ProduceTemplate | None = None
        """The template of requests with one of its batches; None: not made yet."""
        self.added = False
        """Part of the current transaction (version 1)."""

    # -- what goes ---------------------------------------------------------------------------------

    def next(self) -> ProducerBatch | None:
        """The batch that may go now, None if none may. It stays where it is."""
        if not self.batches:
            return None if self.halted else self.queue.first()
        if self.halted:
            return self._unknown()
        again = self._first(WAITING, ARRIVED)
        under_way = None if self.identity is None else self._first(UNDER_WAY)
        if again is None:
            return self.queue.first() if self._has_window(under_way) else None
        if again.phase is ARRIVED or (under_way is not None and again in self._behind(under_way)):
            return None
        return again

    def _has_window(self, under_way: ProducerBatch | None) -> bool:
        """A batch may go for the first time behind the first that is under way. Not while that one goes again:
        it must not leave the window of those that the broker recognises.
        """
        if under_way is None:
            return True
        return self.acknowledged and len(self.batches) < WINDOW and under_way.attempts == 1

    def _unknown(self) -> ProducerBatch | None:
        """While halted: the first batch that may have been written and is not denied, alone."""
        if self._is_out():
            return None
        found = (batch for batch in self.batches if batch.phase is WAITING and batch.maybe_written)
        return next(found, None)

    def _first(self, phase: Phase, other: Phase | None = None) -> ProducerBatch | None:
        for batch in self.batches:
            if batch.phase is phase or batch.phase is other:
                return batch
        return None

    def _is_out(self) -> bool:
        """A request has a batch, or had it, and what that means is not decided."""
        return self._first(UNDER_WAY, ARRIVED) is not None

    def _before(self, batch: ProducerBatch) -> list[ProducerBatch]:
        return self.batches[: self.batches.index(batch)]

    def _behind(self, batch: ProducerBatch) -> list[ProducerBatch]:
        return self.batches[self.batches.index(batch) + 1 :]

    def has_waiting(self) -> bool:
        """Something is to be sent, for the first time or again."""
        return not self.queue.empty or self._first(WAITING, DENIED) is not None

    def waiting(self) -> list[ProducerBatch]:
        """All that is to be sent, for the first time or again, in its order."""
        return [batch for batch in self.batches if batch.phase in WAITS] + self.queue.batches()

    def wants_reset(self) -> bool:
        """Halted, and everything that is left is known not to be written."""
        return self.halted and not self._is_out() and self._unknown() is None

    def is_idle(self) -> bool:
        """Whether the identity may change: no batch is in flight, and none that waits has a sequence."""
        return not self._is_out() and not any(each.phase in WAITS and each.has_sequence for each in self.batches)

    def reset(self, identity: Identity) -> None:
        """Sequences start again, at 0; everything that waits gets new ones when it goes."""
        if self.identity is None or self.identity.producer_id != identity.producer_id:
            self.acknowledged = False
        self.identity = identity
        self.next_sequence = 0
        self.halted = False
        for batch in self.batches:
            batch.unprovable = False
            if batch.phase in WAITS:
                batch.phase = WAITING
                batch.clear_sequence()
                batch.maybe_written = False

    def take(self, batch: ProducerBatch) -> None:
        """The batch leaves the queue, if it is there, for the others."""
        if batch.phase is QUEUED:
            self.queue.remove(batch)
            self.batches.append(batch)
            batch.phase = WAITING

    def drain(self) -> list[ProducerBatch]:
        """All that is to be sent, which will not be: what becomes of it is to be decided."""
        found = self.waiting()
        for batch in found:
            self.take(batch)
            batch.phase = ARRIVED
        return found

    def depart(self, batch: ProducerBatch) -> None:
        """The sealed batch, taken from the queue, goes: gives it its sequence."""
        if self.identity is None:
            if not batch.attempts:
                batch.assign()
        elif not batch.has_sequence:
            batch.assign(*self.identity, self.next_sequence)
            self.next_sequence = after(self.next_sequence, batch.count)
        elif batch.producer_id < 0:  # a part of one that was split: its share of the sequences
            batch.assign(*self.identity, batch.base_sequence)
        batch.attempts += 1
        batch.phase = UNDER_WAY

    # -- what came back ----------------------------------------------------------------------------

    def arrive(self, batch: ProducerBatch) -> None:
        """Its request is answered, or lost."""
        batch.phase = ARRIVED

    def wait(self, batch: ProducerBatch) -> None:
        """The batch (which has arrived) is to be sent again, unless it was denied."""
        if batch.phase is ARRIVED:
            batch.phase = WAITING

    def out_of_order(self, batch: ProducerBatch) -> Verdict:
        """The broker misses what comes before this batch (which has arrived)."""
        if not self.halted:
            if any(other.phase in (UNDER_WAY, WAITING) for other in self._before(batch)):
                return Verdict.RETRY
            self.halted = True
        if batch.maybe_written:
            batch.phase = DENIED
        return Verdict.HALTED

    def follows(self, batch: ProducerBatch) -> list[ProducerBatch]:
        """This batch (which has arrived) is in the log: those before it that were denied, which are too."""
        found = [other for other in self._before(batch) if other.phase is DENIED]
        if found:
            self.halted = False
            for other in self.batches:
                if other.phase is DENIED:
                    other.phase = ARRIVED if other in found else WAITING
        return found

    def doubtful(self) -> list[ProducerBatch]:
        """The denied batches, where the only ones that could have proved them were given up: nobody will ever know
        whether they were written.
        """
        found = [batch for batch in self.batches if batch.unprovable and batch.phase is DENIED]
        return found if found and self.wants_reset() else []

    def refused(self, batch: ProducerBatch) -> None:
        """The batch (which has arrived) will not be sent again. If it was not written either, its sequences are
        missing.
        """
        if batch.maybe_written:
            for other in self._before(batch):
                other.unprovable = True
        elif self.identity is not None and batch.has_sequence:
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
        sequence = batch.base_sequence
        for part in parts:
            part.phase, part.unprovable = WAITING, batch.unprovable
            if sequence >= 0:
                part.reserve_sequence(sequence)
                sequence = after(sequence, part.count)
        at = self.batches.index(batch)
        self.batches[at : at + 1] = parts
        return parts

    # -- what is told ------------------------------------------------------------------------------

    def leaves_alone(self, batch: ProducerBatch) -> bool:
        """The batch (which has arrived) is in the log and there is no other: it is gone, and it is its turn."""
        if len(self.batches) > 1 or batch.tell is not None:
            return False
        batch.phase = WRITTEN
        self.batches.clear()
        return True

    def decide(self, batch: ProducerBatch, phase: Phase, tell: Callable[[], object]) -> None:
        """It is known what became of the batch, perhaps while it is under way. ``due`` says when to ``tell``."""
        if batch.phase is not UNDER_WAY:
            batch.phase = phase
        if batch.tell is None:
            batch.tell = tell

    def due(self) -> Callable[[], object] | None:
        """Reports the result of the next batch, once the results of all that were sent before it are reported; None if
        it is nobody's turn. Without idempotence it is everybody's.
        """
        for batch in self.batches:
            tell = batch.tell
            if tell is not None:
                batch.tell = None
                if batch.phase is not UNDER_WAY:
                    self.batches.remove(batch)
                return tell
            if not batch.done and self.identity is not None:
                return None
        return None

    def forget(self, batch: ProducerBatch) -> None:
        """Removes a batch whose result was reported, in its turn or before."""
        if batch in self.batches:
            self.batches.remove(batch)

    def proves(self, batch: ProducerBatch) -> bool:
        """The batch may have been written, and one behind it, of the same identity, was: so it is in the log."""
        if not batch.maybe_written and batch.phase is not UNDER_WAY:
            return False
        identity = batch.producer_id, batch.producer_epoch
        return any(
            other.phase is WRITTEN and (other.producer_id, other.producer_epoch) == identity
            for other in self._behind(batch)
        )


def after(sequence: int, count: int) -> int:
    """The sequence that follows ``count`` records from this one."""
    return (sequence + count) & MAX_SEQUENCE
