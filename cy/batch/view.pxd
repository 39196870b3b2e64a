"""The header of a v2 batch as a C struct: for loops over batches that need no GIL."""
from libc.stdint cimport int16_t, int32_t, int64_t, uint8_t

from cy.batch.header cimport (
    ATTRIBUTES_AT, BASE_SEQUENCE_AT, BASE_TIMESTAMP_AT, CODEC_MASK, CONTROL_FLAG, COUNT_AT, CRC_AT,
    DELETE_HORIZON_FLAG, HEADER_SIZE, LAST_OFFSET_DELTA_AT, LENGTH_AT, LOG_OVERHEAD, MAGIC_AT,
    MAX_TIMESTAMP_AT, PRODUCER_EPOCH_AT, PRODUCER_ID_AT,
)
from cy.crc32c cimport update as crc32c_update
from cy.endian cimport load_int16, load_int32, load_int64, load_uint32, store_int32


cdef struct BatchView:
    int64_t base_offset
    int64_t last_offset
    int64_t size
    int64_t base_timestamp
    int64_t max_timestamp
    int64_t producer_id
    int32_t count
    int16_t producer_epoch
    int16_t attributes


# Fills ``view`` with the v2 batch at ``at``. Returns False if no whole, sound batch is there.
cdef inline bint view_batch(const uint8_t *at, const uint8_t *end, BatchView *view) noexcept nogil:
    if end - at < HEADER_SIZE or at[MAGIC_AT] != 2:
        return False
    view.base_offset = load_int64(at)
    view.size = <int64_t>load_int32(at + LENGTH_AT) + LOG_OVERHEAD
    if view.size < HEADER_SIZE or view.size > end - at:
        return False
    view.last_offset = view.base_offset + load_int32(at + LAST_OFFSET_DELTA_AT)
    view.attributes = load_int16(at + ATTRIBUTES_AT)
    view.base_timestamp = load_int64(at + BASE_TIMESTAMP_AT)
    view.max_timestamp = load_int64(at + MAX_TIMESTAMP_AT)
    view.producer_id = load_int64(at + PRODUCER_ID_AT)
    view.producer_epoch = load_int16(at + PRODUCER_EPOCH_AT)
    view.count = load_int32(at + COUNT_AT)
    return view.count >= 0


cdef inline bint is_sound(const uint8_t *at, const BatchView *view) noexcept nogil:
    """Returns True if the CRC matches."""
    cdef size_t covered = view.size - ATTRIBUTES_AT
    return crc32c_update(0, at + ATTRIBUTES_AT, covered) == load_uint32(at + CRC_AT)


# Writes length and CRC of a batch of ``size`` bytes, whose other fields are already written.
cdef inline void finish_header(uint8_t *at, int64_t size) noexcept nogil:
    store_int32(at + LENGTH_AT, <int32_t>(size - LOG_OVERHEAD))
    store_int32(at + CRC_AT, <int32_t>crc32c_update(0, at + ATTRIBUTES_AT, size - ATTRIBUTES_AT))
