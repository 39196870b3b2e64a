"""How far a micro-batch goes: at most so many records or bytes, and not before there are so many. No I/O."""

from __future__ import annotations

import math
from collections.abc import Mapping

from pyclient.spark.source.offsets import Offsets
from pyclient.topic_partition import TopicPartition

Sizes = Mapping[TopicPartition, float]


def at_most(records: int, start: Offsets, end: Offsets) -> Offsets:
    """Each partition gets its share of the records by how many it has; none is starved (as Spark's ``kafka``)."""
    return _shared(records, start, end, {})


def at_most_bytes(size: int, start: Offsets, end: Offsets, bytes_each: Sizes) -> Offsets:
    """The same of bytes; ``bytes_each`` is what a record of the partition has on average."""
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
    """Records between two places, about."""
    return sum(max(0, offset - start.get(tp, offset)) for tp, offset in end.items())


class Patience:
    """Waits for so many records, but not for longer than a time."""

    def __init__(self, records: int | None, delay_ms: int) -> None:
        self._records = records
        self._delay_s = delay_ms / 1000
        self._last = -math.inf

    def wants_more(self, records: int, now: float) -> bool:
        """Whether this many are too few yet; ``now`` in seconds. The first batch does not wait."""
        if self._records is None:
            return False
        if records < self._records and now - self._last < self._delay_s:
            return True
        self._last = now
        return False
