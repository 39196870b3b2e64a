"""Resolves a regular expression to topics: it has RE2's syntax, and must match the whole name.

RE2 takes time linear in the name, whatever the expression, so a client cannot block the broker. The memory for one
expression is limited here too. RE2 never captures groups: thousands of them would take a gigabyte. While RE2 parses an
expression, no other thread runs, so the weight of a client's expression is limited. Stored expressions are exempt.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from typing import Any, Final

import re2

from pyclient.protocol import errors

MAX_MEMORY: Final = 1 << 20
"""How many bytes a compiled expression may take."""
HEAVIEST: Final = 10_000
"""The most that a client's expression may weigh. A letter weighs 1; this many letters parse in some milliseconds."""
_WEIGHTS: Final = {**dict.fromkeys("?*+{", 20), r"\p": 200, r"\P": 200}
"""The weights of repetitions and of Unicode classes."""

logger = logging.getLogger(__name__)


def options(memory: int) -> Any:
    """Returns RE2 options for expressions of at most ``memory`` bytes that are only tested for a match."""
    found = re2.Options()
    found.log_errors, found.never_capture, found.max_mem = False, True, memory
    return found


_OPTIONS: Final = options(MAX_MEMORY)


def _compile(regex: str) -> Any:
    return re2.compile(regex, _OPTIONS)


def check_weight(regex: str) -> None:
    """Raises InvalidRegularExpression if a client's expression would take long to parse."""
    weight = len(regex)
    if weight <= HEAVIEST:
        weight += sum(each * regex.count(token) for token, each in _WEIGHTS.items())
    if weight > HEAVIEST:
        raise errors.InvalidRegularExpression(
            f"a regular expression of {len(regex)} characters is too long, or has too many repetitions and classes"
        )


def check(regex: str) -> None:
    """Raises InvalidRegularExpression if a client's expression is invalid or too heavy."""
    check_weight(regex)
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
