"""Batches of a partition that were never sent, and the partitions of a topic."""

from cython cimport final
from libc.stdint cimport int32_t

from cy.produce.producer_batch cimport ProducerBatch


@final
cdef class PartitionQueue:
    def __repr__(self):
        return f"PartitionQueue({self.topic}-{self.partition}, {self.waiting()} bytes)"

    @property
    def empty(self):
        return self.growing is None and not self.closed

    @property
    def waiting_bytes(self):
        return self.waiting()

    cdef Py_ssize_t waiting(self):
        cdef Py_ssize_t total = 0 if self.growing is None else self.growing.used
        cdef ProducerBatch batch
        for batch in self.closed:
            total += batch.used
        return total

    cdef int close(self) except -1:
        """Closes the growing batch: it takes no further records and waits to be sent."""
        if self.growing is not None:
            self.closed.append(self.grown())
            self.full = True
        return 0

    cdef ProducerBatch grown(self):
        """Removes the growing batch and returns it. The next batch starts with about as much room as this one
        needed."""
        cdef ProducerBatch batch = self.growing
        self.growing = None
        self.usual = batch.capacity if batch.used > batch.capacity // 2 else batch.capacity // 2
        return batch

    def first(self):
        """Returns the batch to send next, None if there is none."""
        return self.closed[0] if self.closed else self.growing

    def remove(self, ProducerBatch batch not None):
        """Removes a waiting batch. Raises ValueError if the batch is not in this queue."""
        if batch is self.growing:
            self.grown()
            if self.owner.sticky == self.partition:
                self.owner.previous = self.partition
                self.owner.sticky = -1
        else:
            self.closed.remove(batch)
        self.full = bool(self.closed)

    def batches(self):
        """Returns all waiting batches, oldest first."""
        return self.closed + ([] if self.growing is None else [self.growing])


@final
cdef class TopicQueues:
    def __init__(self, str name):
        self.name = name
        self.queues = []
        self.sticky = self.previous = -1

    def resize(self, int32_t count):
        """Sets the number of partitions. Queues of partitions that no longer exist stay, unused."""
        cdef PartitionQueue queue
        for partition in range(len(self.queues), count):
            queue = PartitionQueue.__new__(PartitionQueue)
            queue.topic = self.name
            queue.partition = partition
            queue.owner = self
            queue.closed = []
            queue.available = True
            self.queues.append(queue)
        self.count = count
        if self.sticky >= count:
            self.sticky = -1

    @property
    def partition_count(self):
        return self.count
