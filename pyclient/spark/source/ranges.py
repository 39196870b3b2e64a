"""Ranges of offsets, one per task. Splits large ones as Spark's ``kafka`` does. No I/O."""

from __future__ import annotations

import math
from collections.abc import Iterable
from itertools import pairwise
from typing import NamedTuple

from pyclient.topic_partition import TopicPartition


class Range(NamedTuple):
    """The records of a partition from ``start`` up to, not including, ``end``."""

    tp: TopicPartition
    start: int
    end: int

    @property
    def size(self) -> int:
        """The number of offsets; if the log has gaps, there are fewer records."""
        return self.end - self.start

    def __str__(self) -> str:
        return f"{self.tp} from offset {self.start} to {self.end}"


def split(ranges: Iterable[Range], min_partitions: int | None = None, max_records: int | None = None) -> list[Range]:
    """Returns the ranges that are not empty, of at most ``max_records`` each. Splits large ranges to get about
    ``min_partitions`` or more.
    """
    found = [each for each in ranges if each.size > 0]
    if max_records is not None:
        found = [part for each in found for part in _parts(each, math.ceil(each.size / max_records))]
    if min_partitions is None or len(found) >= min_partitions:
        return found
    return _widened(found, min_partitions)


def _widened(ranges: list[Range], wanted: int) -> list[Range]:
    """Leaves small ranges whole. Divides the remaining tasks among the others by their sizes."""
    total = sum(each.size for each in ranges)
    whole = {each for each in ranges if _share(each.size, total, wanted) == 1}
    rest = total - sum(each.size for each in whole)
    left = max(wanted - len(whole), 1)
    return [
        part
        for each in ranges
        for part in _parts(each, 1 if each in whole else _share(each.size, rest, left))
    ]


def _share(size: int, total: int, parts: int) -> int:
    return max(math.floor(size / total * parts + 0.5), 1)


def _parts(whole: Range, count: int) -> list[Range]:
    """Returns parts of nearly equal sizes."""
    edges = [whole.start]
    for left in range(count, 0, -1):
        edges.append(edges[-1] + (whole.end - edges[-1]) // left)
    return [Range(whole.tp, start, end) for start, end in pairwise(edges) if end > start]
