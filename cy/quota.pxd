from libc.stdint cimport int64_t


cdef class Rate:
    cdef readonly object windows
    cdef int64_t number                   # of the windows that count as past
    cdef int64_t size_ms                  # of each
    cdef object samples                   # deque of all but the current one: start, last record, sum
    cdef int64_t start_ms                 # of the current sample, if there is one
    cdef int64_t last_ms                  # when it was last recorded in
    cdef double sum                       # of the current sample
    cdef double total                     # of all samples

    cdef int count(self, double value, int64_t now_ms) except -1
    cdef int begin(self, int64_t now_ms) except -1
    cdef int forget(self, int64_t now_ms) except -1
    cdef int64_t measured(self, int64_t now_ms) except -1


cdef class Allowance(Rate):
    cdef object most_ms                   # no delay is longer
    cdef double per_s                     # the bound
    cdef readonly int64_t most_at_once


cdef class Share:
    cdef readonly Allowance produce
    cdef readonly Allowance fetch
    cdef readonly Allowance request
    cdef readonly object mutations
    cdef public bint is_current
