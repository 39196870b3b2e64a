"""The iteration order of Java's HashMap and HashSet.

Kafka's sticky assignors break ties by this order, for example which of several members keeps an extra partition. An
assignor needs the same order to assign partitions as Kafka does. A bucket is chosen by the upper half of the hash xored
into the lower one. The number of buckets is a power of two, at least 16, and at most three quarters of them are filled.
Within a bucket, elements keep the order of insertion.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from struct import unpack
from typing import Generic, TypeVar

from pyclient.topic_partition import TopicPartition

T = TypeVar("T")

MASK = 0xFFFFFFFF
LEAST_BUCKETS = 16


def text_hash(text: str) -> int:
    """Returns ``String.hashCode``, unsigned: over UTF-16 units."""
    units = text.encode("utf-16-be")
    found = 0
    for unit in unpack(f">{len(units) // 2}H", units):
        found = (31 * found + unit) & MASK
    return found


def partition_hash(tp: TopicPartition) -> int:
    """Returns ``TopicPartition.hashCode``, unsigned."""
    return (31 * (31 + tp.partition) + text_hash(tp.topic)) & MASK


def buckets_of(size: int, at_least: int = LEAST_BUCKETS) -> int:
    """Returns the number of buckets of a table with ``size`` entries."""
    while size > at_least * 3 // 4:
        at_least *= 2
    return at_least


def _bucket(hashed: int, buckets: int) -> int:
    return (hashed ^ hashed >> 16) & buckets - 1


def in_java_order(keys: Iterable[str]) -> list[str]:
    """Returns the strings in the order in which a HashMap iterates over them, if they were put into it in the given
    order.
    """
    given = list(keys)
    buckets = buckets_of(len(given))
    return sorted(given, key=lambda key: _bucket(text_hash(key), buckets))


class JavaSet(Generic[T]):
    """The part of a HashSet that tells which element comes first. It never has fewer buckets than before."""

    def __init__(self, hashed: Callable[[T], int]) -> None:
        self._hash = hashed
        self._items: dict[T, int] = {}
        self._buckets = LEAST_BUCKETS

    def __bool__(self) -> bool:
        return bool(self._items)

    def add(self, item: T) -> None:
        """Adds the item, unless the set has it."""
        self._items.setdefault(item, self._hash(item))
        self._buckets = buckets_of(len(self._items), self._buckets)

    def remove(self, item: T) -> None:
        """Removes the item. Raises KeyError if the set does not have it."""
        del self._items[item]

    def first(self) -> T:
        """Returns the first element of an iteration. Raises ValueError for an empty set."""
        return min(self._items, key=lambda item: _bucket(self._items[item], self._buckets))
