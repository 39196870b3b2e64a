"""Record batches (format v2, KIP-98): header view, validation, iteration, building.

    batch   := base_offset int64, length int32, partition_leader_epoch int32, magic int8 (2),
               crc uint32, attributes int16, last_offset_delta int32, base_timestamp int64, max_timestamp int64,
               producer_id int64, producer_epoch int16, base_sequence int32, count int32, records
    records := record*, as one block compressed by the codec of the attributes
    record  := length varint, attributes int8, timestamp_delta varlong, offset_delta varint,
               key_length varint (-1: null), key, value_length varint (-1: null), value,
               header_count varint, header*
    header  := key_length varint, key (UTF-8), value_length varint (-1: null), value

Attributes: bits 0-2 codec, 3 LogAppendTime, 4 transactional, 5 control, 6 base_timestamp is a
delete horizon. Numbers of the header are big-endian, varints zigzag. The CRC-32C covers
attributes to the end, so base offset and leader epoch are rewritten without it. ``length`` counts
what follows it; ``Batch.size`` counts everything.

A broker looks at every byte of a batch and makes no Python object of a record: ``validate`` reads
the records by pointers, in one pass without the GIL, and only where records are at fault a second
pass collects which ones. Every read is bounded by the end of the batch, in a record also by the
end of the record.
"""

from cy.batch_builder import Builder, recompress
from cy.batch_header import (
    ATTRIBUTES_AT, BASE_OFFSET_AT, BASE_SEQUENCE_AT, BASE_TIMESTAMP_AT, CODEC_MASK,
    CONTROL_FLAG, COUNT_AT, CRC_AT, DELETE_HORIZON_FLAG, HEADER_SIZE, KNOWN_FLAGS,
    LAST_OFFSET_DELTA_AT, LEADER_EPOCH_AT, LENGTH_AT, LOG_APPEND_TIME_FLAG, LOG_OVERHEAD,
    MAGIC_AT, MAX_TIMESTAMP_AT, MIN_LEGACY_SIZE, PRODUCER_EPOCH_AT, PRODUCER_ID_AT,
    TRANSACTIONAL_FLAG, Batch, CorruptBatch, InvalidBatch, assign, check_crc, read_header, scan,
    set_log_append_time, set_max_timestamp,
)
from cy.batch_reader import Record, records_of
from cy.batch_validator import MAX_RECORD_ERRORS, validate
from cy.legacy_batch import iterate as legacy_records

__all__ = (
    "ATTRIBUTES_AT", "BASE_OFFSET_AT", "BASE_SEQUENCE_AT", "BASE_TIMESTAMP_AT", "Batch",
    "Builder", "CODEC_MASK", "CONTROL_FLAG", "COUNT_AT", "CRC_AT", "CorruptBatch",
    "DELETE_HORIZON_FLAG", "HEADER_SIZE", "InvalidBatch", "KNOWN_FLAGS", "LAST_OFFSET_DELTA_AT",
    "LEADER_EPOCH_AT", "LENGTH_AT", "LOG_APPEND_TIME_FLAG", "LOG_OVERHEAD", "MAGIC_AT",
    "MAX_RECORD_ERRORS", "MAX_TIMESTAMP_AT", "MIN_LEGACY_SIZE", "PRODUCER_EPOCH_AT",
    "PRODUCER_ID_AT", "Record", "TRANSACTIONAL_FLAG", "assign", "check_crc", "iterate",
    "read_header", "recompress", "scan", "set_log_append_time", "set_max_timestamp", "validate",
)


def iterate(buffer, *, max_output=None, check_crcs=True):
    whole = memoryview(buffer).cast("B")
    position = 0
    while (batch := next_whole(whole, position)) is not None:
        if check_crcs and not check_crc(whole, position, batch):
            raise CorruptBatch(f"CRC of {batch!r} does not hold")
        position = batch.end
        if batch.magic == 2:
            yield from records_of(whole[batch.position:batch.end], batch, max_output)
        else:
            yield from legacy_records(whole[batch.position:batch.end], max_output)


def next_whole(whole, position):
    """The header at ``position``, or None where what is left is a cut batch."""
    left = len(whole) - position
    if left < LOG_OVERHEAD:
        return None
    size = int.from_bytes(whole[position + LENGTH_AT:position + LOG_OVERHEAD], "big", signed=True)
    return None if size + LOG_OVERHEAD > left else read_header(whole, position)
