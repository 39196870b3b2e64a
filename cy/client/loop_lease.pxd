from cpython.pythread cimport PyThread_type_lock
from libc.stdint cimport int64_t


cdef class LoopLease:
    cdef public unsigned long tenant    # the thread that has the lease, 0: the loop's own
    cdef readonly unsigned long acting  # the same thread while it uses the lease
    cdef readonly int64_t uses          # how often the lease was used
    cdef public bint holds_signals      # while the lease is used: the tenant is the thread that runs signal handlers
    cdef bint holding
    cdef PyThread_type_lock inside
