"""A tuple as a column of bytes. Items that are bytes or None can be read without the GIL, because tuples and bytes
never change, and the tuple keeps its items.
"""

from cpython.object cimport PyObject
from cython cimport final
from libc.stdint cimport uint8_t

from cy.produce.arrow_column cimport BytesColumn

cdef extern from "Python.h" nogil:
    PyObject *item_of "PyTuple_GET_ITEM"(PyObject *items, Py_ssize_t at)
    PyObject *NONE "Py_None"
    bint is_bytes "PyBytes_CheckExact"(PyObject *item)
    Py_ssize_t size_of "PyBytes_GET_SIZE"(PyObject *item)
    const uint8_t *start_of "(const uint8_t *)PyBytes_AS_STRING"(PyObject *item)


@final
cdef class ItemColumn(BytesColumn):
    def __init__(self, tuple items not None, Py_ssize_t rows):
        self.items = items
        self.rows = min(rows, <Py_ssize_t>len(items))

    cdef Py_ssize_t get(self, Py_ssize_t row, const uint8_t **at) noexcept nogil:
        cdef PyObject *item = item_of(<PyObject *>self.items, row)
        at[0] = NULL
        if item == NONE:
            return -1
        if not is_bytes(item):
            return OTHER
        at[0] = start_of(item)
        return size_of(item)

    def __getitem__(self, Py_ssize_t row):
        return self.items[row]
