"""Builds the offset and time index of a segment while its batches are written.

The rules are those of an active segment: a batch gets an entry if it begins more than ``interval`` bytes after the last
entry's batch. ``pybroker.log.files.offset_index`` and ``time_index`` describe the formats.
"""

from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from cpython.bytes cimport PyBytes_FromStringAndSize
from cython cimport final
from libc.stdint cimport INT32_MAX, int32_t, int64_t, uint8_t
from libc.stdlib cimport free

from cy.batch.view cimport BatchView, view_batch
from cy.endian cimport store_int32, store_int64
from cy.memory cimport Memory, room

from cy.batch.header import CorruptBatch

cdef enum:
    OFFSET_ENTRY = 8
    TIME_ENTRY = 12


cdef uint8_t *add(Memory *entries, int size) noexcept nogil:
    """Returns room for one more entry, NULL if memory runs out."""
    cdef uint8_t *at = room(entries, size)
    if at != NULL:
        entries.size += size
    return at


@final
cdef class SegmentIndexer:
    cdef Memory offsets
    cdef Memory times
    cdef int64_t base_offset
    cdef int64_t interval
    cdef int64_t since_entry
    cdef int64_t indexed_timestamp
    cdef int64_t max_timestamp_offset
    cdef readonly int64_t max_timestamp
    cdef readonly int64_t size
    cdef readonly int64_t last_offset

    def __cinit__(self, int64_t base_offset, int64_t interval):
        self.base_offset = self.max_timestamp_offset = base_offset
        self.last_offset = base_offset - 1
        self.interval = interval
        self.max_timestamp = self.indexed_timestamp = -1

    def __dealloc__(self):
        free(self.offsets.at)
        free(self.times.at)

    def add(self, data):
        """Adds the next whole v2 batches."""
        cdef Py_buffer view
        cdef bint done
        PyObject_GetBuffer(data, &view, PyBUF_SIMPLE)
        with nogil:
            done = self.walk(<const uint8_t *>view.buf, <const uint8_t *>view.buf + view.len)
        PyBuffer_Release(&view)
        if not done:
            raise CorruptBatch(f"behind offset {self.last_offset}: no batch that can be indexed")

    cdef bint walk(self, const uint8_t *at, const uint8_t *end) noexcept nogil:
        cdef BatchView batch
        while at < end:
            if not view_batch(at, end, &batch) or not self.note(&batch):
                return False
            at += batch.size
        return True

    cdef bint note(self, const BatchView *batch) noexcept nogil:
        cdef uint8_t *entry
        if batch.base_offset <= self.last_offset or batch.last_offset - self.base_offset > INT32_MAX:
            return False
        if batch.max_timestamp > self.max_timestamp:
            self.max_timestamp = batch.max_timestamp
            self.max_timestamp_offset = batch.last_offset
        if self.since_entry > self.interval:
            entry = add(&self.offsets, OFFSET_ENTRY)
            if entry == NULL or not self.note_time():
                return False
            store_int32(entry, <int32_t>(batch.last_offset - self.base_offset))
            store_int32(entry + 4, <int32_t>self.size)
            self.since_entry = 0
        self.since_entry += batch.size
        self.size += batch.size
        self.last_offset = batch.last_offset
        return True

    cdef bint note_time(self) noexcept nogil:
        cdef uint8_t *entry
        if self.max_timestamp <= self.indexed_timestamp:
            return True
        entry = add(&self.times, TIME_ENTRY)
        if entry == NULL:
            return False
        store_int64(entry, self.max_timestamp)
        store_int32(entry + 8, <int32_t>(self.max_timestamp_offset - self.base_offset))
        self.indexed_timestamp = self.max_timestamp
        return True

    def finish(self):
        """Returns (offset index, time index). Call it after the last batch."""
        if not self.note_time():
            raise MemoryError
        return (
            PyBytes_FromStringAndSize(<const char *>self.offsets.at, self.offsets.size),
            PyBytes_FromStringAndSize(<const char *>self.times.at, self.times.size),
        )
