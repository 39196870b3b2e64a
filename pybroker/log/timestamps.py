"""From a timestamp to an offset (ListOffsets): a binary search in each segment's time index,
then a look into one batch.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from cy.batch import iterate
from pybroker.log.batches import Located
from pybroker.log.segment import Segment

if TYPE_CHECKING:
    from pybroker.log.reading import ReadableLog


class TimestampOffset(NamedTuple):
    """A record's timestamp and offset, and the leader epoch in which it was written."""

    timestamp: int
    offset: int
    leader_epoch: int


def first_record_since(log: ReadableLog, timestamp: int) -> TimestampOffset | None:
    """The first record at or beyond the log start whose timestamp is ``timestamp`` or later."""
    for segment in log.segments:
        if segment.max_timestamp < timestamp:
            continue
        for located in segment.batches_since(timestamp):
            for found in _records(log, segment, located):
                if found.timestamp >= timestamp and found.offset >= log.log_start_offset:
                    return found
    return None


def newest_record(log: ReadableLog) -> TimestampOffset | None:
    """The first record that has the greatest timestamp of the log."""
    segment = max(log.segments, key=lambda segment: segment.max_timestamp)
    if segment.max_timestamp < 0:
        return None
    located = segment.batch_reaching(segment.max_timestamp_offset)
    if located is None:
        return None
    return max(_records(log, segment, located), key=lambda found: found.timestamp, default=None)


def _records(log: ReadableLog, segment: Segment, located: Located) -> Iterator[TimestampOffset]:
    data = segment.read_bytes(located.position, located.batch.size)
    for record in iterate(data):
        yield TimestampOffset(record.timestamp, record.offset, log.leader_epochs.epoch_for(record.offset))
