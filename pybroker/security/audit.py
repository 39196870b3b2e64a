"""The audit log, Kafka's ``kafka.authorizer.logger``: who was denied what, and at DEBUG who was allowed what.

A client that is denied asks again, perhaps a thousand times a second, and may make up names. So the same denial is one
line in ``WINDOW_MS``, and each address and each principal has so many of different ones. What one of them asks leaves
out no line of others: where all have too many lines, each principal still has its first. The first denial afterwards
tells how many were left out, and whose they were.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Final, NamedTuple

from pybroker.security.acls import ResourcePattern, shown
from pyclient.protocol.acls import AclOperation

LOGGER: Final = "kafka.authorizer.logger"
WINDOW_MS: Final = 10_000
MOST_OF_ADDRESS: Final = 50
"""Lines of a principal that comes from one address."""
MOST_OF_PRINCIPAL: Final = 200
MOST_LINES: Final = 1000
"""Lines of all; with more than that, a principal has its first line only."""
MOST_COUNTED: Final = 100
"""Principals whose denials that were left out are told one by one."""

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


class _Told:
    """What was told of one principal in this window. ``of``: by address; it has no more than the lines have."""

    __slots__ = ("left_out", "lines", "of")

    def __init__(self) -> None:
        self.of: dict[str, set[tuple[AclOperation, str, str]]] = {}
        self.lines = self.left_out = 0


class Audit:
    """Writes the lines of one broker."""

    def __init__(self, monotonic_ms: Callable[[], int]) -> None:
        self._now_ms = monotonic_ms
        self._began_ms = -WINDOW_MS
        self._told: dict[str, _Told] = {}
        self._lines = 0

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
            self._began_ms = now_ms
        told = self._told.setdefault(question.principal, _Told())
        if self._is_news(told, question):
            _log.info("%s", _line(question, "Denied", rule()))
        else:
            told.left_out += 1

    def _is_news(self, told: _Told, question: Question) -> bool:
        """Whether it is told: it is another denial than before, and neither its client nor all have too many."""
        said = (question.operation, str(question.resource), question.request)
        before = told.of.get(question.host, ())
        most = MOST_OF_PRINCIPAL if self._lines < MOST_LINES else 1
        if said in before or len(before) >= MOST_OF_ADDRESS or told.lines >= most:
            return False
        told.of.setdefault(question.host, set()).add(said)
        told.lines += 1
        self._lines += 1
        return True

    def _tell_left_out(self) -> None:
        """Ends a window."""
        told, self._told, self._lines = self._told, {}, 0
        most = sorted(((each.left_out, who) for who, each in told.items() if each.left_out), reverse=True)
        for count, who in most[:MOST_COUNTED]:
            _log.info("%d denials more of %s were not logged: the same ones, or too many", count, shown(who))
        if rest := most[MOST_COUNTED:]:
            count = sum(count for count, _ in rest)
            _log.info("%d denials more of %d others were not logged", count, len(rest))


def _line(question: Question, result: str, rule: str) -> str:
    principal, host, operation, resource, request, references = question
    asked = f" for request = {request} with resourceRefCount = {references}" if request else ""
    return (
        f"Principal = {shown(principal)} is {result} operation = {operation.name} from host = {host}"
        f" on resource = {resource}{asked} based on rule {rule}"
    )
