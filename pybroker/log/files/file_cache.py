"""Limits how many files are open at once, whatever the number of partitions.

Segments and mapped indexes open their files on first use and register here. If there are too many, the cache looks at
the oldest files first: it closes those that were not used since its last look (second chance). A user only sets
``recently_used``, which costs one store on the hot path. A file whose bytes are being sent to a socket stays open until
they are sent; see ``storage``.

Thread-safety: the methods may be called from any thread.
"""

from __future__ import annotations

import threading
from typing import Protocol


class Holder(Protocol):
    """An object that keeps a file open and can open it again."""

    recently_used: bool

    def release(self) -> None:
        """Closes the file, by dropping the reference to it."""


class FileCache:
    """The holders of open files, oldest first."""

    def __init__(self, limit: int = 4096) -> None:
        self._own = self._limit = limit
        self._holders: dict[Holder, None] = {}
        self._lock = threading.Lock()

    def __len__(self) -> int:
        return len(self._holders)

    def admit(self, holder: Holder) -> None:
        """Registers a holder that has opened its file; may make others close theirs."""
        with self._lock:
            holder.recently_used = True
            self._holders[holder] = None
            self._shrink_to(self._limit)

    def lend(self, more: int) -> None:
        """Lets ``more`` files be open beyond the cache's own limit. Replaces the number of an earlier call."""
        with self._lock:
            self._limit = self._own + more
            self._shrink_to(self._limit)

    def make_room(self) -> None:
        """Makes half of the holders close their files, because descriptors run out before the limit is reached."""
        with self._lock:
            self._shrink_to(len(self._holders) // 2)

    def forget(self, holder: Holder) -> None:
        """Removes a holder that has closed its file itself."""
        with self._lock:
            self._holders.pop(holder, None)

    def _shrink_to(self, count: int) -> None:
        while len(self._holders) > count:
            holder = next(iter(self._holders))
            del self._holders[holder]
            if holder.recently_used:
                holder.recently_used = False
                self._holders[holder] = None
            else:
                holder.release()
