"""What a log remembers of one producer: enough to tell a new batch from a resent one, and a
zombie from its successor.
"""

from __future__ import annotations

from typing import NamedTuple

WINDOW = 5
"""Batches remembered per producer: as many as a client may have in flight (KIP-98)."""
SEQUENCE_MASK = 0x7FFF_FFFF
"""Sequences wrap from 2^31-1 to 0."""
NO_OFFSET = -1


class BatchMetadata(NamedTuple):
    """A batch that was appended."""

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
        "transaction_first_offset",
    )

    def __init__(self, producer_id: int, epoch: int) -> None:
        self.producer_id = producer_id
        self.epoch = epoch
        self.batches: list[BatchMetadata] = []
        """The last ``WINDOW`` batches of this epoch, oldest first."""
        self.appended = 0
        """Records that are known to have been appended in this epoch, up to the last one."""
        self.is_partial = False
        """Read from a snapshot, which has the last batch alone: those before it were not looked for in the log."""
        self.last_timestamp = -1
        self.coordinator_epoch = -1
        """Epoch of the transaction coordinator that wrote the last marker."""
        self.transaction_first_offset = NO_OFFSET
        """Where the ongoing transaction began, -1 where there is none."""

    @property
    def last_sequence(self) -> int:
        """Sequence of the last record, -1 where none was written in this epoch."""
        return self.batches[-1].last_sequence if self.batches else -1

    @property
    def last_offset(self) -> int:
        """Offset of the last record, -1 where none was written in this epoch."""
        return self.batches[-1].last_offset if self.batches else NO_OFFSET

    @property
    def next_sequence(self) -> int:
        """Sequence with which the next batch of this epoch must begin."""
        return (self.batches[-1].last_sequence + 1) & SEQUENCE_MASK if self.batches else 0

    def enter_epoch(self, epoch: int) -> None:
        """A newer epoch of the producer: its sequences begin anew."""
        if epoch != self.epoch:
            self.epoch = epoch
            self.batches.clear()
            self.appended = 0
            self.is_partial = False

    def recall(self, earlier: list[BatchMetadata]) -> None:
        """Remembers batches of this epoch that lie before those that are known, oldest first."""
        if self.batches:
            missing = [batch for batch in earlier if batch.last_offset < self.batches[0].last_offset]
            self.batches = (missing + self.batches)[-WINDOW:]
            self.appended = max(self.appended, sum(batch.offset_delta + 1 for batch in self.batches))

    def add(self, batch: BatchMetadata) -> None:
        """Remembers a batch, the oldest beyond the window is forgotten."""
        if len(self.batches) == WINDOW:
            del self.batches[0]
        self.batches.append(batch)
        self.appended += batch.offset_delta + 1
        self.last_timestamp = batch.timestamp
