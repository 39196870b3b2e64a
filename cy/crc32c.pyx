# distutils: depends = cy/crc32c_simd.h
"""CRC-32C (Castagnoli), the checksum of record batches.

The algorithms are in ``crc32c_simd.h``. When this module is loaded, it picks the fastest one that the CPU can run. The
CRC of two pieces is the CRC of the second, continued from that of the first: ``crc32c(b, crc32c(a)) == crc32c(a + b)``.
"""

from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from libc.stdint cimport uint8_t, uint32_t

cdef extern from "crc32c_simd.h" nogil:
    ctypedef uint32_t (*crc32c_function)(uint32_t, const uint8_t *, size_t) noexcept
    ctypedef struct crc32c_implementation:
        const char *name
        crc32c_function update
    crc32c_implementation crc32c_available[5]
    int crc32c_available_count
    void crc32c_setup()

# Below this size, releasing the GIL costs more than the sum.
cdef enum:
    GIL_BYTES = 65536

crc32c_setup()
cdef crc32c_function fastest = crc32c_available[crc32c_available_count - 1].update

IMPLEMENTATIONS = tuple(crc32c_available[i].name.decode() for i in range(crc32c_available_count))


cdef uint32_t update(uint32_t value, const uint8_t *data, size_t length) noexcept nogil:
    return ~fastest(~value, data, length)


cdef uint32_t sum_buffer(crc32c_function function, object data, uint32_t value) except? 0:
    cdef Py_buffer view
    PyObject_GetBuffer(data, &view, PyBUF_SIMPLE)
    if view.len >= GIL_BYTES:
        with nogil:
            value = ~function(~value, <const uint8_t *>view.buf, view.len)
    else:
        value = ~function(~value, <const uint8_t *>view.buf, view.len)
    PyBuffer_Release(&view)
    return value


def crc32c(data, uint32_t value=0):
    return sum_buffer(fastest, data, value)


def crc32c_by(str implementation, data, uint32_t value=0):
    cdef int index = IMPLEMENTATIONS.index(implementation)
    return sum_buffer(crc32c_available[index].update, data, value)
