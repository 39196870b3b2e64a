"""Counters that drop entries at zero."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeVar

T = TypeVar("T")


def count(counts: dict[T, int], items: Iterable[T], by: int) -> None:
    """Adds ``by`` to each item's count, and removes items whose count reaches zero."""
    for item in items:
        left = counts.get(item, 0) + by
        if left > 0:
            counts[item] = left
        else:
            counts.pop(item, None)
