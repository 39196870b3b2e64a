"""Deletes the oldest segments of a log; ``retention`` decides how many.

After a DeleteRecords or a change of its configuration, a log may lose thousands of segments. They are deleted in
several turns of the event loop.
"""

from __future__ import annotations

from itertools import islice

from pybroker.log.log import Log
from pybroker.log.retention import Candidate, expired_count
from pybroker.log.segment.segments import REMOVED_PER_TURN


def apply_retention(log: Log, now_ms: int) -> int:
    """Deletes the oldest segments whose retention has ended, at most ``REMOVED_PER_TURN``; returns how many.

    If it returns that many, there may be more. ``now_ms`` is of the wall clock. Raises KafkaStorageError,
    CorruptMessage.
    """
    log.log_dir.check_online()
    if log.log_end_offset == log.first_segment_offset:
        return 0
    with log.files.failing("applying retention"):
        candidates = [
            Candidate(log.segments.end_offset(number, log.log_end_offset), segment)
            for number, segment in enumerate(islice(log.segments, REMOVED_PER_TURN))
        ]
        count = expired_count(candidates, log.config, log.log_start_offset, log.high_watermark, log.size, now_ms)
        if count == len(log.segments) and not log.active_segment.size:
            count -= 1
        elif count == len(log.segments):
            log.roll(now_ms)
        if count > 0:
            _delete_first(log, count)
    return count


def _delete_first(log: Log, count: int) -> None:
    removed = log.segments.remove_first(count)
    first = log.first_segment_offset
    log.raise_log_start_offset(max(log.log_start_offset, first))
    log.producers.remove_snapshots(lambda offset: offset < first)
    log.files.remove(removed)
    log.files.durability.names_gone_below(first)
