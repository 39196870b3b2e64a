"""Limits log lines that a peer can provoke at will: one per second and kind, with the number of omitted ones."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable


class RateLimitedLog:
    """Logs at most one line per ``interval_s`` and kind; the next line has the number of omitted ones.

    Kinds are few and fixed (never made from what a peer sent), so that their number is bounded.
    """

    def __init__(
        self,
        logger: logging.Logger,
        interval_s: float = 1.0,
        time_s: Callable[[], float] = time.monotonic,
    ) -> None:
        self._logger = logger
        self._interval_s = interval_s
        self._time_s = time_s
        self._kinds: dict[str, tuple[float, int]] = {}

    def __call__(self, level: int, kind: str, text: str, *, exc_info: object = None) -> None:
        """Logs ``text`` unless a line of this ``kind`` was logged within the interval."""
        now = self._time_s()
        due, left_out = self._kinds.get(kind, (now, 0))
        if now < due:
            self._kinds[kind] = (due, left_out + 1)
            return
        self._kinds[kind] = (now + self._interval_s, 0)
        suffix = f" ({left_out} more like this)" if left_out else ""
        self._logger.log(level, "%s%s", text, suffix, exc_info=exc_info)  # type: ignore[arg-type]
