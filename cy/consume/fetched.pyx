"""Parses the records of a fetch batch by batch, as the consumer takes them.

A fetch of a partition returns a sequence of v2 batches, of which the last may be incomplete. ``Fetched`` walks over
them. ``take`` returns the next records as a ``Chunk``: an array of entries that point into the response, or into a
decompressed batch. It makes no Python object per record; ``records`` and ``record_columns`` turn a chunk into what the
application wants.

It skips records before the position, control batches, and in read_committed the batches of
aborted transactions. The broker lists these by producer and first offset; from that offset on the
producer's transactional batches are aborted, until its abort marker (KIP-98).
"""

from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from cython cimport final
from libc.stdint cimport INT64_MAX, int32_t, int64_t, uint8_t, uint32_t
from libc.stdlib cimport free, malloc, realloc

from cy.batch.header cimport (
    CODEC_MASK, CONTROL_FLAG, HEADER_SIZE, LAST_OFFSET_DELTA_AT, LEADER_EPOCH_AT, LENGTH_AT,
    LOG_APPEND_TIME_FLAG, LOG_OVERHEAD, MAGIC_AT, TRANSACTIONAL_FLAG,
)
from cy.batch.reader cimport BAD_COUNT, RecordView, inflate, parse_record, reason_text, timestamp_of
from cy.batch.view cimport is_sound, view_batch
from cy.endian cimport load_int32, load_int64
from cy.int64_map cimport Int64Map
from cy.batch.markers cimport ABORT_MARKER, marker_kind
from cy.consume.value_reader cimport Reader

from cy.batch.header import CorruptBatch, InvalidBatch
from cy.batch.compression import output_limit

cdef enum:
    FIRST_CAPACITY = 512
    KEPT_CAPACITY = 1 << 18     # the most entries of a finished chunk that are kept for the next large one

# The entries of a finished large chunk. New memory would cost a page fault for each 64 entries, more than parsing them.
# Guarded by the GIL.
cdef Entry *spare = NULL
cdef int32_t spare_capacity = 0


class LegacyBatch(ValueError):
    """A batch of message format 0 or 1, which the SDK does not read."""


@final
cdef class Chunk:
    def __dealloc__(self):
        global spare, spare_capacity
        if spare_capacity < self.capacity <= KEPT_CAPACITY:
            spare, self.entries = self.entries, spare
            spare_capacity = self.capacity
        free(self.entries)

    cdef void reuse(self) noexcept:
        """Reuses the entries of an earlier chunk."""
        global spare, spare_capacity
        self.entries, self.capacity = spare, spare_capacity
        spare, spare_capacity = NULL, 0

    cdef Entry *room(self) noexcept nogil:
        """Returns the place of the next entry, NULL if memory runs out. It counts when ``count`` grows."""
        cdef Entry *entries
        cdef int32_t capacity
        if self.count == self.capacity:
            capacity = self.capacity * 2 if self.capacity else FIRST_CAPACITY
            entries = <Entry *>realloc(self.entries, capacity * sizeof(Entry))
            if entries == NULL:
                return NULL
            self.entries = entries
            self.capacity = capacity
        return &self.entries[self.count]


@final
cdef class Fetched:
    def __cinit__(
        self, str topic not None, int32_t partition, int64_t offset, records, *, aborted=(),
        bint check_crcs=True, Reader key_reader=None, Reader value_reader=None, int64_t max_inflated=0,
    ):
        cdef Py_buffer view
        self.topic = topic
        self.partition = partition
        self.next_offset = offset
        self.check_crcs = check_crcs
        self.max_inflated = max_inflated
        self.batch_epoch = -1
        self.key_reader = key_reader
        self.value_reader = value_reader
        self.source = memoryview(records)       # keeps the bytes exported
        PyObject_GetBuffer(self.source, &view, PyBUF_SIMPLE)
        self.at = <const uint8_t *>view.buf
        self.end = self.at + view.len
        self.size = view.len
        PyBuffer_Release(&view)
        if aborted:
            self.set_aborted(aborted)
        self.measure()

    def __dealloc__(self):
        free(self.aborted)

    @property
    def is_readable(self):
        return self.end - self.at <= MAGIC_AT or self.at[MAGIC_AT] == 2

    def set_aborted(self, aborted):
        cdef int32_t index
        ordered = sorted(aborted, key=by_first_offset)
        self.aborted = <Aborted *>malloc(len(ordered) * sizeof(Aborted))
        if self.aborted == NULL:
            raise MemoryError
        for index, (producer_id, first_offset) in enumerate(ordered):
            self.aborted[index] = Aborted(producer_id, first_offset)
        self.aborted_count = len(ordered)
        self.aborting = Int64Map()

    cdef void measure(self) noexcept nogil:
        """Finds the end of the last whole batch, by the headers alone."""
        cdef const uint8_t *at = self.at
        cdef int64_t size
        self.end_offset = self.next_offset
        self.last_epoch = -1
        while self.end - at >= HEADER_SIZE and at[MAGIC_AT] == 2:
            size = <int64_t>load_int32(at + LENGTH_AT) + LOG_OVERHEAD
            if size < HEADER_SIZE or size > self.end - at:
                break
            self.end_offset = max(
                self.end_offset, load_int64(at) + load_int32(at + LAST_OFFSET_DELTA_AT) + 1
            )
            self.last_epoch = load_int32(at + LEADER_EPOCH_AT)
            at += size

    def take(
        self, int32_t limit, int64_t until=INT64_MAX, int64_t most=INT64_MAX, bint is_first_free=True
    ):
        cdef Chunk chunk = Chunk.__new__(Chunk)
        cdef Stop stop = COMPRESSED
        self.until = until
        self.most = most
        self.is_first_free = is_first_free
        chunk.topic = self.topic
        chunk.partition = self.partition
        chunk.key_reader = self.key_reader
        chunk.value_reader = self.value_reader
        chunk.owners = []
        if spare_capacity and limit > spare_capacity // 2:
            chunk.reuse()
        if self.inflated is not None:
            chunk.owners.append(self.inflated)
        self.took_raw = False
        while stop == COMPRESSED:
            with nogil:
                stop = self.read(chunk, limit)
            if stop == COMPRESSED:
                if chunk.count >= limit or chunk.size >= most:
                    break
                try:
                    self.open_compressed(chunk)
                except Exception:
                    if chunk.count == 0:
                        raise
                    break               # the records before it are returned; the next call raises
        if self.took_raw:
            chunk.owners.append(self.source)
        if stop == AT_END:
            self.is_done = True
        elif stop > COMPRESSED and chunk.count == 0:
            raise self.complaint(stop)
        return chunk if chunk.count else None

    # Batches

    cdef Stop read(self, Chunk chunk, int32_t limit) noexcept nogil:
        cdef Stop stop
        while True:
            if self.left == 0:
                stop = self.next_batch()
                if stop != OPENED:
                    return stop
            if chunk.count >= limit:
                return ENOUGH
            stop = self.read_records(chunk, limit)
            if stop != OPENED:
                return stop

    cdef Stop next_batch(self) noexcept nogil:
        """Opens the next batch that has records for us, or stops at a compressed one."""
        cdef Stop stop
        cdef int unwanted
        while True:
            stop = self.view_next()
            if stop != OPENED:
                return stop
            if self.batch.base_offset >= self.until:
                return self.reach_end()
            unwanted = self.is_unwanted()
            if unwanted < 0:
                return NO_MEMORY
            if not unwanted:
                if self.batch.attributes & CODEC_MASK:
                    return COMPRESSED
                self.open_batch(self.at + HEADER_SIZE, self.at + self.batch.size)
                return OPENED
            self.leave_batch()
            self.at += self.batch.size

    cdef Stop view_next(self) noexcept nogil:
        cdef int64_t available = self.end - self.at
        if available <= MAGIC_AT:
            return AT_END
        if self.at[MAGIC_AT] < 2:
            return LEGACY
        if <int64_t>load_int32(self.at + LENGTH_AT) + LOG_OVERHEAD > available:
            return AT_END
        if not view_batch(self.at, self.end, &self.batch):
            return CORRUPT
        if self.batch.last_offset >= self.next_offset and self.check_crcs:
            if not is_sound(self.at, &self.batch):
                return CORRUPT
        self.batch_epoch = load_int32(self.at + LEADER_EPOCH_AT)
        return OPENED

    cdef int is_unwanted(self) noexcept nogil:
        """Returns 1 if the batch has no records for us, -1 if memory runs out."""
        cdef Aborted *next
        while self.aborted_reached < self.aborted_count:
            next = &self.aborted[self.aborted_reached]
            if next.first_offset > self.batch.last_offset:
                break
            if not self.aborting.put(next.producer_id, 0):
                return -1
            self.aborted_reached += 1
        if self.batch.attributes & CONTROL_FLAG:
            if self.aborted_count and marker_kind(self.at, &self.batch) == ABORT_MARKER:
                self.aborting.remove(self.batch.producer_id)
            return True
        if self.batch.count == 0 or self.batch.last_offset < self.next_offset:
            return True
        return (
            self.aborted_count > 0 and self.batch.attributes & TRANSACTIONAL_FLAG != 0
            and self.aborting.find(self.batch.producer_id) != NULL
        )

    cdef void open_batch(self, const uint8_t *at, const uint8_t *end) noexcept nogil:
        self.record_at = at
        self.record_end = end
        self.left = self.batch.count
        self.at += self.batch.size

    cdef Stop reach_end(self) noexcept nogil:
        """Stops, because nothing before ``until`` is left."""
        self.next_offset = max(self.next_offset, self.until)
        return ENOUGH

    cdef void leave_batch(self) noexcept nogil:
        self.next_offset = max(self.next_offset, self.batch.last_offset + 1)

    cdef int open_compressed(self, Chunk chunk) except -1:
        cdef Py_buffer view
        cdef Py_ssize_t position = self.size - (self.end - self.at)
        compressed = self.source[position + HEADER_SIZE:position + self.batch.size]
        most = max(output_limit(len(compressed)), self.max_inflated)
        self.inflated = memoryview(inflate(self.batch.attributes & CODEC_MASK, compressed, most))
        PyObject_GetBuffer(self.inflated, &view, PyBUF_SIMPLE)
        self.open_batch(<const uint8_t *>view.buf, <const uint8_t *>view.buf + view.len)
        PyBuffer_Release(&view)
        chunk.owners.append(self.inflated)
        return 0

    # Records

    cdef Stop read_records(self, Chunk chunk, int32_t limit) noexcept nogil:
        cdef RecordView record
        cdef Entry *entry
        cdef bint is_raw = self.batch.attributes & CODEC_MASK == 0
        cdef bint is_append_time = self.batch.attributes & LOG_APPEND_TIME_FLAG != 0
        cdef const uint8_t *record_at
        cdef int64_t offset, size
        while self.left and chunk.count < limit:
            record_at = self.record_at
            self.reason = parse_record(&self.record_at, self.record_end, &record)
            if self.reason:
                return MALFORMED
            offset = self.batch.base_offset + record.offset_delta
            if offset >= self.until:
                self.record_at = record_at
                return self.reach_end()
            if offset < self.next_offset:
                self.left -= 1
                continue
            size = self.record_at - record_at
            if size > self.most - chunk.size and (chunk.count or not self.is_first_free):
                self.record_at = record_at
                return ENOUGH
            self.left -= 1
            entry = chunk.room()
            if entry == NULL:
                return NO_MEMORY
            entry.offset = offset
            entry.timestamp = (
                self.batch.max_timestamp if is_append_time
                else timestamp_of(self.batch.base_timestamp, record.timestamp_delta)
            )
            entry.key = record.key
            entry.value = record.value
            entry.headers = record.headers
            entry.key_length = record.key_length
            entry.value_length = record.value_length
            entry.header_count = record.header_count
            entry.headers_size = <uint32_t>(record.end - record.headers)
            entry.leader_epoch = self.batch_epoch
            entry.is_append_time = is_append_time
            chunk.count += 1
            chunk.size += size
            self.took_raw = self.took_raw or is_raw
            self.next_offset = offset + 1
        if self.left:
            return OPENED
        if self.record_at != self.record_end:
            self.reason = BAD_COUNT
            return MALFORMED
        self.leave_batch()
        return OPENED

    cdef object complaint(self, Stop stop):
        where = f"{self.topic}-{self.partition}, offset {self.next_offset}"
        if stop == NO_MEMORY:
            return MemoryError()
        if stop == MALFORMED:
            return InvalidBatch(f"A record at {where} does not parse: {reason_text(self.reason)}")
        if stop == LEGACY:
            return LegacyBatch(f"The batch at {where} has message format 0 or 1")
        return CorruptBatch(f"The batch at {where} is damaged: its CRC does not hold")


def by_first_offset(transaction):
    return transaction[1]
