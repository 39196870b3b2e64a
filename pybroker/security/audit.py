"""The audit log, Kafka's ``kafka.authorizer.logger``: denied operations, and at DEBUG allowed ones.

A denied client tries again, perhaps a thousand times a second, and may make up names. So the same denial is logged once
in ``WINDOW_MS``, and each address and each principal has a limited number of lines. One client's requests do not
suppress another's lines: even if there are too many lines, each principal still has its first line. The first denial of
the next window logs how many denials were omitted, and for which principals.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Final, NamedTuple

from cy.counted import counted
from pybroker.security.acls import ResourcePattern, shown
from pyclient.protocol.acls import AclOperation

LOGGER: Final = "kafka.authorizer.logger"
WINDOW_MS: Final = 10_000
MOST_OF_ADDRESS: Final = 50
"""How many lines a principal may have from one address."""
MOST_OF_PRINCIPAL: Final = 200
MOST_LINES: Final = 1000
"""How many lines all principals may have together; beyond that, a principal gets only its first line."""
MOST_COUNTED: Final = 100
"""For how many principals the omitted denials are counted one by one."""

_log = logging.getLogger(LOGGER)


class Question(NamedTuple):
    """A client and the operation that it requests. ``request`` is the name of the API, "" if unknown; ``references`` is
    how often the request names the resource.
    """

    principal: str
    host: str
    operation: AclOperation
    resource: ResourcePattern
    request: str = ""
    references: int = 1


class _Told:
    """The denials of one principal that were logged in this window. ``of`` has them by address."""

    __slots__ = ("left_out", "lines", "of")

    def __init__(self) -> None:
        self.of: dict[str, set[tuple[AclOperation, str, str]]] = {}
        self.lines = self.left_out = 0


class Audit:
    """Writes the audit log of one broker."""

    def __init__(self, monotonic_ms: Callable[[], int]) -> None:
        self._now_ms = monotonic_ms
        self._began_ms = -WINDOW_MS
        self._told: dict[str, _Told] = {}
        self._lines = 0

    @property
    def tells_allowed(self) -> bool:
        """True if allowed operations are logged."""
        return _log.isEnabledFor(logging.DEBUG)

    def allowed(self, question: Question, rule: str) -> None:
        """Logs an allowed operation; ``rule`` is the reason."""
        _log.debug("%s", _line(question, "Allowed", rule))

    def denied(self, question: Question, rule: Callable[[], str]) -> None:
        """Logs a denial, unless it was just logged; ``rule()`` returns the reason."""
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
        """Returns whether to log the denial: it is new, and there are not too many lines."""
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
        """Ends a window: logs how many denials were not logged in it."""
        told, self._told, self._lines = self._told, {}, 0
        most = sorted(((each.left_out, who) for who, each in told.items() if each.left_out), reverse=True)
        for count, who in most[:MOST_COUNTED]:
            _log.info("%s not logged: they were repeated, or too many", _left_out(count, shown(who)))
        if rest := most[MOST_COUNTED:]:
            count = sum(count for count, _ in rest)
            _log.info("%s not logged", _left_out(count, counted(len(rest), "other")))


def _left_out(count: int, whose: str) -> str:
    return counted(count, f"more denial of {whose} was", f"more denials of {whose} were")


def _line(question: Question, result: str, rule: str) -> str:
    principal, host, operation, resource, request, references = question
    asked = f" for request = {request} with resourceRefCount = {references}" if request else ""
    return (
        f"Principal = {shown(principal)} is {result} operation = {operation.name} from host = {host}"
        f" on resource = {resource}{asked} based on rule {rule}"
    )
