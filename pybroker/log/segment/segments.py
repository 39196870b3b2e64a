"""The segments of a log, ordered by base offset.

A lookup of an offset first finds its segment here by a binary search, and then searches that segment's
index. Invariant: there is at least one segment once the log is open. The last one is the active one,
and only this one grows.

Thread-safety: changed on the loop's thread only; ``snapshot`` returns a list for other threads that does
not change.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator
from typing import Final

from cy.batch import HEADER_SIZE
from pybroker.log.files.batches import Located
from pybroker.log.segment.log_slice import LogSlice
from pybroker.log.segment.segment import Segment
from pybroker.log.segment.slicing import read_slice

REMOVED_PER_TURN: Final = 50
"""How many segments are removed in one turn of the event loop: about 200 renames, a few milliseconds."""


class Segments:
    """An ordered collection of segments."""

    __slots__ = ("_bases", "_segments")

    def __init__(self, segments: list[Segment]) -> None:
        self._segments = sorted(segments, key=lambda segment: segment.base_offset)
        self._bases = [segment.base_offset for segment in self._segments]

    def __len__(self) -> int:
        return len(self._segments)

    def __iter__(self) -> Iterator[Segment]:
        return iter(self._segments)

    def __contains__(self, segment: Segment) -> bool:
        return segment in self._segments

    def __getitem__(self, number: int) -> Segment:
        return self._segments[number]

    def snapshot(self) -> list[Segment]:
        """Returns a list of the segments that later changes do not affect."""
        return list(self._segments)

    def find(self, offset: int) -> int:
        """Returns the index of the segment that would have ``offset``, 0 for an offset before all segments."""
        return max(bisect_right(self._bases, offset) - 1, 0)

    def end_offset(self, number: int, log_end_offset: int) -> int:
        """Returns where the segment's offsets end: the next one's base offset, or the log end."""
        return self._bases[number + 1] if number + 1 < len(self._bases) else log_end_offset

    def count_from(self, offset: int) -> int:
        """Returns how many segments begin at or beyond ``offset``."""
        return len(self._bases) - bisect_left(self._bases, offset)

    def last_below(self, offset: int) -> Segment:
        """Returns the last segment that begins below ``offset``; there must be one."""
        return self._segments[bisect_left(self._bases, offset) - 1]

    def end_of_cut(self, offset: int) -> tuple[Segment, Located | None, int]:
        """Returns what a truncation at ``offset`` affects. Raises OSError, MalformedBatch.

        Returns the segment that it shortens, the first batch of this segment that it removes, and the resulting log
        end.
        """
        segment = self._segments[self.find(offset)]
        cut = segment.batch_reaching(offset)
        return segment, cut, offset if cut is None else min(offset, cut.batch.base_offset)

    def read(self, offset: int, max_bytes: int, bound: int, log_end_offset: int, min_one: bool) -> LogSlice:
        """Does ``Log.read`` for an offset of the log that is below ``bound``. Raises OSError, CorruptMessage."""
        rest = None
        segments, count = self._segments, len(self._segments)
        number = self.find(offset)
        while number < count:
            segment_end = self._bases[number + 1] if number + 1 < count else log_end_offset
            found = read_slice(segments[number], offset, max_bytes, bound, segment_end, min_one)
            number += 1
            if found is None:
                continue
            if not found.size:
                break
            if found.size != HEADER_SIZE or found.next_offset != segment_end:
                return found
            rest = found
        return LogSlice(b"", 0, offset, offset) if rest is None else rest

    def add(self, segment: Segment) -> None:
        """Adds the new active segment."""
        assert not self._bases or segment.base_offset > self._bases[-1]
        self._segments.append(segment)
        self._bases.append(segment.base_offset)

    def start_over(self, segment: Segment) -> None:
        """Replaces all segments by a new active one."""
        self._segments, self._bases = [segment], [segment.base_offset]

    def remove_first(self, count: int) -> list[Segment]:
        """Removes and returns the ``count`` oldest segments."""
        removed = self._segments[:count]
        del self._segments[:count], self._bases[:count]
        return removed

    def remove_from(self, offset: int) -> list[Segment]:
        """Removes and returns the segments whose base offset is at least ``offset``."""
        first = bisect_left(self._bases, offset)
        removed = self._segments[first:]
        del self._segments[first:], self._bases[first:]
        return removed

    def has_run(self, segments: list[Segment]) -> bool:
        """Returns True if exactly these segments follow each other here, and none of them is active."""
        first = bisect_left(self._bases, segments[0].base_offset)
        found = self._segments[first : first + len(segments)]
        return len(found) == len(segments) < len(self._segments) - first and all(
            here is segment for here, segment in zip(found, segments, strict=True)
        )

    def replace(self, old: list[Segment], new: Segment) -> None:
        """Replaces the segments ``old``, which follow each other, by ``new`` (compaction)."""
        first = self._segments.index(old[0])
        assert self._segments[first : first + len(old)] == old
        self._segments[first : first + len(old)] = [new]
        self._bases[first : first + len(old)] = [new.base_offset]

    def sync(self, start: int, end: int, is_over: Callable[[], bool] = lambda: False) -> None:
        """Syncs the segments with offsets of ``[start, end)``, and the indexes of sealed ones.

        Stops between two segments if ``is_over()`` returns True.
        Raises OSError. May run on a pool thread: a segment that is removed meanwhile needs no sync.
        """
        segments = self.snapshot()
        for segment, following in zip(segments, [*segments[1:], None], strict=True):
            if is_over():
                return
            if segment.base_offset < end and (following is None or following.base_offset > start):
                try:
                    segment.files.sync(with_indexes=following is not None)
                except FileNotFoundError:
                    if not segment.files.is_removed:
                        raise
