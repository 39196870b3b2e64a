"""Reads the records of a v2 batch (grammar: ``cy.batch``), by pointers or as objects."""

from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from cpython.bytes cimport PyBytes_FromStringAndSize
from cpython.unicode cimport PyUnicode_DecodeUTF8
from cython cimport final, freelist
from libc.stdint cimport int32_t, int64_t, uint8_t

from cy.batch.header cimport CODEC_MASK, HEADER_SIZE, LOG_APPEND_TIME_FLAG, Batch
from cy.varint cimport read_varint, read_varlong

from cy.batch.header import InvalidBatch
from cy.batch.compression import CorruptData, OutputTooLarge, decompress, output_limit

cdef enum:
    MIN_RECORD_SIZE = 7         # length and the six fields of an empty record

cdef tuple REASONS = (
    "",
    "its length runs past the batch",
    "its timestamp or offset is cut or too long",
    "its key runs past the record",
    "its value runs past the record",
    "its header count is impossible",
    "a header runs past the record or has no key",
    "its length is not that of its fields",
    "its offset delta is not its place in the batch",
    "records do not end where the batch ends",
)


cdef inline bint take(
    const uint8_t **cursor, const uint8_t *end, int32_t *length, const uint8_t **data
) noexcept nogil:
    """Reads a length (-1: null) and that many bytes."""
    if not read_varint(cursor, end, length) or length[0] < -1 or length[0] > end - cursor[0]:
        return False
    data[0] = cursor[0]
    if length[0] > 0:
        cursor[0] += length[0]
    return True


cdef int skip_headers(const uint8_t **cursor, const uint8_t *end, int32_t count) noexcept nogil:
    cdef int32_t length
    cdef const uint8_t *data
    if count < 0 or count > (end - cursor[0]) // 2:
        return BAD_HEADER_COUNT
    while count:
        if not take(cursor, end, &length, &data) or length < 0:
            return BAD_HEADER
        if not take(cursor, end, &length, &data):
            return BAD_HEADER
        count -= 1
    return SOUND


cdef int parse_record(
    const uint8_t **cursor, const uint8_t *end, RecordView *record
) noexcept nogil:
    cdef int32_t length
    cdef int reason
    if not read_varint(cursor, end, &length):
        return BAD_LENGTH
    if length < MIN_RECORD_SIZE - 1 or length > end - cursor[0]:
        return BAD_LENGTH
    end = record.end = cursor[0] + length
    cursor[0] += 1
    if not read_varlong(cursor, end, &record.timestamp_delta):
        return BAD_FIELD
    if not read_varint(cursor, end, &record.offset_delta):
        return BAD_FIELD
    if not take(cursor, end, &record.key_length, &record.key):
        return BAD_KEY
    if not take(cursor, end, &record.value_length, &record.value):
        return BAD_VALUE
    if not read_varint(cursor, end, &record.header_count):
        return BAD_HEADER_COUNT
    record.headers = cursor[0]
    if record.header_count:
        reason = skip_headers(cursor, end, record.header_count)
        if reason:
            return reason
    return SOUND if cursor[0] == end else BAD_END


cdef int check_sizes(const uint8_t *at, const uint8_t *end, int32_t count, int64_t most) except -1:
    cdef int32_t length = 0
    if end - at <= most:
        return 0
    while count and read_varint(&at, end, &length):
        if length > most:
            raise InvalidBatch(
                f"Invalid record size: {length} exceeds the configured maximum record size of {most}."
            )
        if length < 0 or length > end - at:
            break
        at += length
        count -= 1
    return 0


cdef str reason_text(int reason):
    return REASONS[reason]


cdef object inflate(int codec, object compressed, object max_output):
    limit = output_limit(len(compressed)) if max_output is None else max_output
    try:
        return decompress(codec, compressed, limit)
    except (CorruptData, OutputTooLarge) as error:
        raise InvalidBatch(f"Records of the batch cannot be decompressed: {error}") from error


@final
@freelist(256)
cdef class Record:
    def __repr__(self):
        return (f"Record(offset={self.offset}, timestamp={self.timestamp}, key={self.key!r}, "
                f"value={self.value!r}, headers={self.headers!r})")


cdef inline object optional_bytes(const uint8_t *data, int32_t length):
    return None if length < 0 else PyBytes_FromStringAndSize(<const char *>data, length)


cdef list make_headers(const RecordView *record):
    cdef const uint8_t *cursor = record.headers
    cdef const uint8_t *data = NULL
    cdef int32_t length = 0
    cdef list headers = []
    for _ in range(record.header_count):
        take(&cursor, record.end, &length, &data)
        key = PyUnicode_DecodeUTF8(<const char *>data, length, "replace")
        take(&cursor, record.end, &length, &data)
        headers.append((key, optional_bytes(data, length)))
    return headers


cdef Record make_record(const RecordView *view, Batch batch):
    cdef Record record = Record.__new__(Record)
    record.offset = batch.base_offset + view.offset_delta
    if batch.attributes & LOG_APPEND_TIME_FLAG:
        record.timestamp = batch.max_timestamp
    else:
        record.timestamp = timestamp_of(batch.base_timestamp, view.timestamp_delta)
    record.key = optional_bytes(view.key, view.key_length)
    record.value = optional_bytes(view.value, view.value_length)
    record.headers = make_headers(view)
    return record


@final
cdef class RecordIterator:
    """The records of one v2 batch. Keeps the buffer in which they lie."""
    cdef Py_buffer view
    cdef const uint8_t *at
    cdef const uint8_t *end
    cdef Batch batch
    cdef int32_t index

    def __cinit__(self, Batch batch, records):
        PyObject_GetBuffer(records, &self.view, PyBUF_SIMPLE)
        self.batch = batch
        self.at = <const uint8_t *>self.view.buf
        self.end = self.at + self.view.len

    def __dealloc__(self):
        PyBuffer_Release(&self.view)

    def __iter__(self):
        return self

    def __next__(self):
        cdef RecordView record
        cdef int reason
        if self.index >= self.batch.count:
            if self.at != self.end:
                raise InvalidBatch(f"{self.batch!r}: {REASONS[BAD_COUNT]}")
            raise StopIteration
        reason = parse_record(&self.at, self.end, &record)
        if reason:
            self.index = self.batch.count
            self.at = self.end
            raise InvalidBatch(f"Record {self.index} of {self.batch!r}: {REASONS[reason]}")
        self.index += 1
        return make_record(&record, self.batch)


def find_since(whole, Batch batch not None, int64_t timestamp, int64_t offset, int64_t max_record):
    """Returns (timestamp, offset) of the first record that is not older and not before ``offset``, or None."""
    cdef Py_buffer view
    cdef const uint8_t *at
    cdef const uint8_t *end
    cdef RecordView record
    cdef int64_t found = -1
    cdef int reason
    cdef int32_t index
    cdef bint is_compressed = batch.attributes & CODEC_MASK != 0
    records = whole[HEADER_SIZE:]
    if is_compressed:
        records = inflate(batch.attributes & CODEC_MASK, records, None)
    PyObject_GetBuffer(records, &view, PyBUF_SIMPLE)
    at = <const uint8_t *>view.buf
    end = at + view.len
    try:
        for index in range(batch.count):
            if is_compressed:
                check_sizes(at, end, 1, max_record)
            reason = parse_record(&at, end, &record)
            if reason:
                raise InvalidBatch(f"Record {index} of {batch!r}: {REASONS[reason]}")
            if batch.base_offset + record.offset_delta < offset:
                continue
            if batch.attributes & LOG_APPEND_TIME_FLAG:
                found = batch.max_timestamp
            else:
                found = timestamp_of(batch.base_timestamp, record.timestamp_delta)
            if found >= timestamp:
                return found, batch.base_offset + record.offset_delta
    finally:
        PyBuffer_Release(&view)
    return None


def records_of(whole, Batch batch not None, max_output):
    """Returns the records of one v2 batch, whose bytes are ``whole``."""
    records = whole[HEADER_SIZE:]
    if batch.attributes & CODEC_MASK:
        records = inflate(batch.attributes & CODEC_MASK, records, max_output)
    return RecordIterator(batch, records)
