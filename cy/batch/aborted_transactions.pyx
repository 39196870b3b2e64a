"""Follows a log's transactions while its batches are read in order (Kafka's CleanedTransactionMetadata).

The cleaner never goes beyond the last stable offset, so every transaction that it reads has ended. The ``.txnindex``
files list the aborted ones before their first batch is read. An entry applies to the offsets from its first to its last
one, even if its marker is not read. The marker may be damaged, or in the clean part.

A marker may be removed when no batch of its transaction is left before it. While it stays, an aborted transaction's
entry stays in the new segment's index, because a reader that has seen the entry waits for that marker.

Entries are the 34 bytes of ``.txnindex``: version int16, producer id, first offset, last offset,
last stable offset, each int64.
"""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize
from cython cimport final
from libc.stdint cimport int64_t, uint8_t
from libc.stdlib cimport free, malloc, qsort, realloc
from libc.string cimport memcpy

from cy.batch.header cimport TRANSACTIONAL_FLAG
from cy.batch.view cimport BatchView
from cy.endian cimport load_int64
from cy.int64_map cimport Int64Map

cdef enum:
    ENTRY_SIZE = 34
    PRODUCER_ID_AT = 2
    FIRST_OFFSET_AT = 10
    LAST_OFFSET_AT = 18


cdef int by_first_offset(const void *left, const void *right) noexcept nogil:
    cdef int64_t a = (<const Transaction *>left).first_offset
    cdef int64_t b = (<const Transaction *>right).first_offset
    return (a > b) - (a < b)


@final
cdef class AbortedTransactions:
    def __cinit__(self, bytes entries not None):
        cdef int64_t index
        if len(entries) % ENTRY_SIZE:
            raise ValueError(f"{len(entries)} bytes are not entries of a transaction index")
        self.entries = entries
        self.total = len(entries) // ENTRY_SIZE
        self.aborted = Int64Map()
        self.committed = Int64Map()
        self.transactions = <Transaction *>malloc(max(1, self.total) * sizeof(Transaction))
        if self.transactions == NULL:
            raise MemoryError
        self.octets = <const uint8_t *>PyBytes_AS_STRING(entries)
        for index in range(self.total):
            self.transactions[index].first_offset = load_int64(
                self.octets + index * ENTRY_SIZE + FIRST_OFFSET_AT
            )
            self.transactions[index].index = index
        qsort(self.transactions, self.total, sizeof(Transaction), by_first_offset)

    def __dealloc__(self):
        free(self.transactions)
        free(self.kept)

    def take_kept(self):
        kept = PyBytes_FromStringAndSize(<const char *>self.kept, self.kept_size)
        self.kept_size = 0
        return kept

    cdef bint begin_up_to(self, const BatchView *batch) noexcept nogil:
        """Opens the aborted transactions that begin before or in the batch, unless they ended before it. Returns False
        if memory runs out."""
        cdef const Transaction *next
        cdef int64_t producer_id
        while self.reached < self.total:
            next = &self.transactions[self.reached]
            if next.first_offset > batch.last_offset:
                break
            if self.last_offset(next.index) >= batch.base_offset:
                producer_id = load_int64(self.octets + next.index * ENTRY_SIZE + PRODUCER_ID_AT)
                if not self.open(producer_id, next.index, batch.base_offset):
                    return False
            self.reached += 1
        return True

    cdef bint open(self, int64_t producer_id, int64_t index, int64_t here) noexcept nogil:
        """Makes a transaction the producer's current one, if the previous one has ended. Returns False if memory runs
        out."""
        cdef int64_t *found = self.aborted.find(producer_id)
        if found != NULL and self.last_offset(found[0] >> 1) >= here:
            return True
        return self.aborted.put(producer_id, index * 2)

    cdef int64_t last_offset(self, int64_t index) noexcept nogil:
        return load_int64(self.octets + index * ENTRY_SIZE + LAST_OFFSET_AT)

    cdef int on_batch(self, const BatchView *batch) noexcept nogil:
        cdef int64_t *found
        if not self.begin_up_to(batch):
            return -1
        if not batch.attributes & TRANSACTIONAL_FLAG:
            return 0
        found = self.aborted.find(batch.producer_id)
        if found != NULL:
            if self.last_offset(found[0] >> 1) >= batch.base_offset:
                found[0] |= 1
                return 1
            self.aborted.remove(batch.producer_id)
        return 0 if self.committed.put(batch.producer_id, 0) else -1

    cdef int on_marker(self, const BatchView *batch, MarkerKind kind) noexcept nogil:
        if not self.begin_up_to(batch):
            return -1
        if kind == ABORT_MARKER:
            return self.on_abort(batch)
        if kind == COMMIT_MARKER:
            return not self.committed.remove(batch.producer_id)
        return kind == NO_MARKER

    cdef int on_abort(self, const BatchView *batch) noexcept nogil:
        cdef int64_t *found = self.aborted.find(batch.producer_id)
        cdef int64_t state
        if found == NULL:
            return 1
        state = found[0]
        self.aborted.remove(batch.producer_id)
        if not state & 1 or self.last_offset(state >> 1) < batch.base_offset:
            return 1
        return 0 if self.keep(state >> 1) else -1

    cdef bint keep(self, int64_t index) noexcept nogil:
        cdef int64_t capacity
        cdef uint8_t *kept
        if self.kept_size == self.kept_capacity:
            capacity = self.kept_capacity * 2 if self.kept_capacity else 16 * ENTRY_SIZE
            kept = <uint8_t *>realloc(self.kept, capacity)
            if kept == NULL:
                return False
            self.kept = kept
            self.kept_capacity = capacity
        memcpy(self.kept + self.kept_size, self.octets + index * ENTRY_SIZE, ENTRY_SIZE)
        self.kept_size += ENTRY_SIZE
        return True
