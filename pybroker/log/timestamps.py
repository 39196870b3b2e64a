"""Finds the offset of a timestamp (ListOffsets): by a binary search in each segment's time index, then in one batch,
without an object per record.

The offset index skips what lies below the log start. A search that reaches a record larger than
max.decompressed.message.bytes in a compressed batch ends with INVALID_RECORD, as in Kafka.
"""

from __future__ import annotations

from typing import NamedTuple, Protocol

from cy.batch import first_since
from pybroker.config.log_config import LogConfig
from pybroker.log.files.batches import Located
from pybroker.log.files.leader_epochs import LeaderEpochs
from pybroker.log.log_files import LogFiles
from pybroker.log.segment.segment import Segment
from pybroker.log.segment.segments import Segments
from pybroker.log.validation import kafka_error


class Dated(Protocol):
    """The part of a log that this module uses."""

    config: LogConfig
    files: LogFiles
    log_start_offset: int
    leader_epochs: LeaderEpochs
    segments: Segments


class TimestampOffset(NamedTuple):
    """A record's timestamp and offset, and the leader epoch in which it was written."""

    timestamp: int
    offset: int
    leader_epoch: int


def first_record_since(log: Dated, timestamp: int) -> TimestampOffset | None:
    """Returns the first record at or after the log start whose timestamp is ``timestamp`` or later; None if all are
    older. Raises CorruptMessage, InvalidRecord, KafkaStorageError.
    """
    start, segments = log.log_start_offset, log.segments
    log.files.log_dir.check_online()
    with log.files.failing("searching a timestamp"):
        for number in range(segments.find(start), len(segments)):
            segment = segments[number]
            if segment.max_timestamp < timestamp:
                continue
            for located in segment.batches_since(timestamp, start):
                found = _first_since(log, segment, located, timestamp, start)
                if found is not None:
                    return _answer(log, *found)
    return None


def newest_record(log: Dated) -> TimestampOffset | None:
    """Returns the first record with the log's greatest timestamp (KIP-734); None in a log without timestamps.

    Raises CorruptMessage, InvalidRecord, KafkaStorageError.
    """
    log.files.log_dir.check_online()
    with log.files.failing("searching a timestamp"):
        segment = max(log.segments, key=lambda segment: segment.max_timestamp)
        newest = segment.max_timestamp
        located = segment.batch_reaching(segment.max_timestamp_offset) if newest >= 0 else None
        if located is None:
            return None
        found = _first_since(log, segment, located, newest, 0)
        return None if found is None else _answer(log, *found)


def _first_since(
    log: Dated, segment: Segment, located: Located, timestamp: int, offset: int
) -> tuple[int, int] | None:
    data = segment.read_bytes(located.position, located.batch.size)
    try:
        return first_since(data, timestamp, offset, log.config.max_decompressed_message_bytes)
    except ValueError as error:
        raise kafka_error(error) from error


def _answer(log: Dated, timestamp: int, offset: int) -> TimestampOffset:
    return TimestampOffset(timestamp, offset, log.leader_epochs.epoch_for(offset))
