from libc.stdint cimport int32_t, int64_t

from cy.produce.producer_batch cimport ProducerBatch


cdef class Deliveries:
    cdef list batches
    cdef object where_block             # for each record the number of its batch, int32
    cdef object index_block             # for each record its index in the batch, int32
    cdef int32_t *where
    cdef int32_t *index
    cdef Py_ssize_t size
    cdef Py_ssize_t filled
    cdef int64_t timestamp
    cdef list kept                      # reports that were made one by one, otherwise None

    cdef int note(self, ProducerBatch batch, int32_t first, Py_ssize_t count) except -1
