cimport cython

from cy.wire.buffer cimport Reader, Writer


cdef class WireType:
    cdef readonly Py_ssize_t min_size   # the least bytes of a value
    cdef bint nests                     # values contain other messages or lists
    cdef Py_ssize_t cost                # units of a value (Reader.spend), without its contents

    cdef object decode(self, Reader reader)
    cdef int encode(self, Writer writer, object value) except -1


cdef class Sized(WireType):
    cdef bint compact
    cdef bint nullable
    cdef int width                      # the size in bytes of a length that is not compact

    cdef int write_null(self, Writer writer) except -1


@cython.final
cdef class String(Sized):
    pass


@cython.final
cdef class EncodedArray:
    cdef WireType element
    cdef Writer writer                  # None after the last element
    cdef Py_ssize_t count
    cdef bytes elements

    cdef bytes finished(self)


@cython.final
cdef class Array(Sized):
    cdef WireType element

    cdef int encode_again(self, Writer writer, EncodedArray value) except -1
