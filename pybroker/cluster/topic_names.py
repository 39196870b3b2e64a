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


def check_collision(name: str, existing: Iterable[str]) -> None:
    """Raises InvalidTopicException where an existing name differs only by ``.`` and ``_``."""
    if "." not in name and "_" not in name:
        return
    shape = name.replace(".", "_")
    for other in existing:
        if other != name and len(other) == len(name) and other.replace(".", "_") == shape:
            raise errors.InvalidTopicException(f"topic '{name}' collides with topic '{other}'")
