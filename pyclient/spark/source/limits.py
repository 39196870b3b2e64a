"""Limits a micro-batch: to a number of records or bytes, and to start only when there are enough records. No I/O."""

from __future__ import annotations

import math
from collections.abc import Mapping

from pyclient.spark.source.offsets import Offsets
from pyclient.topic_partition import TopicPartition

Sizes = Mapping[TopicPartition, float]


def at_most(records: int, start: Offsets, end: Offsets) -> Offsets:
    """Limits the records of a batch. Each partition gets a proportional share, at least one (as in Spark's
    ``kafka``).
    """
    return _shared(records, start, end, {})


def at_most_bytes(size: int, start: Offsets, end: Offsets, bytes_each: Sizes) -> Offsets:
    """Limits a batch to ``size`` bytes. ``bytes_each`` has the average size of each partition's records."""
    return _shared(size, start, end, bytes_each)


def _shared(limit: int, start: Offsets, end: Offsets, weights: Sizes) -> Offsets:
    records = {tp: offset - start[tp] for tp, offset in end.items() if offset > start.get(tp, offset)}
    total = sum(count * weights.get(tp, 1.0) for tp, count in records.items())
    if total <= limit:
        return dict(end)
    share = limit / total
    return end | {tp: min(end[tp], start[tp] + _rounded(count * share)) for tp, count in records.items()}


def _rounded(count: float) -> int:
    return math.ceil(count) if count < 1 else math.floor(count)


def count(start: Offsets, end: Offsets) -> int:
    """Returns the approximate number of records between two positions."""
    return sum(max(0, offset - start.get(tp, offset)) for tp, offset in end.items())


class Patience:
    """Waits for a number of records, up to a limit of time."""

    def __init__(self, records: int | None, delay_ms: int) -> None:
        self._records = records
        self._delay_s = delay_ms / 1000
        self._last = -math.inf

    def wants_more(self, records: int, now: float) -> bool:
        """Returns True if these records are still too few. ``now`` is in seconds. The first batch does not wait."""
        if self._records is None:
            return False
        if records < self._records and now - self._last < self._delay_s:
            return True
        self._last = now
        return False
