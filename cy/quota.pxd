from libc.stdint cimport int64_t


cdef class Rate:
    cdef readonly object windows
    cdef int64_t number                   # the number of past windows that count
    cdef int64_t size_ms                  # the size of each window
    cdef object samples                   # deque of past samples: start, time of the last record, sum
    cdef int64_t start_ms                 # start of the current sample, if there is one
    cdef int64_t last_ms                  # time of its last record
    cdef double sum                       # sum of the current sample
    cdef double total                     # sum of all samples

    cdef int count(self, double value, int64_t now_ms) except -1
    cdef int begin(self, int64_t now_ms) except -1
    cdef int forget(self, int64_t now_ms) except -1
    cdef int64_t measured(self, int64_t now_ms) except -1


cdef class Allowance(Rate):
    cdef object most_ms                   # the longest delay
    cdef double per_s                     # how much clients may use per second
    cdef readonly int64_t most_at_once


cdef class Share:
    cdef readonly Allowance produce
    cdef readonly Allowance fetch
    cdef readonly Allowance request
    cdef readonly object mutations
    cdef public bint is_current
