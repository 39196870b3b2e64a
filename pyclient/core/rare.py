"""Log lines of what may fail once per record, as callbacks of applications do: seldom."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from typing import Final

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
        now = self._clock()
        if now < self._next.get(text, now):
            self._left_out[text] = self._left_out.get(text, 0) + 1
            return
        self._next[text] = now + INTERVAL
        if left_out := self._left_out.pop(text, 0):
            text, arguments = f"{text} (and %d times since the last such line)", (*arguments, left_out)
        self._log.exception(text, *arguments)
