from libc.stdint cimport int16_t, int32_t, int64_t, int8_t, uint8_t, uint32_t

# Where the fields of a v2 header lie; the magic byte lies at 16 in every format.
cpdef enum:
    BASE_OFFSET_AT = 0
    LENGTH_AT = 8
    LOG_OVERHEAD = 12           # base offset and length: what the length field does not count
    LEADER_EPOCH_AT = 12
    MAGIC_AT = 16
    CRC_AT = 17
    ATTRIBUTES_AT = 21          # the CRC covers everything from here on
    LAST_OFFSET_DELTA_AT = 23
    BASE_TIMESTAMP_AT = 27
    MAX_TIMESTAMP_AT = 35
    PRODUCER_ID_AT = 43
    PRODUCER_EPOCH_AT = 51
    BASE_SEQUENCE_AT = 53
    COUNT_AT = 57
    HEADER_SIZE = 61
    MIN_LEGACY_SIZE = 26        # offset, size, CRC, magic, attributes, null key, null value

cpdef enum:
    CODEC_MASK = 0x07
    LOG_APPEND_TIME_FLAG = 0x08
    TRANSACTIONAL_FLAG = 0x10
    CONTROL_FLAG = 0x20
    DELETE_HORIZON_FLAG = 0x40
    KNOWN_FLAGS = 0x7F


cdef class Batch:
    cdef readonly Py_ssize_t position       # where it begins in the buffer that it was read from
    cdef readonly int64_t base_offset
    cdef readonly int64_t size              # whole batch: LOG_OVERHEAD + the length field
    cdef readonly int32_t partition_leader_epoch
    cdef readonly int8_t magic
    cdef readonly uint32_t crc
    cdef readonly int16_t attributes
    cdef readonly int32_t last_offset_delta
    cdef readonly int64_t base_timestamp
    cdef readonly int64_t max_timestamp
    cdef readonly int64_t producer_id
    cdef readonly int16_t producer_epoch
    cdef readonly int32_t base_sequence
    cdef readonly int32_t count
    cdef readonly int64_t records_max_timestamp   # of the records themselves; filled by validate


# Returns the header at ``at``. Raises CorruptBatch if it cannot be one. ``available`` may end within the batch, not
# within its header.
cdef Batch parse_header(const uint8_t *at, Py_ssize_t available, Py_ssize_t position)

# Returns True if the CRC-32C of the v2 batch of ``size`` bytes matches.
cdef bint crc_holds(const uint8_t *at, int64_t size) noexcept nogil

# Writes the CRC-32C of the v2 batch of ``size`` bytes.
cdef void store_crc(uint8_t *at, int64_t size) noexcept

# Returns True if the CRC matches, for any format. Releases the GIL for large batches.
cdef bint any_crc_holds(const uint8_t *at, Batch batch) except -1
