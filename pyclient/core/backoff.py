"""Exponential back-off with jitter, as in Kafka (KIP-580)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

JITTER: Final = 0.2


class Backoff:
    """The waits between attempts, in seconds. Each failure doubles the wait, from ``first`` up to ``longest``. Each
    wait is then made up to a fifth shorter or longer. ``random`` returns numbers in [0, 1).
    """

    __slots__ = ("failures", "first", "longest", "random")

    def __init__(self, first: float, longest: float, random: Callable[[], float]) -> None:
        self.first = first
        self.longest = max(first, longest)
        self.random = random
        self.failures = 0

    def next(self) -> float:
        """Counts a failure. Returns how long to wait after it."""
        wait = delay(self.first, self.longest, self.failures)
        self.failures += 1
        return wait * (1 - JITTER + 2 * JITTER * self.random())

    def reset(self) -> None:
        """Notes a success: the next failure counts as the first."""
        self.failures = 0


def delay(first: float, longest: float, failures: int) -> float:
    """Returns the wait without jitter after ``failures`` earlier failures."""
    return min(longest, first * (1 << min(failures, 62)))
