"""Tracks which bytes of a segment may be served without checking their CRCs again.

A record that was damaged on disk must never be served. But a check of every byte of every fetch
would take as long as sending it. So some bytes are trusted: those that this
process appended (from ``_appended_from`` on), and the ranges that a read has checked. All other
bytes, such as those that existed at the start, are checked batch by batch when they are first read.

Trust is lost when the bytes may have left the page cache and come from the disk again. This happens when the file is
closed to make room for others, and in each round of the periodic retention. Trust is also lost when the file's
modification time shows that another process wrote to it.
"""

from __future__ import annotations

from pybroker.log.segment.intervals import Intervals


class Trust:
    """The trusted bytes of one segment."""

    __slots__ = ("_appended_from", "_checked")

    def __init__(self, size: int) -> None:
        self._appended_from = size
        self._checked: Intervals | None = None

    def covers(self, start: int, end: int) -> bool:
        """Returns True if all of ``[start, end)`` is trusted."""
        if start >= self._appended_from:
            return True
        return self._checked is not None and self._checked.covers(start, end)

    def add(self, start: int, end: int) -> None:
        """Notes that the CRCs in ``[start, end)`` were checked."""
        if self._checked is None:
            self._checked = Intervals()
        self._checked.add(start, end)

    def lose(self, size: int) -> None:
        """Trusts no byte below ``size``, the segment's current size, any longer."""
        self._appended_from = size
        self._checked = None

    def cut(self, size: int) -> None:
        """Notes that the segment was truncated to ``size``."""
        self._appended_from = min(self._appended_from, size)
        self._checked = None
