from libc.stdint cimport int32_t, int64_t, uint8_t, uint64_t

from cy.batch.header cimport Batch

# The reasons why a record cannot be parsed.
cdef enum Malformed:
    SOUND
    BAD_LENGTH
    BAD_FIELD
    BAD_KEY
    BAD_VALUE
    BAD_HEADER_COUNT
    BAD_HEADER
    BAD_END
    BAD_OFFSET
    BAD_COUNT


# One record. Its pointers lead into the batch's (decompressed) records; a null key or value has a null pointer.
cdef struct RecordView:
    int64_t timestamp_delta
    int32_t offset_delta
    int32_t key_length          # -1: null
    int32_t value_length        # -1: null
    int32_t header_count
    const uint8_t *key
    const uint8_t *value
    const uint8_t *headers
    const uint8_t *end


cdef class Record:
    cdef readonly int64_t offset
    cdef readonly int64_t timestamp
    cdef readonly object key
    cdef readonly object value
    cdef readonly list headers


cdef inline int64_t timestamp_of(int64_t base, int64_t delta) noexcept nogil:
    return <int64_t>(<uint64_t>base + <uint64_t>delta)

cdef str reason_text(int reason)

# Reads one v2 record and moves the cursor past it. Returns SOUND or a reason.
cdef int parse_record(const uint8_t **cursor, const uint8_t *end, RecordView *record) noexcept nogil

# Checks the sizes of the next ``count`` records of a compressed batch. Raises InvalidBatch if one is larger than
# ``most`` bytes. A malformed record ends the check, because ``parse_record`` reports it.
cdef int check_sizes(const uint8_t *at, const uint8_t *end, int32_t count, int64_t most) except -1

# Returns the decompressed records of a batch. Checks their size before it allocates them. Raises InvalidBatch.
cdef object inflate(int codec, object compressed, object max_output)
