cimport cython
from cpython.object cimport PyObject
from libc.stdint cimport uint32_t

from cy.wire.buffer cimport Reader, Writer
from cy.wire.messages cimport Layout, Slot
from cy.wire.wire_types cimport WireType


cdef struct Field:
    Slot slot
    PyObject *type          # WireType
    uint32_t tag


@cython.final
cdef class Plan(WireType):
    cdef readonly object message        # the message class
    cdef Layout layout
    cdef bint flexible
    cdef bint leaf                      # instances cannot be part of a reference cycle
    cdef Field *fields                  # in the order of the wire
    cdef Py_ssize_t count
    cdef Field *tagged                  # by ascending tag
    cdef Py_ssize_t tagged_count
    cdef Slot *unset                    # fields that are tagged, or not in this version
    cdef Py_ssize_t unset_count
    cdef Field *forbidden               # fields that are not in this version and may not be dropped
    cdef Py_ssize_t forbidden_count
    cdef list held

    cdef WireType element(self, str name)
    cdef object decode_all(self, Reader reader)
    cdef int decode_tags(self, Reader reader, PyObject *message) except -1
    cdef int encode_tags(self, Writer writer, PyObject *message) except -1
    cdef int refuse_dropped(self, PyObject *message) except -1
    cdef object blame(self, Py_ssize_t index, object error)
