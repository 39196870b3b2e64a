"""Kafka's keys as keyword arguments of Python, with ``_`` for ``.``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeVar

T = TypeVar("T")


def key_with_dots(keyword: str) -> str:
    """Returns the key that Kafka has for a keyword."""
    return keyword.replace("_", ".")


def with_dots(settings: Mapping[str, T]) -> dict[str, T]:
    """Returns the settings by Kafka's keys."""
    return {key_with_dots(keyword): value for keyword, value in settings.items()}
