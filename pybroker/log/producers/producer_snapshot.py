"""``<offset, 20 digits>.snapshot``: the state of a log's producers just before that offset.

Format, big-endian: int16 version (1), uint32 CRC-32C of what follows, int32 count. Then per producer int64 id, int16
epoch, int32 last sequence, int64 last offset (-1 if none). Then int32 offset delta of the last batch, int64 time, int32
coordinator epoch, int64 first offset of the ongoing transaction (-1 if none). The time is that of the append; Kafka
writes the last batch's timestamp. The time decides when a producer expires, and a producer of old records must not
expire early. Only the last batch is kept, as in Kafka; a producer is assumed to have begun its epoch at sequence 0.

A snapshot is taken when a segment rolls and when the log closes, so that a start reads little. If a snapshot is missing
or corrupt, the log is read from the previous snapshot on.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable

from cy.crc32c import crc32c
from pybroker.log.producers.producer_entry import NO_OFFSET, BatchMetadata, ProducerEntry

SUFFIX = ".snapshot"
VERSION = 1
_header = struct.Struct(">hIi")
_entry = struct.Struct(">qhiqiqiq")
_CRC_END = 6


class CorruptSnapshot(ValueError):
    """Raised if the file is not a snapshot, or if the CRC in it is wrong."""


def file_name(offset: int) -> str:
    """Returns the name of the snapshot at ``offset``."""
    return f"{offset:020d}{SUFFIX}"


def encode(producers: Iterable[ProducerEntry]) -> bytes:
    """Returns the file's content."""
    body = [_pack(entry) for entry in producers]
    counted = struct.pack(">i", len(body)) + b"".join(body)
    return struct.pack(">hI", VERSION, crc32c(counted)) + counted


def decode(data: bytes) -> list[ProducerEntry]:
    """Returns the producers in a snapshot. Raises CorruptSnapshot."""
    if len(data) < _header.size:
        raise CorruptSnapshot(f"{len(data)} bytes are too few for a snapshot")
    version, crc, count = _header.unpack_from(data)
    if version != VERSION:
        raise CorruptSnapshot(f"unknown version {version}")
    if crc != crc32c(data[_CRC_END:]):
        raise CorruptSnapshot("its CRC does not match")
    if count < 0 or len(data) != _header.size + count * _entry.size:
        raise CorruptSnapshot(f"its header says {count} entries, which do not fit its {len(data)} bytes")
    return [_unpack(fields) for fields in _entry.iter_unpack(data[_header.size :])]


def ids(data: bytes) -> list[int]:
    """Returns the ids of the producers in a sound or empty snapshot."""
    return [fields[0] for fields in _entry.iter_unpack(data[_header.size :])]


def has_ongoing(data: bytes) -> bool:
    """Returns True if a producer in a sound or empty snapshot has an open transaction."""
    return any(fields[-1] != NO_OFFSET for fields in _entry.iter_unpack(data[_header.size :]))


def _pack(entry: ProducerEntry) -> bytes:
    last = entry.batches[-1] if entry.batches else BatchMetadata(-1, -1, 0, -1)
    return _entry.pack(
        entry.producer_id,
        entry.epoch,
        last.last_sequence,
        last.last_offset,
        last.offset_delta,
        entry.seen_ms,
        entry.coordinator_epoch,
        entry.transaction_first_offset,
    )


def _unpack(fields: tuple[int, ...]) -> ProducerEntry:
    producer_id, epoch, sequence, offset, delta, seen_ms, coordinator_epoch, first_offset = fields
    entry = ProducerEntry(producer_id, epoch)
    entry.last_timestamp = entry.seen_ms = seen_ms
    entry.coordinator_epoch = coordinator_epoch
    entry.transaction_first_offset = first_offset
    if offset >= 0:
        entry.batches.append(BatchMetadata(sequence, offset, delta, seen_ms))
        entry.appended = sequence + 1
        entry.is_partial = sequence != delta
    return entry
