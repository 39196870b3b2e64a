"""Replicas whose disk a broker has lost, as journal and znodes write them: by topic, because a disk has thousands."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import groupby
from operator import itemgetter
from typing import TypeVar

Id = TypeVar("Id", bytes, str)

Rows = tuple[tuple[Id, int | tuple[int, ...]], ...]
"""A topic's id with indexes of partitions; with a single index as it was written before there were groups."""


def rows(replicas: Iterable[tuple[Id, int]]) -> Rows[Id]:
    """``replicas`` (topic id, index) by topic, in order."""
    grouped = groupby(sorted(replicas), itemgetter(0))
    return tuple((topic_id, tuple(index for _, index in group)) for topic_id, group in grouped)


def replicas(written: Iterable[tuple[Id, int | Iterable[int]]]) -> frozenset[tuple[Id, int]]:
    """What ``rows`` were made of."""
    return frozenset(
        (topic_id, index)
        for topic_id, indexes in written
        for index in ((indexes,) if isinstance(indexes, int) else indexes)
    )
