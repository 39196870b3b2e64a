from collections.abc import Iterator

from typing_extensions import Buffer

from cy.batch_builder import (
    Builder as Builder,
    recompress as recompress,
)
from cy.batch_header import (
    BASE_OFFSET_AT as BASE_OFFSET_AT,
    LENGTH_AT as LENGTH_AT,
    LOG_OVERHEAD as LOG_OVERHEAD,
    LEADER_EPOCH_AT as LEADER_EPOCH_AT,
    MAGIC_AT as MAGIC_AT,
    CRC_AT as CRC_AT,
    ATTRIBUTES_AT as ATTRIBUTES_AT,
    LAST_OFFSET_DELTA_AT as LAST_OFFSET_DELTA_AT,
    BASE_TIMESTAMP_AT as BASE_TIMESTAMP_AT,
    MAX_TIMESTAMP_AT as MAX_TIMESTAMP_AT,
    PRODUCER_ID_AT as PRODUCER_ID_AT,
    PRODUCER_EPOCH_AT as PRODUCER_EPOCH_AT,
    BASE_SEQUENCE_AT as BASE_SEQUENCE_AT,
    COUNT_AT as COUNT_AT,
    HEADER_SIZE as HEADER_SIZE,
    MIN_LEGACY_SIZE as MIN_LEGACY_SIZE,
    CODEC_MASK as CODEC_MASK,
    LOG_APPEND_TIME_FLAG as LOG_APPEND_TIME_FLAG,
    TRANSACTIONAL_FLAG as TRANSACTIONAL_FLAG,
    CONTROL_FLAG as CONTROL_FLAG,
    DELETE_HORIZON_FLAG as DELETE_HORIZON_FLAG,
    KNOWN_FLAGS as KNOWN_FLAGS,
    Batch as Batch,
    CorruptBatch as CorruptBatch,
    InvalidBatch as InvalidBatch,
    assign as assign,
    check_crc as check_crc,
    read_header as read_header,
    scan as scan,
    set_log_append_time as set_log_append_time,
    set_max_timestamp as set_max_timestamp,
)
from cy.batch_reader import Record as Record
from cy.batch_validator import (
    MAX_RECORD_ERRORS as MAX_RECORD_ERRORS,
    validate as validate,
)

def iterate(
    buffer: Buffer, *, max_output: int | None = None, check_crcs: bool = True
) -> Iterator[Record]:
    """The records of the batches (of any format) in ``buffer``, control records among them.

    A batch that the buffer's end cuts is left out, as in a fetch response. ``max_output`` bounds the decompressed size of
    each batch. Raises ``CorruptBatch``, ``InvalidBatch``, ``compression.UnknownCodec``.
    """
