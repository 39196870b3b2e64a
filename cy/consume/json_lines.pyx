"""Writes values that are JSON objects as lines, for readers of newline-delimited JSON.

Such a reader trusts its lines: a line with two documents counts as two rows, and one with none (``null``) may end the
process. So each value is checked: it must be one object, from its opening to its closing brace, with only white space
around it. The reader parses what is inside. Any other value becomes ``{}``, and unless it is null, its bit is set.
"""

from cpython.buffer cimport PyBUF_SIMPLE, PyBUF_WRITABLE, PyBuffer_Release, PyObject_GetBuffer
from libc.stdint cimport int32_t, int64_t, uint8_t
from libc.string cimport memset


cdef enum:
    TAB = 0x09
    NEW_LINE = 0x0a
    RETURN = 0x0d
    SPACE = 0x20
    QUOTE = 0x22
    OPEN_ARRAY = 0x5b
    BACKSLASH = 0x5c
    CLOSE_ARRAY = 0x5d
    OPEN_OBJECT = 0x7b
    CLOSE_OBJECT = 0x7d


cdef inline bint is_space(uint8_t byte) noexcept nogil:
    return byte == SPACE or byte == TAB or byte == NEW_LINE or byte == RETURN


cdef int64_t copy_object(const uint8_t *at, const uint8_t *end, uint8_t *to) noexcept nogil:
    """Copies an object, with line breaks as spaces. Returns its size in bytes, 0 if it is not one object."""
    cdef int64_t size = 0
    cdef int64_t depth = 0
    cdef bint in_string = False
    cdef bint is_over = False
    cdef uint8_t byte
    while at < end:
        byte = at[0]
        to[size] = SPACE if byte == NEW_LINE or byte == RETURN else byte
        size += 1
        at += 1
        if in_string:
            if byte == BACKSLASH and at < end:  # the next byte is not a quote
                to[size] = at[0]
                size += 1
                at += 1
            elif byte == QUOTE:
                in_string = False
        elif is_over or depth == 0:
            if byte == OPEN_OBJECT and not is_over:
                depth = 1
            elif not is_space(byte):
                return 0
        elif byte == QUOTE:
            in_string = True
        elif byte == OPEN_OBJECT or byte == OPEN_ARRAY:
            depth += 1
        elif byte == CLOSE_OBJECT or byte == CLOSE_ARRAY:
            depth -= 1
            is_over = depth == 0
    return size if is_over else 0


cdef int64_t join(
    int64_t rows, const uint8_t *validity, const int32_t *offsets, const uint8_t *data, uint8_t *lines,
    uint8_t *wrong,
) noexcept nogil:
    cdef int64_t row, size
    cdef int64_t total = 0
    cdef bint is_null
    for row in range(rows):
        is_null = validity != NULL and not validity[row >> 3] >> (row & 7) & 1
        size = 0 if is_null else copy_object(data + offsets[row], data + offsets[row + 1], lines + total)
        if size == 0:
            if not is_null:
                wrong[row >> 3] |= <uint8_t>(1 << (row & 7))
            lines[total] = OPEN_OBJECT
            lines[total + 1] = CLOSE_OBJECT
            size = 2
        lines[total + size] = NEW_LINE
        total += size + 1
    return total


cdef uint8_t *start_of(object buffer, int flags, Py_buffer *view) except? NULL:
    if buffer is None:
        return NULL
    PyObject_GetBuffer(buffer, view, flags)
    return <uint8_t *>view.buf


def join_objects(int64_t rows, validity, offsets not None, data not None, allocate=bytearray):
    cdef Py_buffer views[5]
    cdef int64_t total
    cdef int index
    cdef const uint8_t *valid_at
    cdef const int32_t *offsets_at
    cdef const uint8_t *data_at
    cdef uint8_t *lines_at
    cdef uint8_t *wrong_at
    memset(views, 0, sizeof(views))
    try:
        valid_at = start_of(validity, PyBUF_SIMPLE, &views[0])
        offsets_at = <const int32_t *>start_of(offsets, PyBUF_SIMPLE, &views[1])
        data_at = start_of(data, PyBUF_SIMPLE, &views[2])
        lines = allocate(max(<int64_t>1, offsets_at[rows] - offsets_at[0] + 3 * rows))
        wrong = allocate(rows // 8 + 1)
        lines_at = start_of(lines, PyBUF_WRITABLE, &views[3])
        wrong_at = start_of(wrong, PyBUF_WRITABLE, &views[4])
        with nogil:
            memset(wrong_at, 0, rows // 8 + 1)
            total = join(rows, valid_at, offsets_at, data_at, lines_at, wrong_at)
    finally:
        for index in range(5):
            PyBuffer_Release(&views[index])     # releasing an empty view does nothing
    return lines, total, wrong
