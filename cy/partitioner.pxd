from libc.stdint cimport int32_t, uint8_t, uint64_t

from cy.partition_queue cimport PartitionQueue, TopicQueues


cdef class Partitioner:
    cdef bint round_robin
    cdef bint ignore_keys
    cdef bint adaptive
    cdef Py_ssize_t batch_size
    cdef uint64_t random                # state of the generator

    cdef PartitionQueue choose(self, TopicQueues topic, object key, object partition)
    cdef int32_t of_key(self, TopicQueues topic, const uint8_t *key, Py_ssize_t size) noexcept
    cdef int32_t next_in_turn(self, TopicQueues topic)
    cdef int32_t draw(self, TopicQueues topic) except -1
    cdef uint64_t next_random(self) noexcept
    cdef void stick(self, TopicQueues topic, Py_ssize_t size) noexcept
