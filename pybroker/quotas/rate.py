"""Time windows in which use is counted, and a token bucket like Kafka's (``TokenBucket``)."""

from __future__ import annotations

from typing import NamedTuple

from cy.quota import rounded


class Windows(NamedTuple):
    """``quota.window.num`` and ``quota.window.size.seconds``, the size in milliseconds."""

    number: int = 11
    size_ms: int = 1000


class TokenBucket:
    """Permits that accumulate at the rate ``bound``, up to the number for all windows. They may become negative."""

    __slots__ = ("_tokens", "_updated_ms", "windows")

    def __init__(self, windows: Windows) -> None:
        self.windows = windows
        self._tokens = 0.0
        self._updated_ms: int | None = None

    def is_idle(self, now_ms: int) -> bool:
        """Returns whether the bucket was unused for so long that it is full, whatever its rate."""
        elapsed_ms = 0 if self._updated_ms is None else now_ms - self._updated_ms
        return self._tokens >= 0 and elapsed_ms >= self.windows.number * self.windows.size_ms

    def left(self, bound: float, now_ms: int) -> float:
        """Returns the available permits; negative if too many were taken."""
        burst = self.windows.number * (self.windows.size_ms / 1000) * bound
        if self._updated_ms is None:
            self._tokens = burst
        else:
            self._tokens = min(burst, self._tokens + bound * (now_ms - self._updated_ms) / 1000)
        self._updated_ms = now_ms
        return self._tokens

    def take(self, permits: float, bound: float, now_ms: int) -> None:
        """Takes permits, even if there are not enough."""
        self._tokens = self.left(bound, now_ms) - permits

    def delay_ms(self, bound: float, now_ms: int) -> int:
        """Returns how long it takes until the permits are no longer negative."""
        left = self.left(bound, now_ms)
        return rounded(-left / bound * 1000) if left < 0 else 0
