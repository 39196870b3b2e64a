from libc.stdint cimport int64_t, uint8_t

from cy.batch.view cimport BatchView
from cy.int64_map cimport Int64Map

# What a control batch holds.
cdef enum MarkerKind:
    NO_MARKER           # nothing: compaction has removed the record
    ABORT_MARKER
    COMMIT_MARKER
    OTHER_CONTROL


cdef struct Transaction:
    int64_t first_offset
    int64_t index       # of its entry in the bytes


cdef class AbortedTransactions:
    cdef bytes entries
    cdef const uint8_t *octets          # those of the entries
    cdef Transaction *transactions      # by first offset
    cdef int64_t total
    cdef int64_t reached                # how many transactions have begun so far
    cdef Int64Map aborted               # producer id → index * 2 + 1 where a batch of it was seen
    cdef Int64Map committed             # producer ids of which a batch was seen
    cdef uint8_t *kept                  # entries whose marker stays
    cdef int64_t kept_size
    cdef int64_t kept_capacity

    # Returns 1 if the records of a data batch are aborted, 0 if not, -1 if memory runs out.
    cdef int on_batch(self, const BatchView *batch) noexcept nogil

    # Returns 1 if no batch is left of the transaction that a control batch ends, otherwise 0, and -1 if memory runs
    # out.
    cdef int on_marker(self, const BatchView *batch, MarkerKind kind) noexcept nogil

    cdef bint begin_up_to(self, const BatchView *batch) noexcept nogil
    cdef bint open(self, int64_t producer_id, int64_t index, int64_t here) noexcept nogil
    cdef int64_t last_offset(self, int64_t index) noexcept nogil
    cdef bint keep(self, int64_t index) noexcept nogil
    cdef int on_abort(self, const BatchView *batch) noexcept nogil
