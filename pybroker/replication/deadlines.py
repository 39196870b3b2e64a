"""Deadlines of many waiting requests with one timer of the loop.

A timer per request would cost more than a small request itself, and nearly all are cancelled before they are due. Here
a deadline is an entry in a heap, and one timer is set for the earliest. A cancelled entry releases its request at once.
The empty entry stays until its time, or until more than half of the heap is empty and the heap is rebuilt.
"""

from __future__ import annotations

import asyncio
import heapq
from collections.abc import Callable
from typing import Any

MIN_SWEEP = 64
EXPIRED = 2

Deadline = list[Any]
"""An entry of the heap: the time by the loop's clock, a number that makes entries unequal, and the callback.

The callback of a cancelled entry is None.
"""


class Deadlines:
    """Calls each callback when its deadline has come, unless it was cancelled."""

    __slots__ = ("_cancelled", "_heap", "_loop", "_number", "_timer", "_timer_at")

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._heap: list[Deadline] = []
        self._number = 0
        self._cancelled = 0
        self._timer: asyncio.TimerHandle | None = None
        self._timer_at = 0.0

    def __len__(self) -> int:
        """Counts the heap's entries, cancelled ones included."""
        return len(self._heap)

    def add(self, delay_ms: int, expired: Callable[[], None]) -> Deadline:
        """Calls ``expired()`` after ``delay_ms``, unless the returned deadline is cancelled before."""
        at = self._loop.time() + delay_ms / 1000
        self._number += 1
        deadline: Deadline = [at, self._number, expired]
        heapq.heappush(self._heap, deadline)
        if self._timer is None or at < self._timer_at:
            self._arm(at)
        return deadline

    def cancel(self, deadline: Deadline) -> None:
        """Cancels the callback. Does nothing if it was called or cancelled before."""
        if deadline[EXPIRED] is not None:
            deadline[EXPIRED] = None
            self._cancelled += 1
            if self._cancelled > MIN_SWEEP and self._cancelled * 2 > len(self._heap):
                self._heap = [entry for entry in self._heap if entry[EXPIRED] is not None]
                heapq.heapify(self._heap)
                self._cancelled = 0

    def close(self) -> None:
        """Stops the timer, so that no further callback is called."""
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
        while heap and (heap[0][0] <= now or heap[0][EXPIRED] is None):
            deadline = heapq.heappop(heap)
            if deadline[EXPIRED] is None:
                self._cancelled -= 1
            else:
                due.append(deadline[EXPIRED])
                deadline[EXPIRED] = None
        if heap:
            self._arm(heap[0][0])
        for expired in due:
            expired()
