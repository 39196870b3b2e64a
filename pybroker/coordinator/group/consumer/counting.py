"""Counters that forget what they have none of."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeVar

T = TypeVar("T")


def count(counts: dict[T, int], items: Iterable[T], by: int) -> None:
    """Adds ``by`` to each; what comes to zero is not there any more."""
    for item in items:
        left = counts.get(item, 0) + by
        if left > 0:
            counts[item] = left
        else:
            counts.pop(item, None)
