"""Timers for a state machine: many, of which most are cancelled or postponed before they fire.

This is a hashed wheel: it rounds deadlines up to ticks, and each tick has its own slot. So setting and cancelling are
one dictionary operation each. A heap has the numbers of the existing slots, which are few. The wheel reads no clock:
time is an argument. A timer never fires early, and at most one tick late. If a deadline is already in the past, its
timer fires at the next tick. So an action that sets its own timer again cannot run forever at one moment.
"""

from __future__ import annotations

from heapq import heappop, heappush
from typing import Generic, TypeVar

T = TypeVar("T")


class Timer(Generic[T]):
    """One deadline, in milliseconds of the monotonic clock, and its action."""

    __slots__ = ("action", "deadline_ms", "slot")

    def __init__(self, deadline_ms: int, action: T, slot: int) -> None:
        self.deadline_ms = deadline_ms
        self.action = action
        self.slot = slot


class TimerWheel(Generic[T]):
    """The timers of one state machine."""

    def __init__(self, tick_ms: int = 1) -> None:
        self._tick_ms = tick_ms
        self._current = -1
        """The slot of the time at which ``pop`` last returned a timer."""
        self._slots: dict[int, dict[Timer[T], None]] = {}
        self._numbers: list[int] = []

    def schedule(self, deadline_ms: int, action: T) -> Timer[T]:
        """Sets and returns a new timer."""
        number = max(-(-deadline_ms // self._tick_ms), self._current + 1)
        timer = Timer(deadline_ms, action, number)
        slot = self._slots.get(number)
        if slot is None:
            slot = self._slots[number] = {}
            heappush(self._numbers, number)
        slot[timer] = None
        return timer

    def cancel(self, timer: Timer[T] | None) -> None:
        """Cancels the timer; does nothing if it has fired, or is None."""
        if timer is not None:
            self._slots.get(timer.slot, {}).pop(timer, None)

    def pop(self, now_ms: int) -> Timer[T] | None:
        """Removes and returns a due timer, None if no timer is due.

        The earliest slot comes first, and within a slot the timer that was set first.
        """
        number = self._first_slot()
        if number is None or number * self._tick_ms > now_ms:
            return None
        slot = self._slots[number]
        timer = next(iter(slot))
        del slot[timer]
        self._current = now_ms // self._tick_ms
        return timer

    @property
    def next_deadline_ms(self) -> int | None:
        """The time from which ``pop`` will return a timer, None without a timer."""
        number = self._first_slot()
        return None if number is None else number * self._tick_ms

    def _first_slot(self) -> int | None:
        """Returns the earliest slot with a timer; removes empty ones before it."""
        while self._numbers:
            number = self._numbers[0]
            if self._slots[number]:
                return number
            del self._slots[number]
            heappop(self._numbers)
        return None
