"""``leader-epoch-checkpoint``: the offset at which each leader epoch began (KIP-101, KIP-279, KIP-320).

Format: that of ``checkpoints`` with lines ``epoch start_offset``, both ascending. Followers and
consumers ask where an epoch ended. So they find the first offset at which their history differs
from the leader's.

Invariants: epochs and start offsets ascend; ``_entries[i].start_offset`` is the first offset
written in that epoch.

Durability: a new epoch costs no disk access when it begins. Every batch carries its leader epoch, so recovery reads the
epochs that the file lacks beyond the recovery point from the log. So the file is written when the recovery point moves
(``Log.flush``), when a log closes, and after a truncation. A malformed file is rebuilt from the whole log.

Thread-safety: changed on the loop's thread; ``encode`` may be called from a pool thread.
"""

from __future__ import annotations

from bisect import bisect_right
from itertools import pairwise
from typing import NamedTuple

from pybroker.log.files.checkpoints import decode_lines, encode_lines

FILE_NAME = "leader-epoch-checkpoint"
UNDEFINED_EPOCH = -1
UNDEFINED_OFFSET = -1


class EpochEntry(NamedTuple):
    """An epoch and the first offset that was written in it."""

    epoch: int
    start_offset: int


class EpochEnd(NamedTuple):
    """The answer to OffsetForLeaderEpoch: the greatest known epoch up to the requested one, and its end offset."""

    epoch: int
    end_offset: int


class LeaderEpochs:
    """The leader epochs in the history of one log, with their first offsets."""

    __slots__ = ("_entries", "dirty", "latest")

    def __init__(self, entries: list[EpochEntry] | None = None) -> None:
        self._entries: list[EpochEntry] = entries or []
        self.latest = self._entries[-1].epoch if self._entries else UNDEFINED_EPOCH
        """The newest epoch, -1 if none is known."""
        self.dirty = False
        """True if the file does not have all changes."""

    @property
    def entries(self) -> list[EpochEntry]:
        """All epochs, oldest first."""
        return list(self._entries)

    def assign(self, epoch: int, start_offset: int) -> None:
        """Notes that ``epoch`` begins at ``start_offset``, unless it is known already or older than the latest one."""
        if epoch <= self.latest or epoch < 0:
            return
        while self._entries and self._entries[-1].start_offset >= start_offset:
            self._entries.pop()
        self._entries.append(EpochEntry(epoch, start_offset))
        self._changed()

    def end_offset_for(self, epoch: int, log_end_offset: int) -> EpochEnd:
        """Returns the greatest known epoch up to ``epoch`` and its end; (-1, -1) if ``epoch`` is beyond the latest."""
        if epoch < 0 or epoch > self.latest:
            return EpochEnd(UNDEFINED_EPOCH, UNDEFINED_OFFSET)
        if epoch == self.latest:
            return EpochEnd(epoch, log_end_offset)
        later = bisect_right(self._entries, epoch, key=lambda entry: entry.epoch)
        if later == 0:
            return EpochEnd(epoch, self._entries[0].start_offset)
        return EpochEnd(self._entries[later - 1].epoch, self._entries[later].start_offset)

    def epoch_for(self, offset: int) -> int:
        """Returns the epoch in which the record at ``offset`` was written, -1 if that is unknown."""
        later = bisect_right(self._entries, offset, key=lambda entry: entry.start_offset)
        return self._entries[later - 1].epoch if later else UNDEFINED_EPOCH

    def truncate_from_end(self, end_offset: int) -> None:
        """Removes epochs that begin at or beyond ``end_offset``."""
        if self._entries and self._entries[-1].start_offset >= end_offset:
            self._entries = [entry for entry in self._entries if entry.start_offset < end_offset]
            self._changed()

    def truncate_from_start(self, start_offset: int) -> None:
        """Removes epochs that ended at or before ``start_offset``; an epoch that spans this offset now begins there."""
        later = bisect_right(self._entries, start_offset, key=lambda entry: entry.start_offset)
        if later == 0 or self._entries[later - 1].start_offset == start_offset == self._entries[0].start_offset:
            return
        spanning = EpochEntry(self._entries[later - 1].epoch, start_offset)
        self._entries = [spanning, *self._entries[later:]]
        self._changed()

    def clear(self) -> None:
        """Removes all epochs."""
        self._entries = []
        self._changed()

    def encode(self) -> bytes:
        """Returns the file's content."""
        return encode_lines([f"{epoch} {start}" for epoch, start in self._entries])

    def _changed(self) -> None:
        self.latest = self._entries[-1].epoch if self._entries else UNDEFINED_EPOCH
        self.dirty = True


def decode(data: bytes) -> list[EpochEntry]:
    """Returns the entries of a file. Raises ValueError if they are malformed or do not ascend."""
    entries = [EpochEntry(int(epoch), int(start)) for epoch, start in decode_lines(data, 2)]
    for before, after in pairwise(entries):
        if after.epoch <= before.epoch or after.start_offset < before.start_offset:
            raise ValueError(f"{after} follows {before}")
    return entries
