"""The audit log, Kafka's ``kafka.authorizer.logger``: who was denied what, and at DEBUG who was allowed what.

A client that is denied asks again, perhaps a thousand times a second. So the same denial is one line in ``WINDOW_MS``,
and there are at most ``MOST_LINES`` of different ones in that time. The first line afterwards counts what was left out.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Final, NamedTuple

from pybroker.security.acls import ResourcePattern, shown
from pyclient.protocol.acls import AclOperation

LOGGER: Final = "kafka.authorizer.logger"
WINDOW_MS: Final = 10_000
MOST_LINES: Final = 200

_log = logging.getLogger(LOGGER)


class Question(NamedTuple):
    """A client, and what it wanted to do. ``request``: the name of the API, "" where it is not known; ``references``:
    how often the request names the resource.
    """

    principal: str
    host: str
    operation: AclOperation
    resource: ResourcePattern
    request: str = ""
    references: int = 1


class Audit:
    """Writes the lines of one broker."""

    def __init__(self, monotonic_ms: Callable[[], int]) -> None:
        self._now_ms = monotonic_ms
        self._began_ms = -WINDOW_MS
        self._told: set[tuple[str, str, AclOperation, str]] = set()
        self._left_out = 0

    @property
    def tells_allowed(self) -> bool:
        """Whether somebody wants to know of what was allowed."""
        return _log.isEnabledFor(logging.DEBUG)

    def allowed(self, question: Question, rule: str) -> None:
        """``rule``: why."""
        _log.debug("%s", _line(question, "Allowed", rule))

    def denied(self, question: Question, rule: Callable[[], str]) -> None:
        """Says so, unless it was said just now; ``rule()``: why."""
        if not _log.isEnabledFor(logging.INFO):
            return
        now_ms = self._now_ms()
        if now_ms - self._began_ms >= WINDOW_MS:
            self._tell_left_out()
            self._told.clear()
            self._began_ms = now_ms
        key = (question.principal, question.host, question.operation, str(question.resource))
        if key in self._told or len(self._told) >= MOST_LINES:
            self._left_out += 1
            return
        self._told.add(key)
        _log.info("%s", _line(question, "Denied", rule()))

    def _tell_left_out(self) -> None:
        if self._left_out:
            _log.info("%d denials more were not logged: the same ones, or too many", self._left_out)
            self._left_out = 0


def _line(question: Question, result: str, rule: str) -> str:
    principal, host, operation, resource, request, references = question
    asked = f" for request = {request} with resourceRefCount = {references}" if request else ""
    return (
        f"Principal = {shown(principal)} is {result} operation = {operation.name} from host = {host}"
        f" on resource = {resource}{asked} based on rule {rule}"
    )
