"""Columns of bytes by the Arrow C data interface, so that no Arrow library is needed here.

An array of a binary type has three buffers: validity (a bit a row, or none), offsets (rows + 1 of
int32, or int64 for the large types), and the bytes that they point into.
"""

from cpython.bytes cimport PyBytes_FromStringAndSize
from cpython.pycapsule cimport PyCapsule_GetPointer
from cython cimport final
from libc.stdint cimport int32_t, int64_t, uint8_t

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
        ArrowSchema *dictionary
    ctypedef struct ArrowArray "struct ArrowArray":
        int64_t length
        int64_t null_count
        int64_t offset
        int64_t n_buffers
        const void **buffers


@final
cdef class ArrowColumn:
    def __init__(self, array):
        schema_capsule, array_capsule = array.__arrow_c_array__()
        cdef ArrowSchema *schema = <ArrowSchema *>PyCapsule_GetPointer(
            schema_capsule, "arrow_schema"
        )
        cdef ArrowArray *content = <ArrowArray *>PyCapsule_GetPointer(array_capsule, "arrow_array")
        cdef bytes kind = schema.format
        if kind not in (b"z", b"Z", b"u", b"U") or schema.dictionary != NULL:
            raise TypeError(
                f"an Arrow array of format {kind.decode()!r}: binary or string is needed, cast it"
            )
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
        if self.is_large:
            begin = (<const int64_t *>self.offsets)[row]
            end = (<const int64_t *>self.offsets)[row + 1]
        else:
            begin = (<const int32_t *>self.offsets)[row]
            end = (<const int32_t *>self.offsets)[row + 1]
        at[0] = self.data + begin
        return end - begin

    def __len__(self):
        return self.rows

    def __getitem__(self, Py_ssize_t row):
        cdef const uint8_t *at
        if not 0 <= row < self.rows:
            raise IndexError(f"{row} of {self.rows} rows")
        cdef Py_ssize_t length = self.get(row, &at)
        return None if length < 0 else PyBytes_FromStringAndSize(<const char *>at, length)
