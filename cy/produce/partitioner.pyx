"""Chooses the partition of a record: the requested one, its key's, the next one by round robin, or the sticky one.

A key goes to murmur2(key) modulo partitions, as in Kafka. Records without a key stick to a partition for ``batch_size``
bytes or until its batch is sent. Then the next partition is drawn at random; one with fewer waiting batches is more
likely (KIP-794). More batches wait for a slow broker, so it gets fewer records.
"""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_GET_SIZE
from cpython.long cimport PyLong_CheckExact
from cython cimport final
from libc.stdint cimport int32_t, int64_t, uint8_t, uint64_t

from cy.produce.murmur2 cimport murmur2_of
from cy.produce.partition_queue cimport PartitionQueue, TopicQueues

import operator


cdef object whole(object partition):
    try:
        return operator.index(partition)
    except TypeError:
        raise TypeError(f"partition is {type(partition).__name__}, not int") from None


@final
cdef class Partitioner:
    def __init__(
        self, Py_ssize_t batch_size, bint round_robin, bint ignore_keys, bint adaptive,
        uint64_t seed,
    ):
        self.batch_size = batch_size
        self.round_robin = round_robin
        self.ignore_keys = ignore_keys
        self.adaptive = adaptive
        self.random = seed or 1

    cdef PartitionQueue choose(self, TopicQueues topic, object key, object partition):
        """Returns the queue for a record, None for an unknown partition."""
        cdef int32_t number = -1
        if partition is not None:
            number = partition if PyLong_CheckExact(partition) else whole(partition)
            if not 0 <= number < topic.count:
                return None
        elif key is not None:
            number = self.of_key(
                topic, <uint8_t *>PyBytes_AS_STRING(key), PyBytes_GET_SIZE(key)
            )
        if number < 0:
            if self.round_robin:
                number = self.next_in_turn(topic)
            else:
                if topic.sticky < 0:
                    topic.sticky = self.draw(topic)
                    topic.sticky_bytes = 0
                number = topic.sticky
        return <PartitionQueue>topic.queues[number]

    cdef int32_t of_key(self, TopicQueues topic, const uint8_t *key, Py_ssize_t size) noexcept:
        """Returns the key's partition, -1 if keys are ignored."""
        if self.ignore_keys or self.round_robin:
            return -1
        return (murmur2_of(key, <int>size) & 0x7FFFFFFF) % topic.count

    cdef int32_t next_in_turn(self, TopicQueues topic):
        """Returns the next available partition by round robin. If none is available, returns the next of all."""
        cdef int32_t number = 0
        for _ in range(topic.count):
            number = <int32_t>(topic.turn % topic.count)
            topic.turn += 1
            if (<PartitionQueue>topic.queues[number]).available:
                break
        return number

    cdef int32_t draw(self, TopicQueues topic) except -1:
        """Draws a partition at random, not the previous one if another one is available."""
        cdef PartitionQueue queue
        cdef int64_t ticket
        if topic.count == 1:
            return 0
        cdef list queues = topic.queues[:topic.count]
        cdef list able = [
            queue for queue in queues
            if queue.available and queue.partition != topic.previous
        ]
        if not able:
            able = [queue for queue in queues if queue.available] or queues
        unit = max(self.batch_size, 1)
        cdef list loads = [queue.waiting() // unit if self.adaptive else 0 for queue in able]
        most = max(loads) + 1
        total = most * len(able) - sum(loads)
        ticket = <int64_t>(self.next_random() % <uint64_t>total)
        cdef Py_ssize_t at = -1
        while ticket >= 0:
            at += 1
            ticket -= most - loads[at]
        queue = able[at]
        return queue.partition

    cdef uint64_t next_random(self) noexcept:
        """Returns the next random number (xorshift64*)."""
        self.random ^= self.random >> 12
        self.random ^= self.random << 25
        self.random ^= self.random >> 27
        return (self.random * <uint64_t>0x2545F4914F6CDD1DULL) >> 11

    cdef void unstick(self, TopicQueues topic) noexcept:
        """Ends the stickiness: the next record without a key goes to another partition, if there is one."""
        if topic.count > 1:
            topic.previous = topic.sticky
            topic.sticky = -1
