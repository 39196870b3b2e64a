from libc.stdint cimport int32_t, uint64_t

from cy.produce.producer_batch cimport ProducerBatch


cdef class PartitionQueue:
    cdef readonly str topic
    cdef readonly int32_t partition
    cdef TopicQueues owner
    cdef ProducerBatch growing          # the growing batch, or None
    cdef list closed                    # closed batches, oldest first
    cdef Py_ssize_t usual               # the room that the last batch needed, in bytes
    cdef readonly bint full             # True if a batch is worth sending now
    cdef public bint available          # may be chosen for records without a key
    cdef bint listed                    # already in ``SharedQueues.news``

    cdef Py_ssize_t waiting(self)
    cdef int close(self) except -1
    cdef ProducerBatch grown(self)


cdef class TopicQueues:
    cdef readonly str name
    cdef readonly list queues           # by partition
    cdef int32_t count
    cdef int32_t sticky                 # the partition of records without a key; -1: choose one
    cdef int32_t previous               # the partition before that one
    cdef Py_ssize_t sticky_bytes        # bytes that went to the current partition
    cdef uint64_t turn                  # of round robin
