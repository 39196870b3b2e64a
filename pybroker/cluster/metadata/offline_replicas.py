"""Replicas whose disk a broker has lost, in the format of journal and znodes. They are grouped by topic, because a disk
has thousands of replicas.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import groupby
from operator import itemgetter
from typing import TypeVar

Id = TypeVar("Id", bytes, str)

Rows = tuple[tuple[Id, int | tuple[int, ...]], ...]
"""Rows of a topic's id and the indexes of partitions. Older versions, which did not group, wrote a single index."""


def rows(replicas: Iterable[tuple[Id, int]]) -> Rows[Id]:
    """Returns ``replicas`` (topic id, index) grouped by topic, in order."""
    grouped = groupby(sorted(replicas), itemgetter(0))
    return tuple((topic_id, tuple(index for _, index in group)) for topic_id, group in grouped)


def replicas(written: Iterable[tuple[Id, int | Iterable[int]]]) -> frozenset[tuple[Id, int]]:
    """Returns the replicas in ``rows``."""
    return frozenset(
        (topic_id, index)
        for topic_id, indexes in written
        for index in ((indexes,) if isinstance(indexes, int) else indexes)
    )
