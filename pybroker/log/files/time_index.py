"""``.timeindex``: maps a timestamp to an offset from which to scan for it.

Format: entries of 12 bytes, big-endian: int64 timestamp, int32 offset relative to the segment's
base. An entry (T, offset) means that no earlier record of the segment is newer than T. Timestamps
ascend strictly. The last entry of a sealed segment has its greatest timestamp, which retention and
ListOffsets read.
"""

from __future__ import annotations

import struct
from bisect import bisect_right
from typing import NamedTuple

from pybroker.log.files.index_file import IndexFile

_entry = struct.Struct(">qi")
_timestamp = struct.Struct(">q").unpack_from
NO_TIMESTAMP = -1


class TimestampEntry(NamedTuple):
    """A timestamp and the last offset of the batch that has it."""

    timestamp: int
    offset: int


class TimeIndex(IndexFile):
    """The time index of one segment."""

    ENTRY_SIZE = 12
    SUFFIX = ".timeindex"
    __slots__ = ()

    def add(self, timestamp: int, offset: int) -> None:
        """Adds an entry if ``timestamp`` is greater than that of the last one."""
        if timestamp > self.last().timestamp:
            self.append(_entry.pack(timestamp, offset - self.base_offset))

    def lookup(self, timestamp: int) -> TimestampEntry | None:
        """Returns the last entry older than ``timestamp``, from which to scan; None: scan from the start."""
        self.recently_used = True
        entries = self.entries
        count = bisect_right(
            range(len(entries) // 12),
            timestamp - 1,
            key=lambda number: _timestamp(entries, number * 12)[0],
        )
        return self.entry(count - 1) if count else None

    def entry(self, number: int) -> TimestampEntry:
        """Returns an entry; the first one has number 0."""
        timestamp, relative = _entry.unpack_from(self.entries, number * 12)
        return TimestampEntry(timestamp, self.base_offset + relative)

    def last(self) -> TimestampEntry:
        """Returns the last entry, or (-1, base offset) if there is none."""
        count = len(self)
        return self.entry(count - 1) if count else TimestampEntry(NO_TIMESTAMP, self.base_offset)

    def truncate_to_offset(self, offset: int) -> None:
        """Drops the entries at or beyond ``offset``."""
        entries = self.entries
        count = bisect_right(range(len(entries) // 12), offset - 1, key=lambda number: self.entry(number).offset)
        self.truncate(count)
