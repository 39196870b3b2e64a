from libc.stdint cimport int64_t


cdef class Pending:
    cdef readonly object api
    cdef readonly object message        # None once it was sent
    cdef readonly object on_done
    cdef readonly double deadline       # when it counts as lost, seconds of the client's clock
    cdef readonly object max_version
    cdef readonly int version           # -1: not sent yet
    cdef readonly int correlation_id
    cdef public int64_t end             # the bytes of its connection up to where its frame ends


cdef class Connection:
    cdef object client_id
    cdef int next_id
    cdef readonly object in_flight      # deque of Pending
    cdef readonly object departing      # those without a response (acks=0), until they have left
