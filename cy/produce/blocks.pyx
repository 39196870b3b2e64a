"""Memory for batches, reused after a batch is finished.

A block is a ``bytes`` object that no other code sees while it is written. The kernel clears fresh memory page by page,
which takes longer than writing a batch into it. So the block of a finished batch becomes a spare one, unless it is
still being read.

Spares are limited, and ``buffer.memory`` does not count them. They are freed some time after the last batch.
"""

from cpython.object cimport PyObject
from cython cimport final

cdef extern from "Python.h":
    PyObject *new_block "PyBytes_FromStringAndSize"(const char *data, Py_ssize_t size) except NULL
    Py_ssize_t references "Py_REFCNT"(PyObject *block)
    void set_size "Py_SET_SIZE"(void *block, Py_ssize_t size)
    void drop "Py_DECREF"(PyObject *block)


@final
cdef class Blocks:
    def __init__(self, Py_ssize_t limit):
        self.limit = limit

    def __dealloc__(self):
        self.clear()

    cdef PyObject *take(self, Py_ssize_t size, Py_ssize_t most, Py_ssize_t *found) except NULL:
        cdef int at = self.spare(size, most)
        cdef Py_ssize_t capacity = size if at < 0 else self.sizes[at]
        cdef PyObject *block = new_block(NULL, size) if at < 0 else self.taken(at)
        found[0] = capacity
        return block

    cdef int spare(self, Py_ssize_t size, Py_ssize_t most) noexcept:
        """Returns the index of the newest spare block of that size, -1 if there is none."""
        cdef int at = self.count - 1
        while at >= 0 and not size <= self.sizes[at] <= most:
            at -= 1
        return at

    cdef PyObject *taken(self, int at) noexcept:
        cdef PyObject *block = self.spares[at]
        self.kept -= self.sizes[at]
        set_size(block, self.sizes[at])
        self.count -= 1
        for at in range(at, self.count):
            self.spares[at] = self.spares[at + 1]
            self.sizes[at] = self.sizes[at + 1]
        return block

    cdef void give(self, PyObject *block, Py_ssize_t size) noexcept:
        if references(block) > 1 or self.count == SPARES or self.kept + size > self.limit:
            drop(block)
            return
        self.spares[self.count] = block
        self.sizes[self.count] = size
        self.count += 1
        self.kept += size

    cdef void clear(self) noexcept:
        while self.count:
            self.count -= 1
            drop(self.spares[self.count])
        self.kept = 0
