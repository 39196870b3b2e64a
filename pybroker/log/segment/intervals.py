"""A set of disjoint ranges of positions; ranges that touch are joined."""

from __future__ import annotations

from bisect import bisect_right


class Intervals:
    """Half-open ranges ``[start, end)``, ascending."""

    __slots__ = ("_ends", "_starts")

    def __init__(self) -> None:
        self._starts: list[int] = []
        self._ends: list[int] = []

    def add(self, start: int, end: int) -> None:
        """Adds a range."""
        first = bisect_right(self._ends, start - 1)
        last = bisect_right(self._starts, end)
        if first < last:
            start = min(start, self._starts[first])
            end = max(end, self._ends[last - 1])
        self._starts[first:last] = [start]
        self._ends[first:last] = [end]

    def end_of(self, position: int) -> int:
        """Returns the end of the range that has ``position``, or ``position`` itself if no range has it."""
        number = bisect_right(self._starts, position)
        return max(position, self._ends[number - 1]) if number else position

    def covers(self, start: int, end: int) -> bool:
        """Returns True if all of ``[start, end)`` is in the set."""
        return self.end_of(start) >= end

    def clear(self) -> None:
        """Empties the set."""
        self._starts.clear()
        self._ends.clear()
