"""Kafka's rules for names of topics, which become names of folders and metrics. Errors use Kafka's words, because
scripts look for them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

from pyclient.protocol import errors

MAX_LENGTH: Final = 249

_LEGAL = re.compile(r"[a-zA-Z0-9._-]+\Z")


def check_name(name: str | None) -> None:
    """Raises InvalidTopicException where a topic must not be named so."""
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
    """The error of a topic that is not there: Kafka's sentence, which scripts look for, and the name."""
    return errors.UnknownTopicOrPartition(f"{errors.UnknownTopicOrPartition.text} There is no topic '{name}'.")


class Collisions:
    """Finds names that differ only by ``.`` and ``_``: as names of metrics they would be one."""

    def __init__(self, existing: Iterable[str]) -> None:
        self._by_shape = {_shape(name): name for name in existing if _can_collide(name)}

    def check(self, name: str) -> None:
        """Raises InvalidTopicException where another name collides with ``name``."""
        if _can_collide(name):
            other = self._by_shape.get(_shape(name), name)
            if other != name:
                raise errors.InvalidTopicException(f"Topic '{name}' collides with existing topic: {other}")

    def add(self, name: str) -> None:
        """``name`` exists from now on."""
        if _can_collide(name):
            self._by_shape[_shape(name)] = name


def _can_collide(name: str) -> bool:
    return "." in name or "_" in name


def _shape(name: str) -> str:
    return name.replace(".", "_")
