"""What a log remembers of one producer: enough to detect duplicates and to fence zombies."""

from __future__ import annotations

from typing import NamedTuple

WINDOW = 5
"""How many batches are remembered per producer: as many as a client may have in flight (KIP-98)."""
SEQUENCE_MASK = 0x7FFF_FFFF
"""Sequences wrap from 2^31-1 to 0."""
NO_OFFSET = -1


class BatchMetadata(NamedTuple):
    """A batch of a producer that was appended."""

    last_sequence: int
    last_offset: int
    offset_delta: int
    timestamp: int

    @property
    def first_offset(self) -> int:
        """Offset of the first record."""
        return self.last_offset - self.offset_delta

    @property
    def first_sequence(self) -> int:
        """Sequence of the first record."""
        return (self.last_sequence - self.offset_delta) & SEQUENCE_MASK


class ProducerState(NamedTuple):
    """The content of a ``ProducerEntry`` without its id."""

    epoch: int
    batches: tuple[BatchMetadata, ...]
    appended: int
    is_partial: bool
    last_timestamp: int
    seen_ms: int
    coordinator_epoch: int
    transaction_first_offset: int


class ProducerEntry:
    """State of one producer id in one partition."""

    __slots__ = (
        "appended",
        "batches",
        "coordinator_epoch",
        "epoch",
        "is_partial",
        "last_timestamp",
        "producer_id",
        "seen_ms",
        "transaction_first_offset",
    )

    def __init__(self, producer_id: int, epoch: int) -> None:
        self.producer_id = producer_id
        self.epoch = epoch
        self.batches: list[BatchMetadata] = []
        """The last ``WINDOW`` batches of this epoch, oldest first."""
        self.appended = 0
        """How many records are known to have been appended in this epoch."""
        self.is_partial = False
        """True if only the last batch was read, from a snapshot, and the earlier ones are only in the log."""
        self.last_timestamp = -1
        """The timestamp of the last batch; if the entry was read from a snapshot, the same as ``seen_ms``."""
        self.seen_ms = -1
        """When the last batch was appended, by the wall clock. If the time is unknown, this is a later one."""
        self.coordinator_epoch = -1
        """Epoch of the transaction coordinator that wrote the last marker."""
        self.transaction_first_offset = NO_OFFSET
        """The first offset of the ongoing transaction, -1 if there is none."""

    def take_back(self, before: BatchMetadata) -> None:
        """Removes the last batch, which was truncated; ``before`` is the last one again.

        Batches that the removed one has pushed out of the window stay forgotten; only the log has them.
        """
        removed = self.batches.pop()
        self.appended -= removed.offset_delta + 1
        self.last_timestamp = before.timestamp
        self.is_partial = True
        if not self.batches:
            self.batches.append(before)

    def state(self) -> ProducerState:
        """Returns the current state, for ``restore``."""
        return ProducerState(
            self.epoch,
            tuple(self.batches),
            self.appended,
            self.is_partial,
            self.last_timestamp,
            self.seen_ms,
            self.coordinator_epoch,
            self.transaction_first_offset,
        )

    def restore(self, state: ProducerState) -> None:
        """Returns to an earlier ``state``."""
        self.epoch, batches, self.appended, self.is_partial, self.last_timestamp = state[:5]
        self.batches = list(batches)
        self.seen_ms, self.coordinator_epoch, self.transaction_first_offset = state[5:]

    @property
    def last_sequence(self) -> int:
        """The sequence of the last record, -1 if none was written in this epoch."""
        return self.batches[-1].last_sequence if self.batches else -1

    @property
    def last_offset(self) -> int:
        """The offset of the last record, -1 if none was written in this epoch."""
        return self.batches[-1].last_offset if self.batches else NO_OFFSET

    @property
    def next_sequence(self) -> int:
        """The sequence with which the next batch of this epoch must begin."""
        return (self.batches[-1].last_sequence + 1) & SEQUENCE_MASK if self.batches else 0

    def enter_epoch(self, epoch: int) -> None:
        """Starts a newer epoch of the producer: its sequences start again."""
        if epoch != self.epoch:
            self.epoch = epoch
            self.batches.clear()
            self.appended = 0
            self.is_partial = False

    def recall(self, earlier: list[BatchMetadata]) -> None:
        """Adds batches of this epoch that precede the known ones, oldest first."""
        if self.batches:
            missing = [batch for batch in earlier if batch.last_offset < self.batches[0].last_offset]
            self.batches = (missing + self.batches)[-WINDOW:]
            self.appended = max(self.appended, sum(batch.offset_delta + 1 for batch in self.batches))

    def add(self, batch: BatchMetadata, seen_ms: int) -> None:
        """Adds a batch, and forgets the oldest one beyond the window."""
        if len(self.batches) == WINDOW:
            del self.batches[0]
        self.batches.append(batch)
        self.appended += batch.offset_delta + 1
        self.last_timestamp = batch.timestamp
        self.seen_ms = seen_ms
