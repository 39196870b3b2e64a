"""Which names a topic may have (Kafka's rules): they become names of folders and of metrics."""

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
        raise errors.InvalidTopicException("a topic's name is empty")
    if name in (".", ".."):
        raise errors.InvalidTopicException(f"a topic cannot be named '{name}'")
    if len(name) > MAX_LENGTH:
        raise errors.InvalidTopicException(
            f"the topic's name is {len(name)} characters long, more than {MAX_LENGTH}: {name}"
        )
    if not _LEGAL.match(name):
        raise errors.InvalidTopicException(
            f"topic name {name!r} has a character other than ASCII letters, digits, '.', '_', '-'"
        )


class Collisions:
    """Finds names that differ only by ``.`` and ``_``: as names of metrics they would be one."""

    def __init__(self, existing: Iterable[str]) -> None:
        self._by_shape = {_shape(name): name for name in existing if _can_collide(name)}

    def check(self, name: str) -> None:
        """Raises InvalidTopicException where another name collides with ``name``."""
        if _can_collide(name):
            other = self._by_shape.get(_shape(name), name)
            if other != name:
                raise errors.InvalidTopicException(f"topic '{name}' collides with topic '{other}'")

    def add(self, name: str) -> None:
        """``name`` exists from now on."""
        if _can_collide(name):
            self._by_shape[_shape(name)] = name


def _can_collide(name: str) -> bool:
    return "." in name or "_" in name


def _shape(name: str) -> str:
    return name.replace(".", "_")
