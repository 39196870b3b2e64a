"""Turns consumed records, the entries of chunks, into buffers of Arrow arrays (its columnar format).

There are three passes over the entries of each chunk, and none makes a Python object. They count the bytes, fill the
fixed columns, keys and values, and fill the headers if there are any. An unwanted column has no buffer, and its pointer
is NULL.
"""

from cpython.buffer cimport PyBUF_WRITABLE, PyBuffer_Release, PyObject_GetBuffer
from cpython.bytes cimport PyBytes_AS_STRING
from cpython.unicode cimport PyUnicode_AsUTF8String
from libc.stdint cimport INT64_MAX, int32_t, int64_t, uint8_t
from libc.string cimport memcpy, memset

from cy.consume.fetched cimport Chunk, Entry
from cy.varint cimport read_varint

from collections import namedtuple

Strings = namedtuple("Strings", "rows validity offsets data")
Columns = namedtuple(
    "Columns",
    "rows topic partition offset timestamp timestamp_type key value header_offsets header_key header_value",
)
NAMES = frozenset(("topic", "partition", "offset", "timestamp", "timestamp_type", "key", "value", "headers"))

cdef enum:
    LARGEST = 0x7FFFFFFF


cdef struct Sizes:
    int64_t count
    int64_t topic
    int64_t key
    int64_t value
    int64_t headers             # size in bytes of all headers in their records' form
    int64_t header_count
    bint has_null_key
    bint has_null_value


# Where to write the next value of a column of bytes.
cdef struct Tail:
    uint8_t *validity           # NULL: no nulls
    int32_t *offsets            # NULL: not wanted
    uint8_t *data
    int64_t index
    int32_t size


cdef void measure(Chunk chunk, int64_t topic_size, Sizes *sizes) noexcept nogil:
    cdef int32_t index
    cdef const Entry *entry
    for index in range(chunk.count):
        entry = &chunk.entries[index]
        sizes.key += max(entry.key_length, 0)
        sizes.value += max(entry.value_length, 0)
        sizes.has_null_key |= entry.key_length < 0
        sizes.has_null_value |= entry.value_length < 0
        if entry.header_count:
            sizes.headers += entry.headers_size
            sizes.header_count += entry.header_count
    sizes.count += chunk.count
    sizes.topic += topic_size * chunk.count


cdef inline void put(Tail *tail, const uint8_t *data, int32_t length) noexcept nogil:
    if tail.offsets == NULL:
        return
    tail.offsets[tail.index] = tail.size
    if length > 0:
        memcpy(tail.data + tail.size, data, length)
        tail.size += length
    if tail.validity != NULL and length >= 0:
        tail.validity[tail.index >> 3] |= <uint8_t>(1 << (tail.index & 7))
    tail.index += 1


cdef void put_headers(const Entry *entry, Tail *keys, Tail *values) noexcept nogil:
    cdef const uint8_t *at = entry.headers
    cdef const uint8_t *end = at + entry.headers_size
    cdef int32_t length = 0
    for _ in range(entry.header_count):
        read_varint(&at, end, &length)
        put(keys, at, length)
        at += length
        read_varint(&at, end, &length)
        put(values, at, length)
        at += max(length, 0)


cdef void *place_of(object buffer) except NULL:
    """Returns the address of a new buffer. It stays valid, because no other code can reach the buffer."""
    cdef Py_buffer view
    PyObject_GetBuffer(buffer, &view, PyBUF_WRITABLE)
    cdef void *at = view.buf
    PyBuffer_Release(&view)
    return at


cdef class Column:
    """A column of bytes while it is filled. An unwanted column has no bytes."""
    cdef object validity
    cdef object offsets
    cdef object data
    cdef Tail tail

    def __cinit__(self, bint is_wanted, int64_t count, int64_t size, bint has_nulls, allocate):
        if not is_wanted:
            return
        if size > LARGEST:
            raise OverflowError(f"{size} bytes are too many for one column")
        self.offsets = allocate((count + 1) * 4)
        self.data = allocate(max(1, size))
        self.tail.offsets = <int32_t *>place_of(self.offsets)
        self.tail.data = <uint8_t *>place_of(self.data)
        if has_nulls:
            self.validity = allocate(count // 8 + 1)
            self.tail.validity = <uint8_t *>place_of(self.validity)
            memset(self.tail.validity, 0, (count + 7) // 8)

    cdef object finish(self):
        if self.tail.offsets == NULL:
            return None
        self.tail.offsets[self.tail.index] = self.tail.size
        return Strings(self.tail.index, self.validity, self.offsets, self.data)


# Where to write the fixed columns; NULL: not wanted.
cdef struct Fixed:
    int32_t *partition
    int64_t *offset
    int64_t *timestamp
    int32_t *timestamp_type
    int32_t *header_offsets
    int64_t per_ms


cdef inline int64_t in_unit(int64_t ms, int64_t per_ms) noexcept nogil:
    """Converts a time to another unit. A time that does not fit becomes the greatest or least one that does."""
    if ms > INT64_MAX // per_ms:
        return INT64_MAX
    if ms < -INT64_MAX // per_ms:
        return -INT64_MAX
    return ms * per_ms


cdef void fill_fixed(Chunk chunk, int64_t index, const Fixed *fixed) noexcept nogil:
    cdef int32_t place
    cdef const Entry *entry
    for place in range(chunk.count):
        entry = &chunk.entries[place]
        if fixed.partition != NULL:
            fixed.partition[index] = chunk.partition
        if fixed.offset != NULL:
            fixed.offset[index] = entry.offset
        if fixed.timestamp != NULL:
            fixed.timestamp[index] = in_unit(entry.timestamp, fixed.per_ms)
        if fixed.timestamp_type != NULL:
            fixed.timestamp_type[index] = entry.is_append_time
        index += 1


cdef void fill(
    Chunk chunk, const uint8_t *name, int32_t name_size, Tail *topic, Tail *key, Tail *value,
) noexcept nogil:
    cdef int32_t place
    cdef const Entry *entry
    for place in range(chunk.count):
        entry = &chunk.entries[place]
        put(topic, name, name_size)
        put(key, entry.key, entry.key_length)
        put(value, entry.value, entry.value_length)


cdef void fill_headers(
    Chunk chunk, int64_t index, int32_t *offsets, Tail *keys, Tail *values
) noexcept nogil:
    cdef int32_t place
    for place in range(chunk.count):
        offsets[index] = <int32_t>keys.index
        put_headers(&chunk.entries[place], keys, values)
        index += 1


cdef Sizes sizes_of(list chunks) except *:
    cdef Sizes sizes
    cdef Chunk chunk
    memset(&sizes, 0, sizeof(Sizes))
    for chunk in chunks:
        measure(chunk, len(PyUnicode_AsUTF8String(chunk.topic)), &sizes)
    return sizes


def columns(list chunks not None, allocate=bytearray, wanted=NAMES, int64_t per_ms=1):
    cdef Chunk chunk
    cdef Sizes sizes = sizes_of(chunks)
    cdef Fixed fixed
    cdef int64_t index = 0
    cdef bytes name
    cdef const uint8_t *name_at
    cdef int32_t name_size
    cdef bint has_headers = "headers" in wanted
    memset(&fixed, 0, sizeof(Fixed))
    fixed.per_ms = per_ms
    partition = offset = timestamp = timestamp_type = header_offsets = None
    if "partition" in wanted:
        partition = allocate(sizes.count * 4 + 4)
        fixed.partition = <int32_t *>place_of(partition)
    if "offset" in wanted:
        offset = allocate(sizes.count * 8 + 8)
        fixed.offset = <int64_t *>place_of(offset)
    if "timestamp" in wanted:
        timestamp = allocate(sizes.count * 8 + 8)
        fixed.timestamp = <int64_t *>place_of(timestamp)
    if "timestamp_type" in wanted:
        timestamp_type = allocate(sizes.count * 4 + 4)
        fixed.timestamp_type = <int32_t *>place_of(timestamp_type)
    if has_headers:
        header_offsets = allocate(sizes.count * 4 + 4)
        fixed.header_offsets = <int32_t *>place_of(header_offsets)
    topic = Column("topic" in wanted, sizes.count, sizes.topic, False, allocate)
    key = Column("key" in wanted, sizes.count, sizes.key, sizes.has_null_key, allocate)
    value = Column("value" in wanted, sizes.count, sizes.value, sizes.has_null_value, allocate)
    header_key = Column(has_headers, sizes.header_count, sizes.headers, False, allocate)
    header_value = Column(has_headers, sizes.header_count, sizes.headers, True, allocate)
    cdef Tail *topic_tail = &(<Column>topic).tail
    cdef Tail *key_tail = &(<Column>key).tail
    cdef Tail *value_tail = &(<Column>value).tail
    cdef Tail *header_key_tail = &(<Column>header_key).tail
    cdef Tail *header_value_tail = &(<Column>header_value).tail
    for chunk in chunks:
        name = PyUnicode_AsUTF8String(chunk.topic)
        name_at = <const uint8_t *>PyBytes_AS_STRING(name)
        name_size = <int32_t>len(name)
        with nogil:
            fill_fixed(chunk, index, &fixed)
            fill(chunk, name_at, name_size, topic_tail, key_tail, value_tail)
            if sizes.header_count and has_headers:
                fill_headers(chunk, index, fixed.header_offsets, header_key_tail, header_value_tail)
        index += chunk.count
    if has_headers:
        if not sizes.header_count:
            memset(fixed.header_offsets, 0, (sizes.count + 1) * 4)
        fixed.header_offsets[sizes.count] = <int32_t>header_key_tail.index
    return Columns(
        sizes.count, (<Column>topic).finish(), partition, offset, timestamp, timestamp_type,
        (<Column>key).finish(), (<Column>value).finish(), header_offsets, (<Column>header_key).finish(),
        (<Column>header_value).finish(),
    )
