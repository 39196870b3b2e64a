"""Builds record batches (grammar: ``cy.batch``) in one growing block of memory."""

from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize
from cpython.mem cimport PyMem_Free, PyMem_Realloc
from cython cimport final
from libc.stdint cimport INT32_MAX, int16_t, int32_t, int64_t, uint8_t
from libc.string cimport memcpy

from cy.batch.header cimport (
    ATTRIBUTES_AT, BASE_SEQUENCE_AT, BASE_TIMESTAMP_AT, CODEC_MASK, CONTROL_FLAG, COUNT_AT,
    HEADER_SIZE, LAST_OFFSET_DELTA_AT, LEADER_EPOCH_AT, LENGTH_AT, LOG_APPEND_TIME_FLAG,
    LOG_OVERHEAD, MAGIC_AT, MAX_TIMESTAMP_AT, PRODUCER_EPOCH_AT, PRODUCER_ID_AT,
    TRANSACTIONAL_FLAG, Batch, store_crc,
)
from cy.batch.reader cimport inflate
from cy.endian cimport store_int16, store_int32, store_int64
from cy.varint cimport size_of_varint, size_of_varlong, write_varint, write_varlong

from cy.batch.header import CorruptBatch, read_header
from cy.batch.compression import compress, output_limit

cdef enum:
    FIRST_CAPACITY = 1024
    LONGEST_PREFIX = 5 + 1 + 10 + 5     # length, attributes, timestamp delta, offset delta


@final
cdef class Builder:
    cdef uint8_t *data
    cdef Py_ssize_t used
    cdef Py_ssize_t capacity
    cdef int codec
    cdef object level
    cdef int16_t attributes
    cdef int64_t producer_id
    cdef int16_t producer_epoch
    cdef int32_t base_sequence
    cdef int64_t base_timestamp
    cdef int64_t max_timestamp
    cdef int64_t last_offset_delta
    cdef readonly int32_t count

    def __cinit__(
        self, *, int codec=0, level=None, int64_t producer_id=-1, int16_t producer_epoch=-1,
        int32_t base_sequence=-1, bint transactional=False, bint control=False,
        bint log_append_time=False,
    ):
        self.codec = codec
        self.level = level
        self.producer_id = producer_id
        self.producer_epoch = producer_epoch
        self.base_sequence = base_sequence
        self.attributes = (
            codec | (TRANSACTIONAL_FLAG if transactional else 0) | (CONTROL_FLAG if control else 0)
            | (LOG_APPEND_TIME_FLAG if log_append_time else 0)
        )
        self.base_timestamp = self.max_timestamp = self.last_offset_delta = -1
        self.used = HEADER_SIZE
        self.reserve(0)

    def __dealloc__(self):
        PyMem_Free(self.data)

    @property
    def size(self):
        return self.used

    cdef int reserve(self, Py_ssize_t more) except -1:
        """Makes room for ``more`` bytes."""
        cdef Py_ssize_t capacity = max(FIRST_CAPACITY, self.capacity)
        while capacity - self.used < more:
            capacity *= 2
        if capacity > self.capacity:
            data = <uint8_t *>PyMem_Realloc(self.data, capacity)
            if data == NULL:
                raise MemoryError
            self.data = data
            self.capacity = capacity
        return 0

    def append(self, int64_t timestamp, key, value, headers=(), offset_delta=None):
        cdef Py_buffer key_view, value_view
        cdef int64_t delta = self.last_offset_delta + 1 if offset_delta is None else offset_delta
        if delta <= self.last_offset_delta or delta > INT32_MAX:
            raise ValueError(f"offset delta {delta} does not follow {self.last_offset_delta}")
        cdef bytes tail = encode_headers(headers)
        get_optional(key, &key_view)
        try:
            get_optional(value, &value_view)
            try:
                self.write(timestamp, delta, &key_view, &value_view, tail)
            finally:
                release_optional(&value_view)
        finally:
            release_optional(&key_view)

    cdef int write(
        self, int64_t timestamp, int32_t delta, const Py_buffer *key, const Py_buffer *value,
        bytes tail,
    ) except -1:
        if self.count == 0:
            self.base_timestamp = self.max_timestamp = timestamp
        cdef int64_t since = timestamp - self.base_timestamp
        cdef Py_ssize_t length = (
            1 + size_of_varlong(since) + size_of_varint(delta)
            + size_of_field(key) + size_of_field(value) + len(tail)
        )
        if length > INT32_MAX - LONGEST_PREFIX - self.used:
            raise ValueError("a batch has at most 2 GiB")
        self.reserve(length + LONGEST_PREFIX)
        cdef uint8_t *at = write_varint(self.data + self.used, <int32_t>length)
        at[0] = 0
        at = write_varint(write_varlong(at + 1, since), delta)
        at = write_field(write_field(at, key), value)
        memcpy(at, PyBytes_AS_STRING(tail), len(tail))
        self.used = at + len(tail) - self.data
        self.max_timestamp = max(self.max_timestamp, timestamp)
        self.last_offset_delta = delta
        self.count += 1
        return 0

    def build(self, int64_t base_offset=0, int32_t leader_epoch=-1):
        if self.count == 0:
            raise ValueError("a batch without records")
        cdef bytes batch = self.assemble()
        cdef uint8_t *at = <uint8_t *>PyBytes_AS_STRING(batch)
        store_int64(at, base_offset)
        store_int32(at + LENGTH_AT, <int32_t>(len(batch) - LOG_OVERHEAD))
        store_int32(at + LEADER_EPOCH_AT, leader_epoch)
        at[MAGIC_AT] = 2
        store_int16(at + ATTRIBUTES_AT, self.attributes)
        store_int32(at + LAST_OFFSET_DELTA_AT, <int32_t>self.last_offset_delta)
        store_int64(at + BASE_TIMESTAMP_AT, self.base_timestamp)
        store_int64(at + MAX_TIMESTAMP_AT, self.max_timestamp)
        store_int64(at + PRODUCER_ID_AT, self.producer_id)
        store_int16(at + PRODUCER_EPOCH_AT, self.producer_epoch)
        store_int32(at + BASE_SEQUENCE_AT, self.base_sequence)
        store_int32(at + COUNT_AT, self.count)
        store_crc(at, len(batch))
        return batch

    cdef bytes assemble(self):
        """Returns room for the header, followed by the records in their final form."""
        cdef Py_ssize_t size = self.used - HEADER_SIZE
        if self.codec == 0:
            return PyBytes_FromStringAndSize(<const char *>self.data, self.used)
        cdef bytes records = compress(
            self.codec,
            PyBytes_FromStringAndSize(<const char *>self.data + HEADER_SIZE, size),
            self.level,
        )
        cdef bytes batch = PyBytes_FromStringAndSize(NULL, HEADER_SIZE + len(records))
        memcpy(PyBytes_AS_STRING(batch) + HEADER_SIZE, PyBytes_AS_STRING(records), len(records))
        return batch


cdef int get_optional(object data, Py_buffer *view) except -1:
    """Finds the bytes of ``data``. The length of ``None`` is -1."""
    if data is None:
        view.len = -1
        return 0
    return PyObject_GetBuffer(data, view, PyBUF_SIMPLE)


cdef void release_optional(Py_buffer *view) noexcept:
    if view.len >= 0:
        PyBuffer_Release(view)


cdef inline Py_ssize_t size_of_field(const Py_buffer *field) noexcept:
    return size_of_varint(<int32_t>min(field.len, INT32_MAX)) + max(field.len, 0)


cdef inline uint8_t *write_field(uint8_t *at, const Py_buffer *field) noexcept:
    at = write_varint(at, <int32_t>field.len)
    if field.len > 0:
        memcpy(at, field.buf, field.len)
        at += field.len
    return at


cdef bytes NO_HEADERS = b"\0"


cdef bytes encode_headers(object headers):
    """Writes the count and the headers."""
    if not headers:
        return NO_HEADERS
    cdef list pairs = list(headers)
    cdef list pieces = [encode_varint(len(pairs))]
    for key, value in pairs:
        name = key.encode()
        pieces += (encode_varint(len(name)), name)
        if value is None:
            pieces.append(encode_varint(-1))
        else:
            pieces += (encode_varint(len(value)), bytes(value))
    return b"".join(pieces)


cdef bytes encode_varint(int32_t value):
    cdef uint8_t[5] target
    return PyBytes_FromStringAndSize(<const char *>target, write_varint(target, value) - target)


def recompress(buffer, int codec, level=None, *, max_output=None):
    cdef Batch batch = read_header(buffer)
    cdef int old_codec = batch.attributes & CODEC_MASK
    octets = memoryview(buffer).cast("B")
    if batch.magic != 2 or batch.size > len(octets):
        raise CorruptBatch(f"{len(octets)} bytes are not a whole v2 batch: {batch!r}")
    records = octets[HEADER_SIZE:batch.size]
    if old_codec:
        records = inflate(old_codec, records, max_output)
    compressed = compress(codec, records, level)
    if len(records) > output_limit(len(compressed)):
        return bytes(octets[:batch.size])
    attributes = (batch.attributes & ~CODEC_MASK) | codec
    return join(octets[:HEADER_SIZE], compressed, attributes)


cdef bytes join(object header, object records, int16_t attributes):
    """Returns a batch that consists of the header, with new attributes, and the records."""
    cdef bytes batch = b"".join((header, records))
    cdef uint8_t *at = <uint8_t *>PyBytes_AS_STRING(batch)
    store_int32(at + LENGTH_AT, <int32_t>(len(batch) - LOG_OVERHEAD))
    store_int16(at + ATTRIBUTES_AT, attributes)
    store_crc(at, len(batch))
    return batch
