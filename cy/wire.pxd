cimport cython
from cpython.object cimport PyObject, PyTypeObject
from libc.stdint cimport uint32_t

from cy.buffer cimport Reader, Writer


cdef class WireType:
    cdef readonly Py_ssize_t min_size   # no value takes fewer bytes

    cdef object decode(self, Reader reader)
    cdef int encode(self, Writer writer, object value) except -1


cdef struct Slot:
    Py_ssize_t offset       # of the pointer to the value within an instance
    PyObject *default       # the default itself, or what makes it
    PyObject *absent        # a value that means the same as the default on the wire, or NULL
    bint makes              # default is a type, called for every instance


@cython.final
cdef class Layout:
    cdef readonly tuple names           # of the fields, in the order of the schema
    cdef Py_ssize_t count
    cdef Slot *slots
    cdef PyTypeObject *type             # borrowed: the class owns the layout
    cdef list held                      # keeps the defaults alive

    cdef object fresh(self, Slot *slot)
    cdef Py_ssize_t index(self, str name) except -1


cdef struct Field:
    Slot slot
    PyObject *type          # WireType
    uint32_t tag


@cython.final
cdef class Plan(WireType):
    cdef readonly object message        # the class
    cdef Layout layout
    cdef bint flexible
    cdef Field *fields                  # in the order of the wire
    cdef Py_ssize_t count
    cdef Field *tagged                  # by ascending tag
    cdef Py_ssize_t tagged_count
    cdef Slot *unset                    # of fields that are tagged, or not in this version
    cdef Py_ssize_t unset_count
    cdef Field *forbidden               # of fields not in this version that may not be dropped
    cdef Py_ssize_t forbidden_count
    cdef list held

    cdef object decode_all(self, Reader reader)
    cdef int decode_tags(self, Reader reader, PyObject *message) except -1
    cdef int encode_tags(self, Writer writer, PyObject *message) except -1
    cdef int refuse_dropped(self, PyObject *message) except -1
    cdef object blame(self, Py_ssize_t index, object error)
