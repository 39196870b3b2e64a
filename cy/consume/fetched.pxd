from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t

from cy.batch.view cimport BatchView
from cy.int64_map cimport Int64Map
from cy.consume.value_reader cimport Reader

# The reasons why reading stops.
cdef enum Stop:
    OPENED              # no reason: more records follow
    ENOUGH              # as many records as were wanted
    AT_END
    COMPRESSED
    CORRUPT
    LEGACY
    MALFORMED
    NO_MEMORY


# One record. Its pointers lead into memory that the chunk owns; a length of -1 is null.
cdef struct Entry:
    int64_t offset
    int64_t timestamp
    const uint8_t *key
    const uint8_t *value
    const uint8_t *headers
    int32_t key_length
    int32_t value_length
    int32_t header_count
    uint32_t headers_size
    int32_t leader_epoch
    int32_t is_append_time


cdef class Chunk:
    cdef readonly str topic
    cdef readonly int32_t partition
    cdef readonly int32_t count
    cdef Reader key_reader              # or None: the bytes are the key
    cdef Reader value_reader
    cdef Entry *entries
    cdef int32_t capacity
    cdef list owners                    # the owners of the bytes that entries point into
    cdef readonly int64_t size          # bytes of its records

    cdef void reuse(self) noexcept
    cdef Entry *room(self) noexcept nogil


cdef struct Aborted:
    int64_t producer_id
    int64_t first_offset


cdef class Fetched:
    cdef readonly str topic
    cdef readonly int32_t partition
    cdef int64_t until                  # records from this offset on are not wanted now
    cdef int64_t most                   # the most bytes of records that are wanted now
    cdef bint is_first_free             # the first record may be larger
    cdef int64_t max_inflated           # bytes that every compressed batch may become
    cdef readonly int64_t next_offset   # of the first record that was not taken
    cdef readonly int64_t end_offset    # the offset after the last whole batch; next_offset if there is none
    cdef readonly int32_t last_epoch    # leader epoch of the last whole batch, -1 if there is none
    cdef readonly Py_ssize_t size
    cdef readonly bint is_done
    cdef public object state            # the owner of these records; only the consumer uses it
    cdef public int64_t turn
    cdef Reader key_reader
    cdef Reader value_reader
    cdef bint check_crcs
    cdef object source                  # a memoryview of the response
    cdef object inflated                # decompressed records of the open batch, or None
    cdef const uint8_t *at              # the next batch
    cdef const uint8_t *end
    cdef BatchView batch                # the open batch
    cdef readonly int32_t batch_epoch   # leader epoch of the batch read last, -1
    cdef int32_t left                   # records of the open batch that were not read yet
    cdef const uint8_t *record_at
    cdef const uint8_t *record_end
    cdef int reason
    cdef bint took_raw
    cdef Aborted *aborted               # by first offset
    cdef int32_t aborted_count
    cdef int32_t aborted_reached
    cdef Int64Map aborting              # producers whose transaction is being aborted

    cdef void measure(self) noexcept nogil
    cdef Stop read(self, Chunk chunk, int32_t limit) noexcept nogil
    cdef Stop next_batch(self) noexcept nogil
    cdef Stop view_next(self) noexcept nogil
    cdef int is_unwanted(self) noexcept nogil
    cdef void open_batch(self, const uint8_t *at, const uint8_t *end) noexcept nogil
    cdef Stop reach_end(self) noexcept nogil
    cdef void leave_batch(self) noexcept nogil
    cdef Stop read_records(self, Chunk chunk, int32_t limit) noexcept nogil
    cdef int open_compressed(self, Chunk chunk) except -1
    cdef object complaint(self, Stop stop)
