"""Rewrites whole batches without the records that compaction removes: the second half of a compaction.

By Kafka's rules, these parts of each batch stay:

* A record whose key has no later offset in the map, or that lies beyond what the map covers. A tombstone stays until
  the batch's *delete horizon* (KIP-534). The first pass that meets it sets the horizon to ``now +
  delete.retention.ms``. It sets attribute bit 6, writes the horizon where the base timestamp was, and rewrites the
  records' timestamp deltas accordingly.
* A marker, as long as a batch of its transaction is left. After that it gets a horizon too.
* The last batch of each producer, without records if none is left: its sequences and epoch are the producer's state.
* The last batch of each new segment, so that the file shows up to which offset it replaces others.

Records of aborted transactions do not stay.

A batch that keeps everything is copied unchanged. Otherwise the header keeps its base offset, last offset, sequences
and epoch. Records keep their bytes, since base offset and base timestamp do not change, unless this pass sets the
horizon. Compressed batches are decompressed and compressed again by their own codec, unless the result would exceed the
limit for decompression. CRCs are checked first, so a damaged batch never gets a valid CRC.
"""

from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_FillInfo, PyBuffer_Release, PyObject_GetBuffer
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize
from cython cimport final
from libc.stdint cimport INT64_MAX, int16_t, int32_t, int64_t, uint8_t
from libc.stdlib cimport free
from libc.string cimport memcpy

from cy.batch.aborted_transactions cimport AbortedTransactions
from cy.batch.header cimport (
    ATTRIBUTES_AT, BASE_TIMESTAMP_AT, CODEC_MASK, CONTROL_FLAG, COUNT_AT, DELETE_HORIZON_FLAG,
    HEADER_SIZE, LOG_APPEND_TIME_FLAG, MAX_TIMESTAMP_AT,
)
from cy.batch.reader cimport SOUND, RecordView, check_sizes, inflate, parse_record, reason_text, timestamp_of
from cy.batch.view cimport BatchView, finish_header, is_sound, view_batch
from cy.endian cimport store_int16, store_int32, store_int64
from cy.int64_map cimport Int64Map
from cy.batch.markers cimport marker_kind
from cy.memory cimport Memory, room
from cy.compaction.offset_map cimport OffsetMap
from cy.varint cimport (
    read_varint, read_varlong, size_of_varint, size_of_varlong, write_varint, write_varlong,
)

from cy.batch.header import CorruptBatch, InvalidBatch
from cy.batch.compression import compress, output_limit

cdef enum Stop:
    AT_END
    COMPRESSED
    CORRUPT
    MALFORMED
    NO_MEMORY

# What the filter does with a batch.
cdef enum Fate:
    SELECT              # the records are examined one by one
    KEEP_RECORDS        # all records stay
    DROP_RECORDS

cdef enum:
    LONGEST_DELTA = 10


cdef struct Plan:
    Fate fate
    bint keeps_empty            # the header stays if no record does
    bint wants_horizon          # a marker of an empty transaction


cdef struct Selection:
    int32_t count               # records that stay
    bint has_tombstone          # that the map covers
    int64_t max_timestamp


@final
cdef class BatchFilter:
    cdef OffsetMap map
    cdef AbortedTransactions transactions
    cdef Int64Map last_offsets
    cdef int64_t latest
    cdef int64_t now_ms
    cdef int64_t horizon_ms
    cdef int64_t max_record
    cdef Memory out
    cdef Memory scratch
    cdef Memory kept            # a byte for each record of the batch: 1 if it stays
    cdef int reason
    cdef int views
    cdef readonly int64_t records_read
    cdef readonly int64_t records_kept

    def __cinit__(
        self, OffsetMap map not None, AbortedTransactions transactions not None,
        Int64Map last_offsets not None, *, int64_t latest, int64_t now_ms,
        int64_t delete_retention_ms, int64_t max_record=INT64_MAX,
    ):
        self.map = map
        self.transactions = transactions
        self.last_offsets = last_offsets
        self.latest = latest
        self.now_ms = now_ms
        self.max_record = max_record
        self.horizon_ms = INT64_MAX if delete_retention_ms > INT64_MAX - now_ms else now_ms + delete_retention_ms

    def __dealloc__(self):
        free(self.out.at)
        free(self.scratch.at)
        free(self.kept.at)

    def __getbuffer__(self, Py_buffer *buffer, int flags):
        self.views += 1
        PyBuffer_FillInfo(buffer, self, self.out.at, self.out.size, True, flags)

    def __releasebuffer__(self, Py_buffer *buffer):
        self.views -= 1

    def __len__(self):
        return self.out.size

    def set_last_offsets(self, Int64Map last_offsets not None):
        self.last_offsets = last_offsets

    def clear(self):
        if self.views:
            raise BufferError("the output is in use")
        self.out.size = 0

    def filter(self, data, bint is_end):
        """Adds what stays of ``data``, which consists of whole v2 batches, to the output."""
        cdef Py_buffer view
        cdef const uint8_t *at
        cdef const uint8_t *end
        cdef BatchView batch
        cdef Plan plan
        cdef Stop stop
        if self.views:
            raise BufferError("the output is in use")
        PyObject_GetBuffer(data, &view, PyBUF_SIMPLE)
        at = <const uint8_t *>view.buf
        end = at + view.len
        try:
            while True:
                with nogil:
                    stop = self.walk(&at, end, is_end, &batch, &plan)
                if stop == COMPRESSED:
                    stop = self.filter_compressed(data, at - <const uint8_t *>view.buf, &batch, &plan)
                    at += batch.size
                    if stop == AT_END:
                        continue
                if stop == AT_END:
                    return
                self.complain(stop, &batch)
        finally:
            PyBuffer_Release(&view)

    cdef Stop walk(
        self, const uint8_t **cursor, const uint8_t *end, bint is_end, BatchView *batch, Plan *plan
    ) noexcept nogil:
        """Filters batches up to one that must be decompressed; the cursor stays at a batch that stops it."""
        cdef const uint8_t *at = cursor[0]
        cdef Stop stop
        while at < end:
            cursor[0] = at
            if not view_batch(at, end, batch) or not is_sound(at, batch):
                return CORRUPT
            if not self.decide(at, batch, is_end and at + batch.size == end, plan):
                return NO_MEMORY
            self.records_read += batch.count
            if plan.fate != DROP_RECORDS and batch.attributes & CODEC_MASK and batch.count:
                return COMPRESSED
            stop = self.filter_plain(at, batch, plan)
            if stop != AT_END:
                return stop
            at += batch.size
        cursor[0] = at
        return AT_END

    # What happens to a batch

    cdef bint decide(
        self, const uint8_t *at, const BatchView *batch, bint is_last, Plan *plan
    ) noexcept nogil:
        """Decides what happens to a batch. Returns False if memory runs out."""
        cdef bint is_control = batch.attributes & CONTROL_FLAG != 0
        cdef bint has_horizon = batch.attributes & DELETE_HORIZON_FLAG != 0
        cdef int is_free
        if is_control:
            is_free = self.transactions.on_marker(batch, marker_kind(at, batch))
        else:
            is_free = self.transactions.on_batch(batch)
        if is_free < 0:
            return False
        plan.keeps_empty = is_last or self.is_last_of_producer(batch, is_control)
        plan.wants_horizon = False
        if not is_control:
            plan.fate = DROP_RECORDS if is_free else SELECT
        elif is_free and has_horizon and batch.base_timestamp <= self.now_ms:
            plan.fate = DROP_RECORDS
        else:
            plan.fate = KEEP_RECORDS
            plan.wants_horizon = is_free and not has_horizon
        return True

    cdef bint is_last_of_producer(self, const BatchView *batch, bint is_control) noexcept nogil:
        """Returns True if this batch has the producer's state.

        The map has the last offset of a producer's last data batch. If the producer has written none in its epoch, its
        entry is ``-2 - epoch``, and its markers of that epoch have its state.
        """
        cdef int64_t *last
        if batch.producer_id < 0:
            return False
        last = self.last_offsets.find(batch.producer_id)
        if last == NULL:
            return False
        if last[0] >= 0:
            return batch.last_offset == last[0]
        return is_control and batch.producer_epoch == -2 - last[0]

    cdef bint stays(self, const BatchView *batch, const RecordView *record, bint *covered) noexcept nogil:
        cdef int64_t offset = batch.base_offset + record.offset_delta
        covered[0] = offset <= self.latest
        if not covered[0]:
            return True
        if record.key_length < 0:
            return False
        if (record.value_length < 0 and batch.attributes & DELETE_HORIZON_FLAG
                and self.now_ms >= batch.base_timestamp):
            return False
        return offset >= self.map.find(record.key, record.key_length)

    # Batches as they lie in the file

    cdef Stop filter_plain(
        self, const uint8_t *at, const BatchView *batch, const Plan *plan
    ) noexcept nogil:
        cdef Selection chosen = Selection(0, False, -1)
        cdef const uint8_t *records = at + HEADER_SIZE
        cdef const uint8_t *end = at + batch.size
        cdef uint8_t *target
        cdef int64_t size
        cdef bint sets_horizon
        if plan.fate != DROP_RECORDS:
            if not self.select(records, end, batch, plan, &chosen):
                return MALFORMED if self.reason else NO_MEMORY
        if chosen.count == 0:
            return self.write_empty(at, batch, plan)
        sets_horizon = self.needs_horizon(batch, plan, &chosen)
        if chosen.count == batch.count and not sets_horizon:
            return self.copy(at, batch)
        target = room(&self.out, self.most(batch.size, batch, sets_horizon))
        if target == NULL:
            return NO_MEMORY
        size = self.write_records(target + HEADER_SIZE, records, end, batch, sets_horizon)
        self.write_header(target, at, batch.attributes, &chosen, sets_horizon)
        finish_header(target, HEADER_SIZE + size)
        self.out.size += HEADER_SIZE + size
        return AT_END

    cdef Stop filter_compressed(
        self, object data, Py_ssize_t position, const BatchView *batch, const Plan *plan
    ) except *:
        cdef Py_buffer whole, view
        octets = memoryview(data)
        compressed = octets[position + HEADER_SIZE:position + batch.size]
        records = inflate(batch.attributes & CODEC_MASK, compressed, None)
        PyObject_GetBuffer(data, &whole, PyBUF_SIMPLE)
        PyObject_GetBuffer(records, &view, PyBUF_SIMPLE)
        cdef const uint8_t *at = <const uint8_t *>view.buf
        try:
            check_sizes(at, at + view.len, batch.count, self.max_record)
            return self.filter_inflated(<const uint8_t *>whole.buf + position, at, view.len, batch, plan)
        finally:
            PyBuffer_Release(&view)
            PyBuffer_Release(&whole)

    cdef Stop filter_inflated(
        self, const uint8_t *at, const uint8_t *records, Py_ssize_t length,
        const BatchView *batch, const Plan *plan,
    ) except *:
        """Filters the compressed batch ``at``, whose ``records`` are decompressed."""
        cdef Selection chosen = Selection(0, False, -1)
        cdef int64_t size = 0
        cdef bint sound, sets_horizon
        with nogil:
            sound = self.select(records, records + length, batch, plan, &chosen)
        if not sound:
            return MALFORMED if self.reason else NO_MEMORY
        if chosen.count == 0:
            return self.write_empty(at, batch, plan)
        sets_horizon = self.needs_horizon(batch, plan, &chosen)
        if chosen.count == batch.count and not sets_horizon:
            return self.copy(at, batch)
        self.scratch.size = 0
        with nogil:
            if room(&self.scratch, self.most(length, batch, sets_horizon)) == NULL:
                return NO_MEMORY
            size = self.write_records(
                self.scratch.at, records, records + length, batch, sets_horizon
            )
        return self.write_compressed(at, size, batch, &chosen, sets_horizon)

    cdef Stop write_compressed(
        self, const uint8_t *at, int64_t size, const BatchView *batch, const Selection *chosen,
        bint sets_horizon,
    ) except *:
        """Compresses the ``size`` bytes of the scratch memory.

        A batch is not changed if the remaining records would exceed the limit for decompression: they may be far more
        compressible than the whole batch.
        """
        cdef int16_t attributes = batch.attributes
        cdef uint8_t *target
        cdef bytes plain = PyBytes_FromStringAndSize(<const char *>self.scratch.at, size)
        cdef bytes records = compress(attributes & CODEC_MASK, plain)
        if size > output_limit(len(records)):
            records = plain
            attributes &= ~CODEC_MASK
        target = room(&self.out, HEADER_SIZE + len(records))
        if target == NULL:
            return NO_MEMORY
        memcpy(target + HEADER_SIZE, PyBytes_AS_STRING(records), len(records))
        self.write_header(target, at, attributes, chosen, sets_horizon)
        finish_header(target, HEADER_SIZE + len(records))
        self.out.size += HEADER_SIZE + len(records)
        return AT_END

    # Records

    cdef bint select(
        self, const uint8_t *at, const uint8_t *end, const BatchView *batch, const Plan *plan,
        Selection *chosen,
    ) noexcept nogil:
        """Fills ``kept`` and ``chosen``. Returns False if a record cannot be parsed (``reason``), or if memory runs
        out."""
        cdef RecordView record
        cdef int64_t timestamp
        cdef int32_t index
        cdef bint covered, stays
        self.reason = SOUND
        self.kept.size = 0
        if room(&self.kept, min(<int64_t>batch.count, end - at + 1)) == NULL:
            return False
        for index in range(batch.count):
            self.reason = parse_record(&at, end, &record)
            if self.reason != SOUND:
                return False
            covered = True
            stays = plan.fate == KEEP_RECORDS or self.stays(batch, &record, &covered)
            self.kept.at[index] = stays
            if stays:
                chosen.count += 1
                timestamp = timestamp_of(batch.base_timestamp, record.timestamp_delta)
                chosen.max_timestamp = max(chosen.max_timestamp, timestamp)
                if covered and record.value_length < 0:
                    chosen.has_tombstone = True
        self.records_kept += chosen.count
        return True

    cdef bint needs_horizon(
        self, const BatchView *batch, const Plan *plan, const Selection *chosen
    ) noexcept nogil:
        if batch.attributes & DELETE_HORIZON_FLAG:
            return False
        if batch.attributes & CONTROL_FLAG:
            return plan.wants_horizon
        return chosen.has_tombstone

    cdef int64_t most(self, int64_t size, const BatchView *batch, bint sets_horizon) noexcept nogil:
        """Returns how many bytes header and records may take at most."""
        cdef int64_t longer = 2 * <int64_t>LONGEST_DELTA * batch.count if sets_horizon else 0
        return HEADER_SIZE + size + longer

    cdef int64_t write_records(
        self, uint8_t *target, const uint8_t *at, const uint8_t *end, const BatchView *batch,
        bint sets_horizon,
    ) noexcept nogil:
        """Writes the records that stay. Returns their size."""
        cdef uint8_t *start = target
        cdef const uint8_t *before
        cdef RecordView record
        cdef int32_t index
        for index in range(batch.count):
            before = at
            parse_record(&at, end, &record)
            if not self.kept.at[index]:
                continue
            if sets_horizon:
                target = self.write_dated(target, before, batch, &record)
            else:
                memcpy(target, before, at - before)
                target += at - before
        return target - start

    cdef uint8_t *write_dated(
        self, uint8_t *target, const uint8_t *at, const BatchView *batch, const RecordView *record
    ) noexcept nogil:
        """Writes the record at ``at`` with its timestamp as the time since the horizon."""
        cdef int64_t since = (
            timestamp_of(batch.base_timestamp, record.timestamp_delta) - self.horizon_ms
        )
        cdef const uint8_t *attributes
        cdef int32_t old_length = 0, offset_delta = 0
        cdef int64_t old_since = 0, length, tail
        read_varint(&at, record.end, &old_length)
        attributes = at
        at += 1
        read_varlong(&at, record.end, &old_since)
        read_varint(&at, record.end, &offset_delta)
        tail = record.end - at
        length = 1 + size_of_varlong(since) + size_of_varint(offset_delta) + tail
        target = write_varint(target, <int32_t>length)
        target[0] = attributes[0]
        target = write_varint(write_varlong(target + 1, since), offset_delta)
        memcpy(target, at, tail)
        return target + tail

    # Headers

    cdef Stop copy(self, const uint8_t *at, const BatchView *batch) noexcept nogil:
        cdef uint8_t *target = room(&self.out, batch.size)
        if target == NULL:
            return NO_MEMORY
        memcpy(target, at, batch.size)
        self.out.size += batch.size
        return AT_END

    cdef void write_header(
        self, uint8_t *target, const uint8_t *at, int16_t attributes, const Selection *chosen,
        bint sets_horizon,
    ) noexcept nogil:
        memcpy(target, at, HEADER_SIZE)
        store_int32(target + COUNT_AT, chosen.count)
        if not attributes & LOG_APPEND_TIME_FLAG:
            store_int64(target + MAX_TIMESTAMP_AT, chosen.max_timestamp)
        if sets_horizon:
            attributes |= DELETE_HORIZON_FLAG
            store_int64(target + BASE_TIMESTAMP_AT, self.horizon_ms)
        store_int16(target + ATTRIBUTES_AT, attributes)

    cdef Stop write_empty(
        self, const uint8_t *at, const BatchView *batch, const Plan *plan
    ) noexcept nogil:
        """Writes the header of a batch that stays without records."""
        cdef uint8_t *target
        if not plan.keeps_empty:
            return AT_END
        target = room(&self.out, HEADER_SIZE)
        if target == NULL:
            return NO_MEMORY
        memcpy(target, at, HEADER_SIZE)
        store_int16(target + ATTRIBUTES_AT, batch.attributes & ~(CODEC_MASK | DELETE_HORIZON_FLAG))
        store_int64(target + BASE_TIMESTAMP_AT, -1)
        store_int32(target + COUNT_AT, 0)
        finish_header(target, HEADER_SIZE)
        self.out.size += HEADER_SIZE
        return AT_END

    cdef int complain(self, Stop stop, const BatchView *batch) except -1:
        if stop == NO_MEMORY:
            raise MemoryError
        if stop == MALFORMED:
            raise InvalidBatch(
                f"A record of the batch at offset {batch.base_offset}: {reason_text(self.reason)}"
            )
        raise CorruptBatch(f"no sound v2 batch where one must be, behind offset {batch.last_offset}")
