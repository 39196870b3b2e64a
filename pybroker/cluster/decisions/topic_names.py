"""Kafka's rules for topic names, which become names of folders and metrics. Errors use Kafka's texts, because scripts
look for them.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import cached_property
from itertools import chain, product
from typing import Final

from pyclient.protocol import errors

MAX_LENGTH: Final = 249
NAMES_PER_LOOKUP: Final = 10
"""Over how many names one can iterate in the time that a lookup of a similar name takes."""

_SEPARATOR = re.compile(r"[._]")
_LEGAL = re.compile(r"[a-zA-Z0-9._-]+\Z")


def check_name(name: str | None) -> None:
    """Raises InvalidTopicException if Kafka does not allow this name for a topic."""
    if not name:
        raise _invalid("the empty string is not allowed")
    if name in (".", ".."):
        raise _invalid(f"'{name}' is not allowed")
    if len(name) > MAX_LENGTH:
        raise _invalid(f"the length of '{name}' is longer than the max allowed length {MAX_LENGTH}")
    if not _LEGAL.match(name):
        raise _invalid(f"'{name}' contains one or more characters other than ASCII alphanumerics, '.', '_' and '-'")


def _invalid(why: str) -> errors.InvalidTopicException:
    return errors.InvalidTopicException(f"Topic name is invalid: {why}")


def unknown_topic(name: str | None) -> errors.UnknownTopicOrPartition:
    """Returns the error for a topic that does not exist: Kafka's sentence, which scripts look for, and the name."""
    return errors.UnknownTopicOrPartition(f"{errors.UnknownTopicOrPartition.text} There is no topic '{name}'.")


class Collisions:
    """Finds names that differ only by ``.`` and ``_``, because the names of their metrics would be equal.

    For a new name, it looks up each name that could collide with it. This takes the same time for any number of topics.
    But a name with many separators could collide with many names. If so many lookups would take longer, it iterates
    once over all existing names.
    """

    def __init__(self, existing: Collection[str], new: int = 1) -> None:
        """``new`` is how many names are checked."""
        self._existing = existing
        self._most_lookups = len(existing) // (NAMES_PER_LOOKUP * max(1, new))
        self._added: dict[str, str] = {}
        """Added names, by their form with all separators equal."""

    def check(self, name: str) -> None:
        """Raises InvalidTopicException if another name collides with ``name``."""
        pieces = _SEPARATOR.split(name)
        if len(pieces) == 1:
            return
        other = self._added.get(_shape(name))
        if other is None and 1 << (len(pieces) - 1) <= self._most_lookups:
            other = next((each for each in _alike(pieces) if each in self._existing), name)
        elif other is None:
            other = self._by_shape.get(_shape(name), name)
        if other != name:
            raise errors.InvalidTopicException(f"Topic '{name}' collides with existing topic: {other}")

    def add(self, name: str) -> None:
        """Adds ``name`` as existing."""
        self._added[_shape(name)] = name

    @cached_property
    def _by_shape(self) -> Mapping[str, str]:
        return {_shape(name): name for name in self._existing}


def _alike(pieces: Sequence[str]) -> Iterator[str]:
    """Yields every name that differs from this one at most in its separators, ``.`` and ``_``."""
    first, *rest = pieces
    for separators in product("._", repeat=len(rest)):
        yield first + "".join(chain.from_iterable(zip(separators, rest, strict=True)))


def _shape(name: str) -> str:
    return name.replace(".", "_")
