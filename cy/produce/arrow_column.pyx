"""Reads columns of bytes, and of headers, by the Arrow C data interface. So it needs no Arrow library.

An array of a binary type has three buffers. Validity has one bit per row, or is missing. Offsets are rows + 1 numbers:
int32, or int64 for the large types. The last buffer has the bytes to which the offsets point. Headers are a list
(offsets as well) of structs of name and value, whose children are such arrays. They are encoded once, for all rows, in
the form of a record (``record_headers``).
"""

from cpython.bytearray cimport PyByteArray_AS_STRING
from cpython.bytes cimport PyBytes_FromStringAndSize
from cpython.pycapsule cimport PyCapsule_GetPointer
from cython cimport final
from libc.stdint cimport int32_t, int64_t, uint8_t
from libc.string cimport memcpy

from cy.varint cimport write_varint

cdef extern from *:
    """
    struct ArrowSchema {
        const char *format; const char *name; const char *metadata; int64_t flags;
        int64_t n_children; struct ArrowSchema **children; struct ArrowSchema *dictionary;
        void (*release)(struct ArrowSchema *); void *private_data;
    };
    struct ArrowArray {
        int64_t length; int64_t null_count; int64_t offset; int64_t n_buffers; int64_t n_children;
        const void **buffers; struct ArrowArray **children; struct ArrowArray *dictionary;
        void (*release)(struct ArrowArray *); void *private_data;
    };
    """
    ctypedef struct ArrowSchema "struct ArrowSchema":
        const char *format
        ArrowSchema **children
        int64_t n_children
        ArrowSchema *dictionary
    ctypedef struct ArrowArray "struct ArrowArray":
        int64_t length
        int64_t null_count
        int64_t offset
        int64_t n_buffers
        const void **buffers
        ArrowArray **children


cdef inline bint is_valid(const ArrowArray *array, int64_t row) noexcept nogil:
    cdef const uint8_t *validity = <const uint8_t *>array.buffers[0]
    row += array.offset
    return array.null_count == 0 or validity == NULL or validity[row >> 3] >> (row & 7) & 1


cdef inline int64_t offset_at(const void *offsets, int64_t row, bint is_large) noexcept nogil:
    return (<const int64_t *>offsets)[row] if is_large else (<const int32_t *>offsets)[row]


cdef bytes kind_of(ArrowSchema *schema, tuple kinds, str wanted):
    """Returns the Arrow format. Raises TypeError if it is not one of ``kinds``."""
    cdef bytes kind = schema.format
    if kind not in kinds or schema.dictionary != NULL:
        raise TypeError(f"an Arrow array of format {kind.decode()!r}: {wanted} is needed, cast it")
    return kind


cdef tuple TEXT = (b"z", b"Z", b"u", b"U")
cdef enum:
    VARINT = 5
cdef str HEADERS = "a list of structs of name and value"


cdef class BytesColumn:
    cdef Py_ssize_t get(self, Py_ssize_t row, const uint8_t **at) noexcept nogil:
        at[0] = NULL
        return -1

    def __len__(self):
        return self.rows

    def __getitem__(self, Py_ssize_t row):
        cdef const uint8_t *at
        if not 0 <= row < self.rows:
            raise IndexError(f"{row} of {self.rows} rows")
        cdef Py_ssize_t length = self.get(row, &at)
        return None if length < 0 else PyBytes_FromStringAndSize(<const char *>at, length)


@final
cdef class ArrowColumn(BytesColumn):
    def __init__(self, array):
        schema_capsule, array_capsule = array.__arrow_c_array__()
        cdef ArrowSchema *schema = <ArrowSchema *>PyCapsule_GetPointer(
            schema_capsule, "arrow_schema"
        )
        cdef ArrowArray *content = <ArrowArray *>PyCapsule_GetPointer(array_capsule, "arrow_array")
        cdef bytes kind = kind_of(schema, TEXT, "binary or string")
        self.capsules = schema_capsule, array_capsule
        self.is_large = kind in (b"Z", b"U")
        self.rows = content.length
        self.first = content.offset
        self.validity = NULL if content.null_count == 0 else <const uint8_t *>content.buffers[0]
        self.offsets = content.buffers[1]
        self.data = <const uint8_t *>content.buffers[2]

    cdef Py_ssize_t get(self, Py_ssize_t row, const uint8_t **at) noexcept nogil:
        cdef int64_t begin, end
        row += self.first
        if self.validity != NULL and not self.validity[row >> 3] >> (row & 7) & 1:
            at[0] = NULL
            return -1
        begin = offset_at(self.offsets, row, self.is_large)
        end = offset_at(self.offsets, row + 1, self.is_large)
        at[0] = self.data + begin
        return end - begin


cdef struct Leaf:
    const ArrowArray *array
    bint is_large


cdef inline int64_t leaf_at(const Leaf *leaf, int64_t row, const uint8_t **at) noexcept nogil:
    """Returns the length of a value, -1 if it is null."""
    if not is_valid(leaf.array, row):
        return -1
    row += leaf.array.offset
    cdef int64_t begin = offset_at(leaf.array.buffers[1], row, leaf.is_large)
    at[0] = <const uint8_t *>leaf.array.buffers[2] + begin
    return offset_at(leaf.array.buffers[1], row + 1, leaf.is_large) - begin


cdef inline uint8_t *put(uint8_t *to, const uint8_t *data, int64_t length) noexcept nogil:
    to = write_varint(to, <int32_t>length)
    if length > 0:
        memcpy(to, data, length)
        to += length
    return to


cdef struct Lists:
    const ArrowArray *lists
    const ArrowArray *pairs
    Leaf names
    Leaf values
    bint is_large


cdef inline bint bounds(const Lists *given, int64_t row, int64_t *at, int64_t *end) noexcept nogil:
    """Finds the pairs of a row. Returns False if there are none."""
    if not is_valid(given.lists, row):
        return False
    row += given.lists.offset
    at[0] = offset_at(given.lists.buffers[1], row, given.is_large)
    end[0] = offset_at(given.lists.buffers[1], row + 1, given.is_large)
    return at[0] < end[0]


cdef int64_t most_of(const Lists *given) except -1:
    """Returns how many bytes all headers take at most. Raises ValueError if a name is null."""
    cdef int64_t row, size, at = 0, end = 0, most = 0
    cdef const uint8_t *data
    for row in range(given.lists.length):
        if not bounds(given, row, &at, &end):
            continue
        most += VARINT
        while at < end:
            size = leaf_at(&given.names, at + given.pairs.offset, &data)
            if size < 0 or not is_valid(given.pairs, at):
                raise ValueError(f"row {row}: a header has no name")
            size += max(leaf_at(&given.values, at + given.pairs.offset, &data), 0)
            most += size + 2 * VARINT
            at += 1
    return most


cdef void encode(const Lists *given, uint8_t *begin, int64_t *offsets) noexcept nogil:
    cdef int64_t row, size, at = 0, end = 0
    cdef const uint8_t *data = NULL
    cdef uint8_t *to = begin
    for row in range(given.lists.length):
        offsets[row] = to - begin
        if not bounds(given, row, &at, &end):
            continue
        to = write_varint(to, <int32_t>(end - at))
        while at < end:
            size = leaf_at(&given.names, at + given.pairs.offset, &data)
            to = put(to, data, size)
            size = leaf_at(&given.values, at + given.pairs.offset, &data)
            to = put(to, data, size)
            at += 1
    offsets[given.lists.length] = to - begin


@final
cdef class HeaderColumn(BytesColumn):
    def __init__(self, array):
        schema_capsule, array_capsule = array.__arrow_c_array__()
        cdef ArrowSchema *schema = <ArrowSchema *>PyCapsule_GetPointer(schema_capsule, "arrow_schema")
        cdef ArrowArray *lists = <ArrowArray *>PyCapsule_GetPointer(array_capsule, "arrow_array")
        cdef bint is_large = kind_of(schema, (b"+l", b"+L"), HEADERS) == b"+L"
        cdef ArrowSchema *pair = schema.children[0]
        kind_of(pair, (b"+s",), HEADERS)
        if pair.n_children != 2:
            raise TypeError(f"headers of {pair.n_children} fields: {HEADERS} is needed")
        cdef Leaf names, values
        cdef ArrowArray *pairs = lists.children[0]
        names.array = pairs.children[0]
        names.is_large = kind_of(pair.children[0], TEXT, "binary or string") in (b"Z", b"U")
        values.array = pairs.children[1]
        values.is_large = kind_of(pair.children[1], TEXT, "binary or string") in (b"Z", b"U")
        self.rows = lists.length
        cdef Lists given
        given.lists, given.pairs, given.is_large = lists, pairs, is_large
        given.names, given.values = names, values
        self.block = bytearray(most_of(&given))
        self.ends = bytearray(8 * (self.rows + 1))
        self.data = <const uint8_t *>PyByteArray_AS_STRING(self.block)
        self.offsets = <int64_t *>PyByteArray_AS_STRING(self.ends)
        encode(&given, <uint8_t *>self.data, self.offsets)

    cdef Py_ssize_t get(self, Py_ssize_t row, const uint8_t **at) noexcept nogil:
        at[0] = self.data + self.offsets[row]
        return self.offsets[row + 1] - self.offsets[row]
