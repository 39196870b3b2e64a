from cy.wire.codec cimport Codec


cdef class ProduceTemplate:
    cdef Codec codec
    cdef object message                 # the request, whose batch is PROBE
    cdef readonly bint silent           # the requests get no response
    cdef bytes head                     # the bytes before the size of the batch; None: not made yet
    cdef bytes tail                     # the bytes after the batch
    cdef int version                    # the version of these frames
    cdef object client_id

    cdef int make(self, int version, client_id) except -1
    cdef bint is_flexible(self) noexcept


cdef class Cast:
    cdef ProduceTemplate template
    cdef bytes records

    cdef object frame(self, int version, int correlation_id, client_id)
