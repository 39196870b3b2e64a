"""How fast something happens, by Kafka's arithmetic (``Rate``, ``SampledStat`` and ``TokenBucket`` of its metrics).

A rate is the sum of its samples over the time that they cover. A sample is what was recorded within a window of time;
the last ``number`` windows are kept, and the one that overlaps with them. Windows that are not over yet count as whole.
So a client may use in its first second what it may use in all of them.
"""

from __future__ import annotations

from collections import deque
from math import floor
from typing import Final, NamedTuple

MOST_MS: Final = 0x7FFF_FFFF
"""The longest time that a response can name."""


class Windows(NamedTuple):
    """``quota.window.num`` and ``quota.window.size.seconds``, the size in milliseconds."""

    number: int = 11
    size_ms: int = 1000


NEVER: Final = -(1 << 62)


class Rate:
    """What was recorded per second, as measured over some windows."""

    __slots__ = ("_last_ms", "_samples", "_size_ms", "_start_ms", "_sum", "_total", "windows")

    def __init__(self, windows: Windows) -> None:
        self.windows = windows
        self._size_ms = windows.size_ms
        self._samples: deque[tuple[int, int, float]] = deque()
        """Start, time of the last record, and sum, of all but the current sample."""
        self._start_ms = self._last_ms = NEVER
        """Of the current sample, if there is one."""
        self._sum = 0.0
        self._total = 0.0
        """Of all samples."""

    def record(self, value: float, now_ms: int) -> float:
        """Counts ``value``; a negative one takes back what was counted. Returns the sum of what may still count."""
        if now_ms - self._start_ms >= self._size_ms:
            self._begin(now_ms)
        self._last_ms = now_ms
        self._sum += value
        self._total = total = self._total + value
        return total

    def _begin(self, now_ms: int) -> None:
        if self._start_ms != NEVER:
            self._samples.append((self._start_ms, self._last_ms, self._sum))
            if len(self._samples) > self.windows.number:
                self._total -= self._samples.popleft()[2]
        self._start_ms = now_ms
        self._sum = 0.0

    def _forget(self, now_ms: int) -> None:
        """Forgets samples in which nothing was recorded for so long as is measured."""
        oldest_ms = now_ms - self.windows.number * self.windows.size_ms
        samples = self._samples
        while samples and samples[0][1] <= oldest_ms:
            self._total -= samples.popleft()[2]
        if not samples and self._last_ms <= oldest_ms:
            self._start_ms = NEVER
            self._sum = self._total = 0.0

    def is_idle(self, now_ms: int) -> bool:
        """Whether nothing that was recorded counts any more."""
        self._forget(now_ms)
        return self._start_ms == NEVER

    def measured_ms(self, now_ms: int) -> int:
        """The time that the samples cover; at least a millisecond."""
        self._forget(now_ms)
        start_ms = self._samples[0][0] if self._samples else self._start_ms
        elapsed_ms = 0 if start_ms == NEVER else now_ms - start_ms
        missing = self.windows.number - 1 - elapsed_ms // self.windows.size_ms
        if missing > 0:
            elapsed_ms += missing * self.windows.size_ms
        return elapsed_ms or 1

    def per_second(self, now_ms: int) -> float:
        """The rate."""
        measured_ms = self.measured_ms(now_ms)  # first, as it forgets
        return self._total / (measured_ms / 1000)

    def until_ms(self, bound: float, now_ms: int) -> int:
        """How long nothing may be recorded until the rate is ``bound`` again; 0 while it is not above it."""
        measured_ms = self.measured_ms(now_ms)
        over = self._total / (measured_ms / 1000) - bound
        return rounded(over / bound * measured_ms) if over > 0 else 0


class TokenBucket:
    """Permits that come at the rate ``bound``. All windows' worth of them are kept, and one may owe some."""

    __slots__ = ("_tokens", "_updated_ms", "windows")

    def __init__(self, windows: Windows) -> None:
        self.windows = windows
        self._tokens = 0.0
        self._updated_ms: int | None = None

    def is_idle(self, now_ms: int) -> bool:
        """Whether the bucket has been left alone for so long that it is full, whatever its rate."""
        elapsed_ms = 0 if self._updated_ms is None else now_ms - self._updated_ms
        return self._tokens >= 0 and elapsed_ms >= self.windows.number * self.windows.size_ms

    def left(self, bound: float, now_ms: int) -> float:
        """The permits that there are; negative where they have to be made up for."""
        burst = self.windows.number * (self.windows.size_ms / 1000) * bound
        if self._updated_ms is None:
            self._tokens = burst
        else:
            self._tokens = min(burst, self._tokens + bound * (now_ms - self._updated_ms) / 1000)
        self._updated_ms = now_ms
        return self._tokens

    def take(self, permits: float, bound: float, now_ms: int) -> None:
        """Takes them, even if there are not so many."""
        self._tokens = self.left(bound, now_ms) - permits

    def delay_ms(self, bound: float, now_ms: int) -> int:
        """How long it takes until nothing is owed."""
        left = self.left(bound, now_ms)
        return rounded(-left / bound * 1000) if left < 0 else 0


def rounded(milliseconds: float) -> int:
    """As Java rounds; at most what a response can name."""
    return min(floor(milliseconds + 0.5), MOST_MS)
