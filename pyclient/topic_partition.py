"""A partition of a topic."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from operator import index
from typing import NamedTuple, TypeVar

from cy.other_name import PAGE

T = TypeVar("T")


class TopicPartition(NamedTuple):
    """A partition of a topic: ``TopicPartition("flights", 0)``."""

    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"


def _new(kind: type[TopicPartition], topic: str, partition: int, offset: object = None) -> TopicPartition:
    """Makes a TopicPartition. Raises TypeError for the third argument that confluent-kafka's has."""
    if offset is not None:
        raise TypeError(
            f"TopicPartition(topic, partition) takes no offset: call seek(TopicPartition({topic!r}, {partition!r}), "
            f"{offset!r}), or pass a mapping {{TopicPartition: offset}} to commit; see {PAGE}"
        )
    return tuple.__new__(kind, (topic, partition))


_new.__qualname__ = TopicPartition.__name__  # for Python's errors about arguments
TopicPartition.__new__ = _new  # type: ignore[method-assign, assignment]  # typing refuses it in the class's body


def partition_of(given: object) -> TopicPartition:
    """Converts a TopicPartition or a pair. Raises TypeError."""
    if isinstance(given, tuple) and len(given) == 2:
        topic, number = given
        if isinstance(topic, str) and hasattr(number, "__index__"):
            return TopicPartition(topic, index(number))
    raise TypeError(f"{given!r} is not a TopicPartition(topic: str, partition: int)")


def by_partition(given: Mapping[TopicPartition, T]) -> dict[TopicPartition, T]:
    """Returns the mapping with its keys as ``partition_of`` returns them. Raises TypeError if ``given`` is not a
    mapping.
    """
    if not isinstance(given, Mapping):
        raise TypeError(f"{given!r} is not a mapping of TopicPartition(topic, partition)")
    return {partition_of(tp): each for tp, each in given.items()}


def partitions_of(given: Iterable[object]) -> list[TopicPartition]:
    """Converts all partitions like ``partition_of``. Raises TypeError, also for a single partition."""
    is_one = isinstance(given, str) or (isinstance(given, tuple) and given and isinstance(given[0], str))
    if is_one or not isinstance(given, Iterable):
        raise TypeError(f"{given!r} is not a list of TopicPartition(topic, partition)")
    return [partition_of(each) for each in given]
