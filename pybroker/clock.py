"""The broker's time: one object that all parts get, so that tests can stop and move it."""

from __future__ import annotations

import time
from typing import Protocol


class Clock(Protocol):
    """Wall time is for record timestamps and retention. Monotonic time is for timers, so that a clock jump fires none.
    """

    def now_ms(self) -> int: ...

    def monotonic_ms(self) -> int: ...


class SystemClock:
    """Reads the machine's clocks."""

    def now_ms(self) -> int:
        """Returns milliseconds since 1970."""
        return time.time_ns() // 1_000_000

    def monotonic_ms(self) -> int:
        """Returns monotonic milliseconds."""
        return time.monotonic_ns() // 1_000_000


class ManualClock:
    """A clock that stands still until ``advance`` is called."""

    def __init__(self, now_ms: int = 1_700_000_000_000) -> None:
        self._now_ms = now_ms
        self._monotonic_ms = 1_000

    def now_ms(self) -> int:
        return self._now_ms

    def monotonic_ms(self) -> int:
        return self._monotonic_ms

    def advance(self, milliseconds: int) -> None:
        """Moves both clocks forward by ``milliseconds``."""
        self._now_ms += milliseconds
        self._monotonic_ms += milliseconds
