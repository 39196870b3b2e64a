"""Deadlines of many waiting requests with one timer of the loop.

A timer per request costs more than a small request itself, and nearly every one is cancelled before
it is due. Here a deadline is an entry in a heap; the one timer stands at the earliest. What is done
before stays in the heap until its time, or until more than half of the heap is of that kind and it
is made anew.
"""

from __future__ import annotations

import asyncio
import heapq
from collections.abc import Callable

MIN_SWEEP = 64


class Deadlines:
    """Calls ``future``'s owner back when its time is over and it is not done."""

    __slots__ = ("_done", "_heap", "_loop", "_number", "_timer", "_timer_at")

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._heap: list[tuple[float, int, asyncio.Future[object], Callable[[], None]]] = []
        self._number = 0
        self._done = 0
        self._timer: asyncio.TimerHandle | None = None
        self._timer_at = 0.0

    def __len__(self) -> int:
        """Entries in the heap, those of finished futures among them."""
        return len(self._heap)

    def add(self, future: asyncio.Future[object], delay_ms: int, expired: Callable[[], None]) -> None:
        """Calls ``expired()`` in ``delay_ms`` unless ``future`` is done by then.

        Tell ``forget`` when it is.
        """
        at = self._loop.time() + delay_ms / 1000
        self._number += 1
        heapq.heappush(self._heap, (at, self._number, future, expired))
        if self._timer is None or at < self._timer_at:
            self._arm(at)

    def forget(self) -> None:
        """One of the futures is done; each is forgotten once."""
        self._done += 1
        if self._done > MIN_SWEEP and self._done * 2 > len(self._heap):
            self._heap = [entry for entry in self._heap if not entry[2].done()]
            heapq.heapify(self._heap)
            self._done = 0

    def close(self) -> None:
        """Calls nobody any more."""
        self._heap.clear()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _arm(self, at: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer_at = at
        self._timer = self._loop.call_at(at, self._on_time)

    def _on_time(self) -> None:
        self._timer = None
        heap, now = self._heap, self._loop.time()
        due = []
        while heap and (heap[0][0] <= now or heap[0][2].done()):
            _, _, future, expired = heapq.heappop(heap)
            self._done -= 1
            if not future.done():
                due.append(expired)
        if heap:
            self._arm(heap[0][0])
        for expired in due:
            expired()
