"""Reads the keys of whole batches into an ``OffsetMap``: the first half of a compaction.

Uncompressed records are read in place, without the GIL; records of other batches are decompressed first, within the
limit of ``compression``. CRCs are checked, so a damaged key never removes another key's record.
"""

from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from cython cimport final
from libc.stdint cimport INT64_MAX, int32_t, int64_t, uint8_t

from cy.batch.aborted_transactions cimport AbortedTransactions
from cy.batch.header cimport CODEC_MASK, CONTROL_FLAG, HEADER_SIZE
from cy.batch.reader cimport SOUND, RecordView, check_sizes, inflate, parse_record, reason_text
from cy.batch.view cimport BatchView, is_sound, view_batch
from cy.batch.markers cimport marker_kind
from cy.compaction.offset_map cimport OffsetMap

from cy.batch.header import CorruptBatch, InvalidBatch

cdef enum Stop:
    AT_END
    COMPRESSED
    FULL
    CORRUPT
    MALFORMED
    NO_MEMORY


@final
cdef class KeyScanner:
    cdef OffsetMap map
    cdef AbortedTransactions transactions
    cdef int64_t first
    cdef int64_t max_record
    cdef int reason
    cdef readonly int64_t latest
    cdef readonly int64_t records
    cdef readonly bint is_full

    def __cinit__(
        self, OffsetMap map not None, AbortedTransactions transactions not None, int64_t first,
        int64_t max_record=INT64_MAX,
    ):
        self.map = map
        self.transactions = transactions
        self.first = first
        self.max_record = max_record
        self.latest = first - 1

    def scan(self, data):
        """Reads ``data``, which consists of whole v2 batches. Stops early if the map is full."""
        cdef Py_buffer view
        cdef const uint8_t *at
        cdef const uint8_t *end
        cdef BatchView batch
        cdef Stop stop
        PyObject_GetBuffer(data, &view, PyBUF_SIMPLE)
        at = <const uint8_t *>view.buf
        end = at + view.len
        try:
            while not self.is_full:
                with nogil:
                    stop = self.walk(&at, end, &batch)
                if stop == AT_END:
                    return
                if stop == COMPRESSED:
                    stop = self.read_compressed(data, at - <const uint8_t *>view.buf, &batch)
                    at += batch.size
                if stop == FULL:
                    self.is_full = True
                elif stop != AT_END:
                    self.complain(stop, &batch)
        finally:
            PyBuffer_Release(&view)

    def skip_to(self, int64_t offset):
        """Notes that everything below ``offset`` has been read."""
        self.latest = max(self.latest, offset - 1)

    cdef Stop walk(self, const uint8_t **cursor, const uint8_t *end, BatchView *batch) noexcept nogil:
        """Reads batches up to one that is compressed; the cursor stays at a batch that stops it."""
        cdef const uint8_t *at = cursor[0]
        cdef Stop stop = AT_END
        cdef int aborted
        while at < end:
            cursor[0] = at
            if not view_batch(at, end, batch) or not is_sound(at, batch):
                return CORRUPT
            if batch.attributes & CONTROL_FLAG:
                if self.transactions.on_marker(batch, marker_kind(at, batch)) < 0:
                    return NO_MEMORY
            else:
                aborted = self.transactions.on_batch(batch)
                if aborted < 0:
                    return NO_MEMORY
                if not aborted and batch.count and batch.last_offset >= self.first:
                    if batch.attributes & CODEC_MASK:
                        return COMPRESSED
                    stop = self.read(at + HEADER_SIZE, at + batch.size, batch)
                    if stop != AT_END:
                        return stop
            self.latest = max(self.latest, batch.last_offset)
            at += batch.size
        cursor[0] = at
        return AT_END

    cdef Stop read(
        self, const uint8_t *at, const uint8_t *end, const BatchView *batch
    ) noexcept nogil:
        """Adds the keys of a batch's records to the map."""
        cdef RecordView record
        cdef int64_t offset
        cdef int32_t _index
        for _index in range(batch.count):
            self.reason = parse_record(&at, end, &record)
            if self.reason != SOUND:
                return MALFORMED
            self.records += 1
            offset = batch.base_offset + record.offset_delta
            if record.key_length >= 0 and offset >= self.first:
                if not self.map.put(record.key, record.key_length, offset):
                    return FULL
        return AT_END

    cdef Stop read_compressed(self, object data, Py_ssize_t position, const BatchView *batch) except *:
        cdef Py_buffer view
        cdef Stop stop
        cdef const uint8_t *at
        compressed = memoryview(data)[position + HEADER_SIZE:position + batch.size]
        records = inflate(batch.attributes & CODEC_MASK, compressed, None)
        PyObject_GetBuffer(records, &view, PyBUF_SIMPLE)
        at = <const uint8_t *>view.buf
        try:
            check_sizes(at, at + view.len, batch.count, self.max_record)
            with nogil:
                stop = self.read(at, at + view.len, batch)
        finally:
            PyBuffer_Release(&view)
        if stop == AT_END:
            self.latest = max(self.latest, batch.last_offset)
        return stop

    cdef int complain(self, Stop stop, const BatchView *batch) except -1:
        if stop == NO_MEMORY:
            raise MemoryError
        if stop == MALFORMED:
            raise InvalidBatch(
                f"A record of the batch at offset {batch.base_offset}: {reason_text(self.reason)}"
            )
        raise CorruptBatch(f"no sound v2 batch where one must be, behind offset {self.latest}")
