"""Log lines of what may happen once per record or batch, as callbacks of applications fail: seldom."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from typing import Any, Final

INTERVAL: Final = 10.0
"""Seconds between two lines of a kind."""


class RareLog:
    """Of each kind of line (its format) the first, and then one in ten seconds, which tells how many
    were left out. ``clock`` is in seconds.
    """

    def __init__(self, log: logging.Logger, clock: Callable[[], float] = time.monotonic) -> None:
        self._log = log
        self._clock = clock
        self._next: dict[str, float] = {}
        self._left_out: dict[str, int] = {}

    def exception(self, text: str, *arguments: object) -> None:
        """Within ``except``: logs the line with the exception, as an error."""
        if self._is_due(text):
            self._log.exception(*self._line(text, arguments))

    def warning(self, text: str, *arguments: object) -> None:
        """Logs the line as a warning."""
        if self._is_due(text):
            self._log.warning(*self._line(text, arguments))

    def _is_due(self, text: str) -> bool:
        now = self._clock()
        if now < self._next.get(text, now):
            self._left_out[text] = self._left_out.get(text, 0) + 1
            return False
        self._next[text] = now + INTERVAL
        return True

    def _line(self, text: str, arguments: tuple[object, ...]) -> tuple[Any, ...]:
        left_out = self._left_out.pop(text, 0)
        if left_out:
            return f"{text} (and %d times since the last such line)", *arguments, left_out
        return text, *arguments
