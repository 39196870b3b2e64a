from libc.stdint cimport int32_t, int64_t


cdef class RecordMetadata:
    cdef readonly str topic
    cdef readonly int32_t partition
    cdef readonly int64_t offset
    cdef readonly int64_t timestamp
