from libc.stdint cimport int64_t, uint8_t


cdef class BytesColumn:
    cdef readonly Py_ssize_t rows

    # Finds the bytes of a row. Returns their length, -1 if the row is null.
    cdef Py_ssize_t get(self, Py_ssize_t row, const uint8_t **at) noexcept nogil


cdef class ArrowColumn(BytesColumn):
    cdef object capsules                # they own the memory
    cdef const uint8_t *validity        # one bit per row; NULL: all are valid
    cdef const void *offsets
    cdef const uint8_t *data
    cdef bint is_large                  # offsets are int64
    cdef Py_ssize_t first               # the index of the column's row 0 in the buffers


# Finds the headers of a row in the form of a record. Returns their length, 0 if there are none.
cdef class HeaderColumn(BytesColumn):
    cdef bytearray block                # the headers of all rows, encoded
    cdef bytearray ends
    cdef const uint8_t *data
    cdef int64_t *offsets               # where the headers of each row begin
