"""At most so many files open at once, whatever the number of partitions.

Segments and mapped indexes open their file on first use and announce it here. When there are too many, those that have
not been used since the last round give theirs back (second chance). A user sets ``recently_used``, which costs one
store on the hot path and no list surgery. A file whose bytes are on their way to a socket stays open until they are
sent; see ``storage``.

Thread-safety: the methods may be called from any thread.
"""

from __future__ import annotations

import threading
from typing import Protocol


class Holder(Protocol):
    """An object that keeps a file open and can open it again."""

    recently_used: bool

    def release(self) -> None:
        """Lets go of the open file."""


class FileCache:
    """The holders of open files, oldest first."""

    def __init__(self, limit: int = 4096) -> None:
        self._limit = limit
        self._holders: dict[Holder, None] = {}
        self._lock = threading.Lock()

    def __len__(self) -> int:
        return len(self._holders)

    def admit(self, holder: Holder) -> None:
        """``holder`` has opened its file; others may have to close theirs."""
        with self._lock:
            holder.recently_used = True
            self._holders[holder] = None
            while len(self._holders) > self._limit:
                self._evict()

    def make_room(self) -> None:
        """Half of them close their files: there are fewer descriptors than the limit says."""
        with self._lock:
            kept = len(self._holders) // 2
            while len(self._holders) > kept:
                self._evict()

    def forget(self, holder: Holder) -> None:
        """``holder`` has closed its file by itself."""
        with self._lock:
            self._holders.pop(holder, None)

    def _evict(self) -> None:
        holder = next(iter(self._holders))
        del self._holders[holder]
        if holder.recently_used:
            holder.recently_used = False
            self._holders[holder] = None
        else:
            holder.release()
