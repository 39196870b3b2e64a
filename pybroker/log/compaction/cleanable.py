"""Decides whether a log is due for compaction, and which part of it (``cleaner`` chooses among logs). Changes nothing.

A log has a *clean* part, below ``first_dirty``, in which each key occurs once, and a *dirty* part behind it. The part
that may be compacted ends at ``first_uncleanable``, the base offset of a segment. It excludes the active segment, and
segments that reach beyond the last stable offset, because their transactions are open. It also excludes the first
segment with a record younger than ``min.compaction.lag.ms``, and all later ones.

A log is due if its dirty bytes are more than ``min.cleanable.dirty.ratio`` of all that may be compacted, or if its
first dirty record is older than ``max.compaction.lag.ms``. The dirtiest log is compacted first.

Thread-safety: loop's thread only.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from pybroker.config.log_config import MAX_LONG
from pybroker.log.files.offset_index import MAX_RELATIVE_OFFSET
from pybroker.log.log import Log
from pybroker.log.segment.segment import Segment
from pybroker.log.segment.segments import REMOVED_PER_TURN


@dataclass(frozen=True, slots=True)
class Cleanable:
    """The part of a log that may be compacted."""

    log: Log
    segments: tuple[Segment, ...]
    """The segments below ``first_uncleanable``, oldest first."""
    first_dirty: int
    first_uncleanable: int
    dirty_bytes: int
    total_bytes: int
    is_overdue: bool
    """True if the log's oldest dirty record is older than ``max.compaction.lag.ms``."""

    @property
    def dirty_ratio(self) -> float:
        """The share of the bytes that are dirty, from 0 to 1."""
        return self.dirty_bytes / self.total_bytes if self.total_bytes else 0.0

    @property
    def is_due(self) -> bool:
        """True if the log should be compacted now."""
        if self.is_overdue:
            return self.dirty_bytes > 0
        return self.dirty_ratio > self.log.config.min_cleanable_dirty_ratio


def first_dirty_offset(log: Log) -> int:
    """Returns the offset at which the dirty part begins; ignores a checkpoint outside the log."""
    if log.log_start_offset <= log.clean_offset <= log.log_end_offset:
        return log.clean_offset
    return log.log_start_offset


def cleanable(log: Log, now_ms: int) -> Cleanable | None:
    """Returns the part of ``log`` that may be compacted, None if it has no dirty records.

    Raises MalformedBatch, OSError if a segment's age cannot be read.
    """
    first_dirty = first_dirty_offset(log)
    segments = log.segments
    bound = segments.find(min(log.last_stable_offset, log.active_segment.base_offset))
    if bound == 0 or segments[bound].base_offset <= first_dirty:
        return None
    first = segments.find(first_dirty)
    if log.config.min_compaction_lag_ms > 0:
        bound = _old_enough(segments.snapshot(), first, bound, now_ms - log.config.min_compaction_lag_ms)
    if bound <= first:
        return None
    chosen = tuple(segments.snapshot()[:bound])
    sizes = [segment.size for segment in chosen]
    return Cleanable(
        log,
        chosen,
        first_dirty,
        segments[bound].base_offset,
        sum(sizes[first:]),
        sum(sizes),
        _is_overdue(chosen[first:], log.config.max_compaction_lag_ms, now_ms),
    )


def _old_enough(segments: Sequence[Segment], first: int, bound: int, latest_ms: int) -> int:
    """Returns the index of the first dirty segment with a record younger than ``latest_ms``, else ``bound``."""
    for number in range(first, bound):
        if segments[number].largest_timestamp > latest_ms:
            return number
    return bound


def _is_overdue(dirty: Sequence[Segment], max_lag_ms: int, now_ms: int) -> bool:
    if max_lag_ms >= MAX_LONG:
        return False
    return any(0 < segment.first_timestamp < now_ms - max_lag_ms for segment in dirty)


def groups(cleanable: Cleanable, end: int) -> list[list[Segment]]:
    """Returns the segments that begin below offset ``end``, in runs. Each run becomes one segment.

    A run has at most ``segment.bytes`` of log, ``segment.index.bytes`` of each index, and offsets that fit into an
    index. So compaction merges small segments. A run has at most ``REMOVED_PER_TURN`` segments, since the swap removes
    all of them at once.
    """
    config = cleanable.log.config
    found: list[list[Segment]] = []
    room = index_room = 0
    bases = [*(segment.base_offset for segment in cleanable.segments), cleanable.first_uncleanable]
    for segment, (base, next_base) in zip(cleanable.segments, pairwise(bases), strict=True):
        if base >= end:
            break
        index = max(len(segment.offset_index.entries), len(segment.time_index.entries))
        fits = found and segment.size <= room and index <= index_room and len(found[-1]) < REMOVED_PER_TURN
        if not fits or next_base - 1 - found[-1][0].base_offset > MAX_RELATIVE_OFFSET:
            found.append([])
            room, index_room = config.segment_bytes, config.segment_index_bytes
        found[-1].append(segment)
        room -= segment.size
        index_room -= index
    return found
