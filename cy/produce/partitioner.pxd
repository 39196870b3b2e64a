from libc.stdint cimport int32_t, uint8_t, uint64_t

from cy.produce.partition_queue cimport PartitionQueue, TopicQueues


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
    cdef void unstick(self, TopicQueues topic) noexcept


# Does what ``Partitioner.choose`` does, without a call if records stick to a partition.
cdef inline PartitionQueue queue_for(
    Partitioner partitioner, TopicQueues topic, object key, object partition
):
    if topic.sticky >= 0 and key is None and partition is None:
        return <PartitionQueue>topic.queues[topic.sticky]
    return partitioner.choose(topic, key, partition)


# Counts bytes that went to a partition. After a batch of them, records stick to another one.
cdef inline void stick(
    Partitioner partitioner, TopicQueues topic, PartitionQueue queue, Py_ssize_t size
) noexcept:
    if queue.partition == topic.sticky:
        topic.sticky_bytes += size
        if topic.sticky_bytes >= partitioner.batch_size:
            partitioner.unstick(topic)
