"""A budget of bytes per second, shared by several threads (``log.cleaner.io.max.bytes.per.second``).

After each use, the caller waits until the budget has covered all bytes so far. An unused budget accumulates for at most
one second.

The decision is pure: time is an argument. Thread-safety: any thread may call anything.
"""

from __future__ import annotations

import threading

BURST_S = 1.0
UNLIMITED = float(1 << 62)


class Throttle:
    """The budget; ``bytes_per_second`` may be changed at any time."""

    def __init__(self, bytes_per_second: float = UNLIMITED) -> None:
        self.bytes_per_second = bytes_per_second
        self._paid_until_s = 0.0
        self._lock = threading.Lock()

    def delay(self, used_bytes: int, now_s: float) -> float:
        """Counts ``used_bytes`` at ``now_s``, and returns how many seconds to wait."""
        if self.bytes_per_second >= UNLIMITED:
            return 0.0
        with self._lock:
            start = max(self._paid_until_s, now_s - BURST_S)
            self._paid_until_s = start + used_bytes / max(self.bytes_per_second, 1.0)
            return max(0.0, self._paid_until_s - now_s)
