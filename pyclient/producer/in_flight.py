"""Keeps a partition's batches that were sent and wait for their ack, and the sequences of idempotence (KIP-98).

Each partition has a *lane*. A batch that was never sent is in the partition's queue. When it is first sent, it is
appended to the lane's list. It keeps its place there until its result is reported. Its phase is its state:

    QUEUED -> UNDER_WAY -> ARRIVED -> WRITTEN, FAILED
              UNDER_WAY <- WAITING <- ARRIVED -> DENIED

The broker takes a batch only if its sequence follows the previous one. So a lane ensures the following:

- At most five batches are in flight. After a failure only the oldest one is sent, until it is decided; then the next.
- The first batch under a producer id is sent alone until it is acknowledged. A broker that does not know the id takes
  any sequence, so it could write a second batch although the first one was lost.
- If it is unknown whether a batch was written, it is sent again with the same producer id, epoch and sequence. The
  broker then recognises a duplicate.
- Sequences restart at 0 under the next epoch, only when nothing is in flight and every remaining batch is known to be
  unwritten. Until then the lane is *halted*. Lanes do this one by one: the others continue under the old epoch, and
  change to the new one when they are empty.
- The result of a batch is reported after the results of all batches sent before it, even if it is known earlier.

A broker that reports a gap before a batch may have written the batch nonetheless: after a restart Kafka knows only the
last batch of a producer (ProducerStateManager). So a batch that may have been written is first *denied*. The following
batches that may have been written are sent too, one by one under their old sequences. A broker appends nothing behind a
gap, so one acknowledged batch proves all before it. If all are denied, there is a gap, and none was written. But if the
last of them was given up, nobody knows, and the denied ones are *doubtful*.

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
"""The number of batches in flight per partition. A broker recognises at most so many batches that are sent again."""
WAITS: Final = (WAITING, DENIED)


class Identity(NamedTuple):
    """A producer id and its epoch."""

    producer_id: int
    epoch: int


class Verdict(Enum):
    """The meaning of a sequence error."""

    RETRY = "an earlier batch is still in flight"
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
        """The batches that were never sent."""
        self.batches: list[ProducerBatch] = []
        """All other batches, in the order in which they were first sent. Each stays until no request contains it and
        its result was reported. ``phase`` is its state.
        """
        self.identity: Identity | None = None
        self.next_sequence = 0
        self.acknowledged = False
        """True if the broker knows the producer id."""
        self.halted = False
        self.leader = -1
        self.version = -1
        """The version of the cluster's metadata that ``leader`` and ``template`` come from."""
        self.template: ProduceTemplate | None = None
        """The template of requests with one batch of this lane; None if it is not made yet."""
        self.added = False
        """True if the partition is part of the current transaction (version 1)."""

    # -- what goes ---------------------------------------------------------------------------------

    def next(self) -> ProducerBatch | None:
        """Returns the batch that may be sent now, None if none may. It stays in its place."""
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
        """Returns whether a new batch may be sent while ``under_way`` is in flight.

        Returns False if that batch is being sent again: it must stay among the batches that the broker recognises.
        """
        if under_way is None:
            return True
        return self.acknowledged and len(self.batches) < WINDOW and under_way.attempts == 1

    def _unknown(self) -> ProducerBatch | None:
        """Returns, while halted, the first batch that may have been written and is not denied; it is sent alone."""
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
        """Returns whether a batch is in flight, or was answered without being decided yet."""
        return self._first(UNDER_WAY, ARRIVED) is not None

    def _before(self, batch: ProducerBatch) -> list[ProducerBatch]:
        return self.batches[: self.batches.index(batch)]

    def _behind(self, batch: ProducerBatch) -> list[ProducerBatch]:
        return self.batches[self.batches.index(batch) + 1 :]

    def has_waiting(self) -> bool:
        """Returns whether a batch waits to be sent, for the first time or again."""
        return not self.queue.empty or self._first(WAITING, DENIED) is not None

    def waiting(self) -> list[ProducerBatch]:
        """Returns all batches that wait to be sent, for the first time or again, in order."""
        return [batch for batch in self.batches if batch.phase in WAITS] + self.queue.batches()

    def wants_reset(self) -> bool:
        """True if the lane is halted and all remaining batches are known to be unwritten."""
        return self.halted and not self._is_out() and self._unknown() is None

    def is_idle(self) -> bool:
        """Returns whether the identity may change: no batch is in flight, and none that waits has a sequence."""
        return not self._is_out() and not any(each.phase in WAITS and each.has_sequence for each in self.batches)

    def reset(self, identity: Identity) -> None:
        """Restarts the sequences at 0; waiting batches get new ones when they are sent."""
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
        """Moves the batch from the queue, if it is there, into the list."""
        if batch.phase is QUEUED:
            self.queue.remove(batch)
            self.batches.append(batch)
            batch.phase = WAITING

    def drain(self) -> list[ProducerBatch]:
        """Takes all waiting batches, which will not be sent. The caller decides their outcome."""
        found = self.waiting()
        for batch in found:
            self.take(batch)
            batch.phase = ARRIVED
        return found

    def depart(self, batch: ProducerBatch) -> None:
        """Gives a sealed batch its sequence: it is being sent."""
        if self.identity is None:
            if not batch.attempts:
                batch.assign()
        elif not batch.has_sequence:
            batch.assign(*self.identity, self.next_sequence)
            self.next_sequence = after(self.next_sequence, batch.count)
        elif batch.producer_id < 0:  # a part of a split batch has its share of the sequences
            batch.assign(*self.identity, batch.base_sequence)
        batch.attempts += 1
        batch.phase = UNDER_WAY

    # -- what came back ----------------------------------------------------------------------------

    def arrive(self, batch: ProducerBatch) -> None:
        """Notes that the batch's request was answered or lost."""
        batch.phase = ARRIVED

    def wait(self, batch: ProducerBatch) -> None:
        """Lets a batch that was answered or lost wait to be sent again, unless it was denied."""
        if batch.phase is ARRIVED:
            batch.phase = WAITING

    def out_of_order(self, batch: ProducerBatch) -> Verdict:
        """Handles the broker's answer that a batch before this one is missing."""
        if not self.halted:
            if any(other.phase in (UNDER_WAY, WAITING) for other in self._before(batch)):
                return Verdict.RETRY
            self.halted = True
        if batch.maybe_written:
            batch.phase = DENIED
        return Verdict.HALTED

    def follows(self, batch: ProducerBatch) -> list[ProducerBatch]:
        """Notes that this batch is in the log. Returns the denied batches before it, which are in the log too."""
        found = [other for other in self._before(batch) if other.phase is DENIED]
        if found:
            self.halted = False
            for other in self.batches:
                if other.phase is DENIED:
                    other.phase = ARRIVED if other in found else WAITING
        return found

    def doubtful(self) -> list[ProducerBatch]:
        """Returns the denied batches if the batches that could have proved them were given up. It then stays unknown
        whether the denied ones were written.
        """
        found = [batch for batch in self.batches if batch.unprovable and batch.phase is DENIED]
        return found if found and self.wants_reset() else []

    def refused(self, batch: ProducerBatch) -> None:
        """Gives up a batch that was answered or lost. If it was not written, its sequences leave a gap."""
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
        """Splits the batch, which was too large. Its parts wait in its place, and divide its sequences among them."""
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

    # -- reporting ---------------------------------------------------------------------------------

    def leaves_alone(self, batch: ProducerBatch) -> bool:
        """Removes the batch, which is in the log, if it is the only one. Then the caller reports it directly."""
        if len(self.batches) > 1 or batch.tell is not None:
            return False
        batch.phase = WRITTEN
        self.batches.clear()
        return True

    def decide(self, batch: ProducerBatch, phase: Phase, tell: Callable[[], object]) -> None:
        """Notes the outcome of the batch, perhaps while it is in flight. ``due`` returns ``tell`` in its turn."""
        if batch.phase is not UNDER_WAY:
            batch.phase = phase
        if batch.tell is None:
            batch.tell = tell

    def due(self) -> Callable[[], object] | None:
        """Returns the report function of the next batch, once all that were sent before it are reported; None if there
        is none.

        Without idempotence the order does not matter.
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
        """Removes a batch whose result was reported, perhaps out of order."""
        if batch in self.batches:
            self.batches.remove(batch)

    def proves(self, batch: ProducerBatch) -> bool:
        """Returns True if a later batch of the same identity was written, so that this one must be in the log."""
        if not batch.maybe_written and batch.phase is not UNDER_WAY:
            return False
        identity = batch.producer_id, batch.producer_epoch
        return any(
            other.phase is WRITTEN and (other.producer_id, other.producer_epoch) == identity
            for other in self._behind(batch)
        )


def after(sequence: int, count: int) -> int:
    """Returns the sequence that follows ``count`` records from this one."""
    return (sequence + count) & MAX_SEQUENCE
