"""Rate-limited log lines, for events that may occur once per record or batch, such as failures of callbacks."""

from __future__ import annotations

import logging
import sys
import time
from collections.abc import Callable
from typing import Any, Final, NamedTuple

from cy.counted import counted
from pyclient.core.reports.last_resort import URGENT

INTERVAL: Final = 10.0
"""Seconds between two lines of a kind."""


class Kind(NamedTuple):
    """The common part of similar lines: their format, and the error in them if there is one."""

    text: str
    error: object = None


class RareLog:
    """Logs the first line of each kind, and then one in ten seconds, with the number of lines left out. ``clock`` is in
    seconds.
    """

    def __init__(self, log: logging.Logger, clock: Callable[[], float] = time.monotonic) -> None:
        self._log = log
        self._clock = clock
        self._next: dict[Kind, float] = {}
        self._left_out: dict[Kind, int] = {}

    def exception(self, text: str, *arguments: object) -> None:
        """Logs the current exception as an error; called within ``except``. Exceptions of other classes, or raised
        elsewhere, are other kinds.
        """
        kind = Kind(text, _origin(sys.exception()))
        if self._is_due(kind):
            self._log.exception(*self._line(kind, arguments))

    def warning(self, text: str, *arguments: object, error: object = None) -> None:
        """Logs the line as a warning. With an ``error``, it also goes to stderr if logging is not configured; errors of
        different names are different kinds.
        """
        kind = Kind(text, error)
        if self._is_due(kind):
            extra = None if error is None else {URGENT: True}
            self._log.warning(*self._line(kind, arguments), extra=extra)

    def _is_due(self, kind: Kind) -> bool:
        now = self._clock()
        if now < self._next.get(kind, now):
            self._left_out[kind] = self._left_out.get(kind, 0) + 1
            return False
        self._next[kind] = now + INTERVAL
        return True

    def _line(self, kind: Kind, arguments: tuple[object, ...]) -> tuple[Any, ...]:
        left_out = self._left_out.pop(kind, 0)
        if left_out:
            return f"{kind.text} (and %s since the last such line)", *arguments, counted(left_out, "time")
        return kind.text, *arguments


def _origin(error: BaseException | None) -> tuple[type | None, str, int]:
    """Returns the exception's class and the line that raised it. There are only few such values."""
    trace = None if error is None else error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    where = ("", 0) if trace is None else (trace.tb_frame.f_code.co_filename, trace.tb_lineno)
    return None if error is None else type(error), *where
