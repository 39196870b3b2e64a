from cpython.pythread cimport PyThread_type_lock
from libc.stdint cimport int64_t


cdef class LoopLease:
    cdef public unsigned long tenant    # the thread that has it, 0: the loop's own
    cdef readonly unsigned long acting  # the same thread while it uses it
    cdef readonly int64_t uses          # how often it was used
    cdef public bint holds_signals      # while it is used: the tenant is where their handlers run
    cdef bint holding
    cdef PyThread_type_lock inside
