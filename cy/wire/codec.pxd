cimport cython

from cy.wire.buffer cimport Writer
from cy.wire.plan cimport Plan


@cython.final
cdef class Codec:
    cdef readonly str name
    cdef readonly int key
    cdef readonly int min_version
    cdef readonly int max_version
    cdef int flexible_header            # the first version whose header has tagged fields
    cdef object compile
    cdef bint open                      # bytes after the end of a message are ignored
    cdef list plans                     # by version, None: not compiled yet

    cdef Plan known(self, int version)
    cdef object encode_response_with(self, Writer writer, int version, int correlation_id, message)
    cpdef encode_request(self, int version, int correlation_id, client_id, message)
    cpdef decode_response(
        self, int version, int correlation_id, view, Py_ssize_t position, Py_ssize_t end
    )
