from libc.stdint cimport int32_t, int64_t


cdef class Reader:
    cdef readonly object function
    cdef readonly bint takes_topic
    cdef object failed

    cdef object read(self, str topic, int32_t partition, int64_t offset, bytes data)
    cdef int tell(self, str topic, int32_t partition, int64_t offset) except -1
