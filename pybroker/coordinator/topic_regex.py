"""Resolves a regular expression to topics: it has RE2's syntax, and must match the whole name.

RE2 takes time linear in the name, whatever the expression, so a client cannot block the broker. The memory for one
expression is limited here too.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from typing import Any, Final

import re2

from pyclient.protocol import errors

MAX_MEMORY: Final = 1 << 20
"""How many bytes a compiled expression may take."""

_OPTIONS: Final = re2.Options()
_OPTIONS.log_errors = False
_OPTIONS.max_mem = MAX_MEMORY

logger = logging.getLogger(__name__)


def _compile(regex: str) -> Any:
    return re2.compile(regex, _OPTIONS)


def check(regex: str) -> None:
    """Raises InvalidRegularExpression if the expression is invalid."""
    try:
        _compile(regex)
    except re2.error as error:
        raise errors.InvalidRegularExpression(
            f"SubscribedTopicRegex `{regex}` is not a valid regular expression: {_why(error)}."
        ) from None


def matching(regexes: Iterable[str], names: Iterable[str]) -> dict[str, frozenset[str]]:
    """Returns the matching names of each expression; none for an invalid one."""
    listed = list(names)
    return {regex: _matching(regex, listed) for regex in regexes}


def _matching(regex: str, names: list[str]) -> frozenset[str]:
    try:
        pattern = _compile(regex)
    except re2.error as error:
        logger.error("the regular expression %r is ignored: %s", regex, _why(error))
        return frozenset()
    return frozenset(name for name in names if pattern.fullmatch(name))


def _why(error: Exception) -> str:
    [text] = error.args[:1] or (b"",)
    return text.decode(errors="replace") if isinstance(text, bytes) else str(text)
