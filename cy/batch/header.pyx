"""The header of a record batch (grammar: ``cy.batch``): view, CRC, a walk over headers, changes in place."""

from cpython.buffer cimport PyBUF_SIMPLE, PyBUF_WRITABLE, PyBuffer_Release, PyObject_GetBuffer
from cpython.bytes cimport PyBytes_FromStringAndSize
from cython cimport final, freelist
from libc.stdint cimport INT32_MAX, int16_t, int32_t, int64_t, int8_t, uint8_t

from cy.crc32c cimport update as crc32c_update
from cy.endian cimport (
    load_int16, load_int32, load_int64, load_uint32, store_int16, store_int32, store_int64,
)

from zlib import crc32

cdef enum:
    GIL_BYTES = 65536


class CorruptBatch(ValueError):
    pass


class InvalidBatch(ValueError):
    def __init__(self, text, record_errors=(), timestamp=False):
        super().__init__(text)
        self.record_errors = list(record_errors)
        self.timestamp = timestamp


@final
@freelist(64)
cdef class Batch:
    @property
    def last_offset(self):
        return self.base_offset + self.last_offset_delta

    @property
    def next_offset(self):
        return self.base_offset + self.last_offset_delta + 1

    @property
    def end(self):
        return self.position + self.size

    @property
    def codec(self):
        return self.attributes & CODEC_MASK

    @property
    def is_transactional(self):
        return self.attributes & TRANSACTIONAL_FLAG != 0

    @property
    def is_control(self):
        return self.attributes & CONTROL_FLAG != 0

    @property
    def is_log_append_time(self):
        return self.attributes & LOG_APPEND_TIME_FLAG != 0

    @property
    def delete_horizon_ms(self):
        return self.base_timestamp if self.attributes & DELETE_HORIZON_FLAG else None

    @property
    def last_sequence(self):
        if self.base_sequence < 0:
            return self.base_sequence
        return (<int64_t>self.base_sequence + self.last_offset_delta) & INT32_MAX

    def __repr__(self):
        return (
            f"Batch(offsets={self.base_offset}-{self.last_offset}, count={self.count}, "
            f"size={self.size}, magic={self.magic}, attributes={self.attributes:#04x}, "
            f"leader_epoch={self.partition_leader_epoch}, "
            f"producer={self.producer_id}/{self.producer_epoch}/{self.base_sequence})"
        )


cdef Batch parse_header(const uint8_t *at, Py_ssize_t available, Py_ssize_t position):
    if available <= MAGIC_AT:
        raise CorruptBatch(f"{available} bytes at {position} are not a batch header")
    cdef int8_t magic = <int8_t>at[MAGIC_AT]
    cdef int64_t size = <int64_t>load_int32(at + LENGTH_AT) + LOG_OVERHEAD
    if magic < 0 or magic > 2:
        raise CorruptBatch(f"magic {magic} of the batch at {position} is not 0, 1 or 2")
    cdef int64_t least = HEADER_SIZE if magic == 2 else MIN_LEGACY_SIZE + 8 * magic
    if size < least or available < least:
        raise CorruptBatch(
            f"batch at {position}: its size is {size}, {available} bytes are there, "
            f"a header has {least}"
        )
    cdef Batch batch = Batch.__new__(Batch)
    batch.position = position
    batch.base_offset = load_int64(at)
    batch.size = size
    batch.magic = magic
    if magic == 2:
        fill_header(batch, at)
    else:
        fill_legacy_header(batch, at)
    return batch


cdef void fill_header(Batch batch, const uint8_t *at) noexcept:
    batch.partition_leader_epoch = load_int32(at + LEADER_EPOCH_AT)
    batch.crc = load_uint32(at + CRC_AT)
    batch.attributes = load_int16(at + ATTRIBUTES_AT)
    batch.last_offset_delta = load_int32(at + LAST_OFFSET_DELTA_AT)
    batch.base_timestamp = load_int64(at + BASE_TIMESTAMP_AT)
    batch.max_timestamp = load_int64(at + MAX_TIMESTAMP_AT)
    batch.producer_id = load_int64(at + PRODUCER_ID_AT)
    batch.producer_epoch = load_int16(at + PRODUCER_EPOCH_AT)
    batch.base_sequence = load_int32(at + BASE_SEQUENCE_AT)
    batch.count = load_int32(at + COUNT_AT)
    batch.records_max_timestamp = batch.max_timestamp


cdef void fill_legacy_header(Batch batch, const uint8_t *at) noexcept:
    batch.crc = load_uint32(at + LOG_OVERHEAD)
    batch.attributes = at[MAGIC_AT + 1]
    batch.max_timestamp = load_int64(at + MAGIC_AT + 2) if batch.magic == 1 else -1
    batch.base_timestamp = batch.records_max_timestamp = batch.max_timestamp
    batch.partition_leader_epoch = batch.base_sequence = batch.count = -1
    batch.producer_id = batch.producer_epoch = -1


cdef bint crc_holds(const uint8_t *at, int64_t size) noexcept nogil:
    return crc32c_update(0, at + ATTRIBUTES_AT, size - ATTRIBUTES_AT) == load_uint32(at + CRC_AT)


cdef bint any_crc_holds(const uint8_t *at, Batch batch) except -1:
    cdef int64_t size = batch.size
    cdef bint holds
    if batch.magic < 2:
        covered = PyBytes_FromStringAndSize(<const char *>at + MAGIC_AT, size - MAGIC_AT)
        return crc32(covered) == batch.crc
    if size < GIL_BYTES:
        return crc_holds(at, size)
    with nogil:
        holds = crc_holds(at, size)
    return holds


def read_header(buffer, Py_ssize_t position=0):
    cdef Py_buffer view
    PyObject_GetBuffer(buffer, &view, PyBUF_SIMPLE)
    try:
        if position < 0 or position > view.len:
            raise CorruptBatch(f"position {position} lies outside of {view.len} bytes")
        return parse_header(<const uint8_t *>view.buf + position, view.len - position, position)
    finally:
        PyBuffer_Release(&view)


def check_crc(buffer, Py_ssize_t position, Batch batch not None):
    cdef Py_buffer view
    PyObject_GetBuffer(buffer, &view, PyBUF_SIMPLE)
    try:
        if position < 0 or position + batch.size > view.len:
            return False
        return any_crc_holds(<const uint8_t *>view.buf + position, batch)
    finally:
        PyBuffer_Release(&view)


def scan(buffer, Py_ssize_t position=0, end=None, *, bint check_crcs=False):
    cdef Py_buffer view
    cdef const uint8_t *at
    cdef Batch batch
    cdef list batches = []
    PyObject_GetBuffer(buffer, &view, PyBUF_SIMPLE)
    cdef Py_ssize_t stop = view.len if end is None else min(view.len, end)
    try:
        while 0 <= position < stop:
            at = <const uint8_t *>view.buf + position
            batch = scan_one(at, stop - position, position, check_crcs)
            if batch is None:
                break
            batches.append(batch)
            position += batch.size
    finally:
        PyBuffer_Release(&view)
    return batches


cdef Batch scan_one(const uint8_t *at, Py_ssize_t available, Py_ssize_t position, bint check_crcs):
    cdef Batch batch
    try:
        batch = parse_header(at, available, position)
    except CorruptBatch:
        return None
    if batch.size > available or (check_crcs and not any_crc_holds(at, batch)):
        return None
    return batch


cdef int64_t whole_batch(const Py_buffer *view) except -1:
    """Returns the size of the v2 batch at the start of the view. Raises CorruptBatch if it is not whole."""
    cdef Batch batch = parse_header(<const uint8_t *>view.buf, view.len, 0)
    if batch.magic != 2 or batch.size > view.len:
        raise CorruptBatch(f"{view.len} bytes are not a whole v2 batch: {batch!r}")
    return batch.size


cdef void store_crc(uint8_t *at, int64_t size) noexcept:
    store_int32(at + CRC_AT, <int32_t>crc32c_update(0, at + ATTRIBUTES_AT, size - ATTRIBUTES_AT))


def assign(buffer, int64_t base_offset, int32_t leader_epoch):
    cdef Py_buffer view
    PyObject_GetBuffer(buffer, &view, PyBUF_WRITABLE)
    try:
        whole_batch(&view)
        store_int64(<uint8_t *>view.buf, base_offset)
        store_int32(<uint8_t *>view.buf + LEADER_EPOCH_AT, leader_epoch)
    finally:
        PyBuffer_Release(&view)


cdef int stamp(object buffer, int64_t timestamp_ms, int16_t flags) except -1:
    cdef Py_buffer view
    cdef uint8_t *at
    cdef int64_t size
    PyObject_GetBuffer(buffer, &view, PyBUF_WRITABLE)
    try:
        size = whole_batch(&view)
        at = <uint8_t *>view.buf
        store_int16(at + ATTRIBUTES_AT, load_int16(at + ATTRIBUTES_AT) | flags)
        store_int64(at + MAX_TIMESTAMP_AT, timestamp_ms)
        store_crc(at, size)
    finally:
        PyBuffer_Release(&view)
    return 0


def set_log_append_time(buffer, int64_t timestamp_ms):
    stamp(buffer, timestamp_ms, LOG_APPEND_TIME_FLAG)


def set_max_timestamp(buffer, int64_t timestamp_ms):
    stamp(buffer, timestamp_ms, 0)
