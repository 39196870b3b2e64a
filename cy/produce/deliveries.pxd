from libc.stdint cimport int32_t, int64_t

from cy.produce.producer_batch cimport ProducerBatch


cdef class Deliveries:
    cdef list batches
    cdef object where_block             # numbers of batches, int32 each
    cdef object index_block             # indexes in them
    cdef int32_t *where
    cdef int32_t *index
    cdef Py_ssize_t size
    cdef Py_ssize_t filled
    cdef int64_t timestamp
    cdef list kept                      # reports that were made one by one, else None

    cdef int note(self, ProducerBatch batch, int32_t first, Py_ssize_t count) except -1
