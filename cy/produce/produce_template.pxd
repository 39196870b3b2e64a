from cy.wire.codec cimport Codec


cdef class ProduceTemplate:
    cdef Codec codec
    cdef object message                 # the request, whose batch is PROBE
    cdef readonly bint silent           # the requests are not answered
    cdef bytes head                     # up to the size of the batch; None: not made yet
    cdef bytes tail                     # behind the batch
    cdef int version                    # of the frames that they are of
    cdef object client_id

    cdef int make(self, int version, client_id) except -1
    cdef bint is_flexible(self) noexcept


cdef class Cast:
    cdef ProduceTemplate template
    cdef bytes records

    cdef object frame(self, int version, int correlation_id, client_id)
