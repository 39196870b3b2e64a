from cpython.object cimport PyObject

cdef enum:
    SPARES = 32


cdef class Blocks:
    cdef PyObject *spares[SPARES]
    cdef Py_ssize_t sizes[SPARES]
    cdef int count
    cdef Py_ssize_t kept                # size in bytes of all spare blocks
    cdef Py_ssize_t limit               # the limit of ``kept``

    cdef int spare(self, Py_ssize_t size, Py_ssize_t most) noexcept
    cdef PyObject *taken(self, int at) noexcept

    # Returns a block of ``size`` bytes, or a spare one of up to ``most`` bytes. ``found`` gets its size.
    cdef PyObject *take(self, Py_ssize_t size, Py_ssize_t most, Py_ssize_t *found) except NULL

    # Takes over a reference to a block of ``size`` bytes.
    cdef void give(self, PyObject *block, Py_ssize_t size) noexcept

    cdef void clear(self) noexcept
