"""Serves filters of a query from the log: skips topics and partitions, and finds where to begin and end in the others.
A filter by time only tells where to begin, because all records before that have earlier times.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from pyspark.sql.datasource import (
    EqualNullSafe,
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    IsNotNull,
    LessThan,
    LessThanOrEqual,
    Not,
    StringContains,
    StringEndsWith,
    StringStartsWith,
)

from pyclient.spark.source.ranges import Range
from pyclient.topic_partition import TopicPartition

Test = Callable[[Any, Any], bool]

_TESTS: Final[Mapping[type, Test]] = {
    EqualTo: lambda value, wanted: value == wanted,
    EqualNullSafe: lambda value, wanted: value == wanted,
    GreaterThan: lambda value, bound: value > bound,
    GreaterThanOrEqual: lambda value, bound: value >= bound,
    LessThan: lambda value, bound: value < bound,
    LessThanOrEqual: lambda value, bound: value <= bound,
    In: lambda value, wanted: value in wanted,
    StringStartsWith: lambda value, part: value.startswith(part),
    StringEndsWith: lambda value, part: value.endswith(part),
    StringContains: lambda value, part: part in value,
}
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_ALWAYS: Final = ("topic", "partition", "offset", "timestamp")
"""Columns that are never null."""


class Narrowing:
    """Narrows the ranges of offsets to read, by the filters of a query."""

    def __init__(self) -> None:
        self._names: list[Callable[[TopicPartition], bool]] = []
        self._start = 0
        self._end: float = math.inf
        self.since_ms: int | None = None
        """Reading begins at the first record that is not earlier than this time."""

    def take(self, given: Filter) -> bool:
        """Applies a filter. Returns True if the filter is served completely, so Spark need not check the rows again."""
        column = _column(given)
        if isinstance(given, IsNotNull):
            return column in _ALWAYS
        if column in ("topic", "partition"):
            return self._take_name(column, given)
        if column == "offset":
            return self._take_offset(given)
        if column == "timestamp":
            self._take_time(given)
        return False

    def _take_name(self, column: str, given: Filter) -> bool:
        inner = given.child if isinstance(given, Not) else given
        test = _TESTS.get(type(inner))
        if test is None:
            return False
        expected, wanted = inner is given, inner.value  # type: ignore[attr-defined]
        if wanted is None or (isinstance(wanted, tuple) and None in wanted):
            return False
        self._names.append(lambda tp: test(getattr(tp, column), wanted) is expected)
        return True

    def _take_offset(self, given: Filter) -> bool:
        if isinstance(given, (EqualTo, EqualNullSafe)) and given.value is not None:
            self._between(given.value, given.value + 1)
        elif isinstance(given, (GreaterThan, GreaterThanOrEqual)):
            self._between(given.value + isinstance(given, GreaterThan), math.inf)
        elif isinstance(given, (LessThan, LessThanOrEqual)):
            self._between(0, given.value + isinstance(given, LessThanOrEqual))
        else:
            return False
        return True

    def _between(self, start: int, end: float) -> None:
        self._start, self._end = max(self._start, start), min(self._end, end)

    def _take_time(self, given: Filter) -> None:
        if not isinstance(given, (EqualTo, GreaterThan, GreaterThanOrEqual)) or not isinstance(given.value, datetime):
            return
        micros = _micros(given.value) + isinstance(given, GreaterThan)
        self.since_ms = max(self.since_ms or 0, -(-micros // 1000))

    def of(self, ranges: Iterable[Range]) -> list[Range]:
        """Returns the ranges that the filters leave, without regard to ``since_ms``."""
        wanted = (each for each in ranges if all(holds(each.tp) for holds in self._names))
        return [each._replace(start=max(each.start, self._start), end=int(min(each.end, self._end))) for each in wanted]


def _column(given: Filter) -> str:
    inner = given.child if isinstance(given, Not) else given
    path: tuple[str, ...] = inner.attribute  # type: ignore[attr-defined]
    return path[0].lower() if len(path) == 1 else ""


def _micros(moment: datetime) -> int:
    aware = moment if moment.tzinfo is not None else moment.astimezone()
    return (aware - _EPOCH) // timedelta(microseconds=1)
