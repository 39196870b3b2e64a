from libc.stdint cimport int64_t


cdef class Pending:
    cdef readonly object api
    cdef readonly object message        # None after it was sent
    cdef readonly object on_done
    cdef readonly double deadline       # when it times out, seconds of the client's clock
    cdef readonly object max_version
    cdef readonly int version           # -1: not sent yet
    cdef readonly int correlation_id
    cdef public int64_t end             # the position in its connection's bytes at which its frame ends


cdef class Connection:
    cdef object client_id
    cdef int next_id
    cdef readonly object in_flight      # deque of Pending
    cdef readonly object departing      # requests without a response (acks=0), until they are sent
