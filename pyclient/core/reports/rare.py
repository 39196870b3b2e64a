"""Log lines of what may happen once per record or batch, as callbacks of applications fail: seldom."""

from __future__ import annotations

import logging
import sys
import time
from collections.abc import Callable
from typing import Any, Final, NamedTuple

from pyclient.core.reports.last_resort import URGENT

INTERVAL: Final = 10.0
"""Seconds between two lines of a kind."""


class Kind(NamedTuple):
    """What lines have in common: their format, and the error that they tell, if there is one."""

    text: str
    error: object = None


class RareLog:
    """Of each kind of line the first, and then one in ten seconds, which tells how many were left out. ``clock`` is in
    seconds.
    """

    def __init__(self, log: logging.Logger, clock: Callable[[], float] = time.monotonic) -> None:
        self._log = log
        self._clock = clock
        self._next: dict[Kind, float] = {}
        self._left_out: dict[Kind, int] = {}

    def exception(self, text: str, *arguments: object) -> None:
        """Within ``except``: logs the line with the exception, as an error. Exceptions of other classes, or raised
        elsewhere, are other kinds.
        """
        kind = Kind(text, _origin(sys.exception()))
        if self._is_due(kind):
            self._log.exception(*self._line(kind, arguments))

    def warning(self, text: str, *arguments: object, error: object = None) -> None:
        """Logs the line as a warning, also on stderr where no logging is configured if it tells an ``error``, whose
        name makes it another kind.
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
            return f"{kind.text} (and %d times since the last such line)", *arguments, left_out
        return kind.text, *arguments


def _origin(error: BaseException | None) -> tuple[type | None, str, int]:
    """The class of an exception, and the line that has raised it: there are not many of these."""
    trace = None if error is None else error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    where = ("", 0) if trace is None else (trace.tb_frame.f_code.co_filename, trace.tb_lineno)
    return None if error is None else type(error), *where
