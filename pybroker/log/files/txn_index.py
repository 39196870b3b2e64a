"""``.txnindex``: the aborted transactions whose markers lie in a segment.

Format: entries of 34 bytes, big-endian, in the order of their markers. An entry has int16 version (0), int64 producer
id, int64 first offset, int64 last offset (that of the marker), and int64 last stable offset when the marker was
written. The file exists only if there is an entry. A read_committed fetch needs the transactions that overlap its
range. The search may stop at an entry whose last stable offset is beyond the range, since every later transaction began
after that offset.

Unlike an error in the other indexes, an error here would not be noticed: without its entry, records of an aborted
transaction are delivered. So the file is synced with the log, before the recovery point is raised. It is rebuilt for
every segment beyond the recovery point.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from pybroker.log.files.file_cache import FileCache
from pybroker.log.files.index_file import IndexFile
from pybroker.log.files.storage import Storage

VERSION = 0
_entry = struct.Struct(">hqqqq")
_marker_offset = struct.Struct(">q")
_MARKER_OFFSET_AT = 18


class AbortedTransaction(NamedTuple):
    """One aborted transaction of a partition."""

    producer_id: int
    first_offset: int
    last_offset: int
    last_stable_offset: int


class TransactionIndex(IndexFile):
    """The transaction index of one segment."""

    ENTRY_SIZE = 34
    SUFFIX = ".txnindex"
    __slots__ = ("_synced",)

    def __init__(self, storage: Storage, cache: FileCache, folder: str, base_offset: int) -> None:
        super().__init__(storage, cache, folder, base_offset)
        self._synced = True

    def add(self, aborted: AbortedTransaction) -> None:
        """Adds a transaction whose abort marker was just appended, or read during recovery."""
        self.append(_entry.pack(VERSION, *aborted))
        self._synced = False

    def sync(self) -> None:
        """Syncs all entries. Raises OSError."""
        if not self._synced:
            self._synced = True  # before the sync: an entry that is added meanwhile needs another sync
            try:
                self.save(sync=True)
            except OSError:
                self._synced = False
                raise

    def doubt(self) -> None:
        """Lets the next ``sync`` write and sync the whole file, because it may not be on the disk."""
        self._synced = False

    def __iter__(self) -> Iterator[AbortedTransaction]:
        return self._since(0)

    def ended_since(self, offset: int) -> Iterator[AbortedTransaction]:
        """Yields the transactions whose markers are at or beyond ``offset``, in the order of their markers."""
        entries = self.entries
        low, high = 0, len(entries) // self.ENTRY_SIZE
        while low < high:
            middle = (low + high) // 2
            (marker,) = _marker_offset.unpack_from(entries, middle * self.ENTRY_SIZE + _MARKER_OFFSET_AT)
            low, high = (middle + 1, high) if marker < offset else (low, middle)
        return self._since(low)

    def _since(self, number: int) -> Iterator[AbortedTransaction]:
        entries = self.entries
        for at in range(number * self.ENTRY_SIZE, len(entries) - self.ENTRY_SIZE + 1, self.ENTRY_SIZE):
            yield AbortedTransaction(*_entry.unpack_from(entries, at)[1:])

    def truncate_to_offset(self, offset: int) -> None:
        """Drops the transactions whose markers are at or beyond ``offset``."""
        if len(self):
            self.truncate(sum(aborted.last_offset < offset for aborted in self))
            self._synced = False


def overlapping(indexes: Iterable[TransactionIndex], start: int, end: int) -> list[AbortedTransaction]:
    """Returns the aborted transactions with records in ``[start, end)``.

    ``indexes`` are those of the segment that holds ``start`` and of all later segments.
    """
    found: list[AbortedTransaction] = []
    for index in indexes:
        for aborted in index.ended_since(start):
            if aborted.first_offset < end:
                found.append(aborted)
            if aborted.last_stable_offset >= end:
                return found
    return found
