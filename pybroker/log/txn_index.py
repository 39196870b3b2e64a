"""``.txnindex``: the aborted transactions whose markers lie in a segment.

Format: entries of 34 bytes, big-endian: int16 version (0), int64 producer id, int64 first offset,
int64 last offset (that of the marker), int64 last stable offset when the marker was written. In
the order of their markers; the file exists only where there is an entry. A read_committed fetch
asks for those that overlap its range; the search may stop at an entry whose last stable offset is
beyond the range, since every later transaction began after that.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import NamedTuple

from pybroker.log.index_file import IndexFile

VERSION = 0
_entry = struct.Struct(">hqqqq")


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
    __slots__ = ()

    def add(self, aborted: AbortedTransaction) -> None:
        """Adds a transaction whose abort marker has just been appended."""
        self.append(_entry.pack(VERSION, *aborted))
        self.save()

    def __iter__(self) -> Iterator[AbortedTransaction]:
        for _, *fields in _entry.iter_unpack(bytes(self.entries)):
            yield AbortedTransaction(*fields)

    def truncate_to_offset(self, offset: int) -> None:
        """Drops the transactions whose markers are at or beyond ``offset``."""
        if len(self):
            self.truncate(sum(aborted.last_offset < offset for aborted in self))
