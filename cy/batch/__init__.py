"""Record batches (format v2, KIP-98): header view, validation, iteration, building.

    batch   := base_offset int64, length int32, partition_leader_epoch int32, magic int8 (2),
               crc uint32, attributes int16, last_offset_delta int32, base_timestamp int64,
               max_timestamp int64, producer_id int64, producer_epoch int16, base_sequence int32,
               count int32, records
    records := record*, as one block compressed by the codec of the attributes
    record  := length varint, attributes int8, timestamp_delta varlong, offset_delta varint,
               key_length varint (-1: null), key, value_length varint (-1: null), value,
               header_count varint, header*
    header  := key_length varint, key (UTF-8), value_length varint (-1: null), value

Attributes: bits 0-2 codec, 3 LogAppendTime, 4 transactional, 5 control, 6 base_timestamp is a
delete horizon. Numbers of the header are big-endian, varints zigzag. The CRC-32C covers
attributes to the end, so base offset and leader epoch are rewritten without it. ``length`` counts
what follows it; ``Batch.size`` counts everything.

A broker checks every byte of a batch and makes no Python object per record. ``validate`` reads the records by pointers,
in one pass without the GIL. If records are faulty, a second pass finds out which ones. No read goes beyond the end of
the batch, or beyond the end of its record.
"""

from __future__ import annotations

from collections.abc import Iterator
from pkgutil import extend_path
from typing import TYPE_CHECKING

__path__ = extend_path(__path__, __name__)  # before its modules: see cy/__init__.py

from cy.batch import legacy
from cy.batch.builder import Builder, recompress
from cy.batch.header import (
    ATTRIBUTES_AT,
    BASE_OFFSET_AT,
    BASE_SEQUENCE_AT,
    BASE_TIMESTAMP_AT,
    CODEC_MASK,
    CONTROL_FLAG,
    COUNT_AT,
    CRC_AT,
    DELETE_HORIZON_FLAG,
    HEADER_SIZE,
    KNOWN_FLAGS,
    LAST_OFFSET_DELTA_AT,
    LEADER_EPOCH_AT,
    LENGTH_AT,
    LOG_APPEND_TIME_FLAG,
    LOG_OVERHEAD,
    MAGIC_AT,
    MAX_TIMESTAMP_AT,
    MIN_LEGACY_SIZE,
    PRODUCER_EPOCH_AT,
    PRODUCER_ID_AT,
    TRANSACTIONAL_FLAG,
    Batch,
    CorruptBatch,
    InvalidBatch,
    assign,
    check_crc,
    read_header,
    scan,
    set_log_append_time,
    set_max_timestamp,
)
from cy.batch.reader import Record, find_since, records_of
from cy.batch.validator import MAX_RECORD_ERRORS, validate

if TYPE_CHECKING:
    from typing_extensions import Buffer

__all__ = (
    "ATTRIBUTES_AT",
    "BASE_OFFSET_AT",
    "BASE_SEQUENCE_AT",
    "BASE_TIMESTAMP_AT",
    "CODEC_MASK",
    "CONTROL_FLAG",
    "COUNT_AT",
    "CRC_AT",
    "DELETE_HORIZON_FLAG",
    "HEADER_SIZE",
    "KNOWN_FLAGS",
    "LAST_OFFSET_DELTA_AT",
    "LEADER_EPOCH_AT",
    "LENGTH_AT",
    "LOG_APPEND_TIME_FLAG",
    "LOG_OVERHEAD",
    "MAGIC_AT",
    "MAX_RECORD_ERRORS",
    "MAX_TIMESTAMP_AT",
    "MIN_LEGACY_SIZE",
    "PRODUCER_EPOCH_AT",
    "PRODUCER_ID_AT",
    "TRANSACTIONAL_FLAG",
    "Batch",
    "Builder",
    "CorruptBatch",
    "InvalidBatch",
    "Record",
    "assign",
    "check_crc",
    "first_since",
    "iterate",
    "read_header",
    "recompress",
    "scan",
    "set_log_append_time",
    "set_max_timestamp",
    "validate",
)


def iterate(
    buffer: Buffer, *, max_output: int | None = None, check_crcs: bool = True
) -> Iterator[Record]:
    """Yields the records of the batches (of any format) in ``buffer``, including control records.

    Leaves out an incomplete batch at the buffer's end, as in a fetch response. ``max_output`` limits the decompressed
    size of each batch; by default ``compression.output_limit``. Raises ``CorruptBatch``, ``InvalidBatch``,
    ``compression.UnknownCodec``.
    """
    whole = memoryview(buffer).cast("B")
    position = 0
    while (batch := _next_whole(whole, position)) is not None:
        if check_crcs and not check_crc(whole, position, batch):
            raise CorruptBatch(f"CRC of {batch!r} does not hold")
        position = batch.end
        octets = whole[batch.position : batch.end]
        if batch.magic == 2:
            yield from records_of(octets, batch, max_output)
        else:
            yield from legacy.iterate(octets, max_output)


def first_since(buffer: Buffer, timestamp: int, offset: int, max_record: int) -> tuple[int, int] | None:
    """Returns timestamp and offset of the first record that is not older than ``timestamp`` and not before ``offset``.

    ``buffer`` has one batch of any format. Returns None if there is no such record. Limits and errors are those of
    ``iterate``. Raises InvalidBatch, too, if a record up to there is larger than ``max_record`` bytes in a compressed
    batch.
    """
    whole = memoryview(buffer).cast("B")
    batch = read_header(whole)
    if not check_crc(whole, 0, batch):
        raise CorruptBatch(f"CRC of {batch!r} does not hold")
    if batch.magic == 2:
        return find_since(whole[: batch.size], batch, timestamp, offset, max_record)
    for record in legacy.iterate(whole, None):
        if record.timestamp >= timestamp and record.offset >= offset:
            return record.timestamp, record.offset
    return None


def _next_whole(whole: memoryview, position: int) -> Batch | None:
    """Returns the header at ``position``, None if only an incomplete batch is left."""
    left = len(whole) - position
    if left < LOG_OVERHEAD:
        return None
    length = int.from_bytes(whole[position + LENGTH_AT : position + LOG_OVERHEAD], signed=True)
    return None if LOG_OVERHEAD + length > left else read_header(whole, position)
