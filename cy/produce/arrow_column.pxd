from libc.stdint cimport int64_t, uint8_t


cdef class BytesColumn:
    cdef readonly Py_ssize_t rows

    # The bytes of a row; -1 where it is null.
    cdef Py_ssize_t get(self, Py_ssize_t row, const uint8_t **at) noexcept nogil


cdef class ArrowColumn(BytesColumn):
    cdef object capsules                # own the memory
    cdef const uint8_t *validity        # a bit a row; NULL: all are valid
    cdef const void *offsets
    cdef const uint8_t *data
    cdef bint is_large                  # offsets are int64
    cdef Py_ssize_t first               # row 0 of the column in the buffers


# The headers of a row as they lie in its record; none where it has none.
cdef class HeaderColumn(BytesColumn):
    cdef bytearray block                # the headers of all rows, encoded
    cdef bytearray ends
    cdef const uint8_t *data
    cdef int64_t *offsets               # where those of a row begin
