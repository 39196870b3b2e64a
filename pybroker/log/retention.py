"""Decides how many of a log's oldest segments may be deleted. Pure: offsets, sizes and times are arguments.

There are three reasons to delete a run of oldest segments:

* *log start offset*: every record of the segment is below it (DeleteRecords). This holds for every
  cleanup policy.
* *time* (``retention.ms``): the segment's greatest timestamp is older. So a record dated in the
  future keeps its own segment longer.
* *size* (``retention.bytes``): the log without the segment still has at least that size.

A segment that ends beyond the high watermark is never deleted, because its last records are not committed.
"""

from __future__ import annotations

from typing import NamedTuple, Protocol

from pybroker.config.log_config import LogConfig


class Aged(Protocol):
    """A segment. Its timestamp may have to be read from the disk, so it is read only if it matters."""

    @property
    def size(self) -> int:
        """The size of the segment in bytes."""

    @property
    def largest_timestamp(self) -> int:
        """The largest timestamp in the segment, in milliseconds."""


class Candidate(NamedTuple):
    """A segment, and the offset at which the next one begins or the log ends."""

    end_offset: int
    segment: Aged


def expired_count(
    segments: list[Candidate],
    config: LogConfig,
    log_start_offset: int,
    high_watermark: int,
    log_size: int,
    now_ms: int,
) -> int:
    """Returns how many of ``segments``, the oldest of a log of ``log_size`` bytes, may be deleted."""
    allowed = 0
    while allowed < len(segments) and segments[allowed].end_offset <= high_watermark:
        allowed += 1
    candidates = segments[:allowed]
    counts = [_below_start(candidates, log_start_offset)]
    if config.is_deleted_by_retention:
        counts.append(_too_old(candidates, config.retention_ms, now_ms))
        counts.append(_too_much(candidates, config.retention_bytes, log_size))
    return max(counts)


def _below_start(segments: list[Candidate], log_start_offset: int) -> int:
    count = 0
    while count < len(segments) and segments[count].end_offset <= log_start_offset:
        count += 1
    return count


def _too_old(segments: list[Candidate], retention_ms: int, now_ms: int) -> int:
    count = 0
    if retention_ms >= 0:
        while count < len(segments) and now_ms - segments[count].segment.largest_timestamp > retention_ms:
            count += 1
    return count


def _too_much(segments: list[Candidate], retention_bytes: int, size: int) -> int:
    count = 0
    excess = size - retention_bytes
    if retention_bytes >= 0:
        while count < len(segments) and excess >= segments[count].segment.size > 0:
            excess -= segments[count].segment.size
            count += 1
    return count
