"""``.index``: maps an offset to a position in the segment's ``.log``, from which to scan for it.

Format: entries of 8 bytes, big-endian: int32 offset relative to the segment's base, int32
position; both ascend. An entry has the *last* offset of a batch, and the position at which the batch begins.
There is at most one every ``index.interval.bytes``, so a lookup is a binary search here and a short scan of
batch headers in the log.
"""

from __future__ import annotations

import struct
from bisect import bisect_right
from typing import NamedTuple

from pybroker.log.files.index_file import IndexFile

# Read as one int64, an entry sorts by offset, then by position.
_entry = struct.Struct(">q")
_read = _entry.unpack_from
_LOW = 0xFFFF_FFFF
MAX_RELATIVE_OFFSET = 0x7FFF_FFFF
MAX_POSITION = _LOW


class OffsetPosition(NamedTuple):
    """An offset and the position of the batch that ends with it."""

    offset: int
    position: int


class OffsetIndex(IndexFile):
    """The offset index of one segment."""

    ENTRY_SIZE = 8
    SUFFIX = ".index"
    __slots__ = ()

    def add(self, offset: int, position: int) -> None:
        """Adds the batch that ends with ``offset`` and begins at ``position``."""
        self.append(_entry.pack((offset - self.base_offset) << 32 | position))

    def lookup(self, offset: int) -> OffsetPosition | None:
        """Returns the last entry at or before ``offset``, from which to scan; None: scan from the start."""
        self.recently_used = True
        entries = self.entries
        target = (offset - self.base_offset) << 32 | _LOW
        count = bisect_right(range(len(entries) >> 3), target, key=lambda number: _read(entries, number << 3)[0])
        return self.entry(count - 1) if count else None

    def last_upto(self, position: int) -> OffsetPosition | None:
        """Returns the last entry whose position is at or before ``position``."""
        count = self._count_upto_position(position)
        return self.entry(count - 1) if count else None

    def entry(self, number: int) -> OffsetPosition:
        """Returns an entry; the first one has number 0."""
        value = int(_read(self.entries, number << 3)[0])
        return OffsetPosition(self.base_offset + (value >> 32), value & _LOW)

    def last(self) -> OffsetPosition:
        """Returns the last entry, or (base offset, 0) if there is none."""
        count = len(self)
        return self.entry(count - 1) if count else OffsetPosition(self.base_offset, 0)

    def truncate_to_position(self, size: int) -> None:
        """Drops the entries of batches that begin at or beyond ``size``."""
        self.truncate(self._count_upto_position(size - 1))

    def _count_upto_position(self, position: int) -> int:
        entries = self.entries
        return bisect_right(
            range(len(entries) >> 3),
            position,
            key=lambda number: _read(entries, number << 3)[0] & _LOW,
        )
