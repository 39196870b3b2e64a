"""Record batches written by hand, byte by byte, so that a test can get every field wrong on purpose.

Format v2::

    base_offset i64 | length i32 | leader_epoch i32 | magic i8 | crc u32 | attributes i16 | last_offset_delta i32
    | base_timestamp i64 | max_timestamp i64 | producer_id i64 | producer_epoch i16 | base_sequence i32
    | count i32 | records

    record = varint length | attributes i8 | varlong timestamp_delta | varint offset_delta | bytes key | bytes value
           | varint count, (string key, bytes value)*              bytes = varint length (-1: null), the bytes

The CRC (Castagnoli) covers everything from the attributes on. The compressed part is the records.
"""

from __future__ import annotations

import gzip
import struct
import time
import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypedDict

import lz4.frame
import snappy
import zstandard
from kafka.record.util import calc_crc32c

NONE, GZIP, SNAPPY, LZ4, ZSTD = range(5)
CODEC_NAMES = ("none", "gzip", "snappy", "lz4", "zstd")
CODEC, LOG_APPEND_TIME, TRANSACTIONAL, CONTROL, DELETE_HORIZON = 0x07, 0x08, 0x10, 0x20, 0x40
BODY = struct.Struct(">hiqqqhii")


def now_ms() -> int:
    return int(time.time() * 1000)


def varint(value: int) -> bytes:
    """Encodes an integer by zigzag and base 128, for i32 and i64 alike."""
    encoded = (value << 1) ^ (value >> 63)
    out = bytearray()
    while encoded > 0x7F:
        out.append(encoded & 0x7F | 0x80)
        encoded >>= 7
    out.append(encoded)
    return bytes(out)


def sized(data: bytes | None) -> bytes:
    return varint(-1) if data is None else varint(len(data)) + data


@dataclass(frozen=True, slots=True)
class Record:
    """One record of a batch to build. ``offset_delta`` None: its index in the batch."""

    value: bytes | None
    key: bytes | None = None
    timestamp_delta: int = 0
    offset_delta: int | None = None
    headers: tuple[tuple[str, bytes | None], ...] = ()

    def encode(self, place: int) -> bytes:
        delta = place if self.offset_delta is None else self.offset_delta
        body = b"\0" + varint(self.timestamp_delta) + varint(delta) + sized(self.key) + sized(self.value)
        body += varint(len(self.headers))
        for name, value in self.headers:
            body += sized(name.encode()) + sized(value)
        return varint(len(body)) + body


def xerial(data: bytes) -> bytes:
    """Compresses by Snappy in the framing of Kafka's Java client: blocks of 32 KiB after a magic header."""
    out = b"\x82SNAPPY\0" + struct.pack(">ii", 1, 1)
    for start in range(0, len(data), 32 << 10):
        block = snappy.compress(data[start : start + (32 << 10)])
        out += struct.pack(">i", len(block)) + block
    return out


COMPRESS: Mapping[int, Callable[[bytes], bytes]] = {
    NONE: bytes,
    GZIP: gzip.compress,
    SNAPPY: xerial,
    LZ4: lz4.frame.compress,
    ZSTD: zstandard.ZstdCompressor().compress,
}


class Fields(TypedDict, total=False):
    """Header fields that override those of ``batch``."""

    last_offset_delta: int
    max_timestamp: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    count: int


def batch(
    records: Sequence[Record | bytes] = (),
    *,
    codec: int = NONE,
    base_offset: int = 0,
    leader_epoch: int = -1,
    magic: int = 2,
    crc: int | None = None,
    attributes: int = 0,
    last_offset_delta: int | None = None,
    base_timestamp: int | None = None,
    max_timestamp: int | None = None,
    producer_id: int = -1,
    producer_epoch: int = -1,
    base_sequence: int = -1,
    count: int | None = None,
    length: int | None = None,
    payload: bytes | None = None,
) -> bytes:
    """Returns a batch of the records. Every other argument replaces the right value of a field.

    ``payload`` replaces the (compressed) records.
    """
    rows = [Record(row) if isinstance(row, bytes) else row for row in records]
    if payload is None:
        payload = COMPRESS[codec](b"".join(row.encode(place) for place, row in enumerate(rows)))
    start = now_ms() if base_timestamp is None else base_timestamp
    end = start + max((row.timestamp_delta for row in rows), default=0)
    body = BODY.pack(
        attributes | codec,
        len(rows) - 1 if last_offset_delta is None else last_offset_delta,
        start,
        end if max_timestamp is None else max_timestamp,
        producer_id,
        producer_epoch,
        base_sequence,
        len(rows) if count is None else count,
    )
    body += payload
    checksum = calc_crc32c(body) if crc is None else crc
    rest = struct.pack(">ibI", leader_epoch, magic, checksum) + body
    return struct.pack(">qi", base_offset, len(rest) if length is None else length) + rest


def message(
    value: bytes | None,
    key: bytes | None = None,
    *,
    magic: int = 1,
    offset: int = 0,
    timestamp: int = -1,
    attributes: int = 0,
) -> bytes:
    """Returns one message of format v0 or v1: offset, size, CRC-32, magic, attributes, [timestamp], key, value."""
    body = struct.pack(">bb", magic, attributes)
    if magic == 1:
        body += struct.pack(">q", timestamp)
    for part in (key, value):
        body += struct.pack(">i", -1 if part is None else len(part)) + (part or b"")
    body = struct.pack(">I", zlib.crc32(body)) + body
    return struct.pack(">qi", offset, len(body)) + body


@dataclass(frozen=True, slots=True)
class Header:
    """The header of a batch, as the broker returned it."""

    base_offset: int
    size: int
    leader_epoch: int
    magic: int
    crc: int
    attributes: int
    last_offset_delta: int
    base_timestamp: int
    max_timestamp: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    count: int
    crc_is_right: bool

    @property
    def codec(self) -> int:
        return self.attributes & CODEC

    @property
    def next_offset(self) -> int:
        return self.base_offset + self.last_offset_delta + 1


def headers(data: bytes) -> list[Header]:
    """Returns the headers of all whole batches in a fetch response or in a segment file."""
    found = []
    position = 0
    while position + 61 <= len(data):
        base_offset, length = struct.unpack_from(">qi", data, position)
        if position + 12 + length > len(data):
            break
        epoch, magic, crc = struct.unpack_from(">ibI", data, position + 12)
        body = bytes(data[position + 21 : position + 12 + length])
        right = calc_crc32c(body) == crc
        fields = (base_offset, 12 + length, epoch, magic, crc, *BODY.unpack_from(body), right)
        found.append(Header(*fields))
        position += 12 + length
    return found


def values(data: bytes) -> list[bytes | None]:
    """Returns the values of all records in a fetch response, decoded by kafka-python."""
    return [value for _, _, value in rows(data)]


def rows(data: bytes) -> list[tuple[int, bytes | None, bytes | None]]:
    """Returns (offset, key, value) of all records in a fetch response, decoded by kafka-python."""
    from kafka.record import MemoryRecords

    records = MemoryRecords(bytes(data))
    found = []
    while records.has_next():
        found += [(row.offset, row.key, row.value) for row in records.next_batch()]
    return found
