"""Batches of a partition that wait for the sender, and the partitions of a topic."""

from cython cimport final
from libc.stdint cimport int32_t

from cy.producer_batch cimport ProducerBatch


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
        """The growing batch waits from now on as it is."""
        if self.growing is not None:
            self.closed.append(self.grown())
            self.full = True
        return 0

    cdef ProducerBatch grown(self):
        """What grows, which it does no more; the next one begins with as much room as it needed."""
        cdef ProducerBatch batch = self.growing
        self.growing = None
        self.usual = batch.capacity if batch.used > batch.capacity // 2 else batch.capacity // 2
        return batch

    def first(self):
        """The batch that is next to be sent, None if there is none."""
        return self.closed[0] if self.closed else self.growing

    def take(self):
        """Removes the batch that is next to be sent, and returns it."""
        cdef ProducerBatch batch
        if self.closed:
            batch = self.closed.pop(0)
        else:
            batch = self.grown()
            if self.owner.sticky == self.partition:
                self.owner.previous = self.partition
                self.owner.sticky = -1
        self.full = bool(self.closed)
        return batch

    def put_back(self, ProducerBatch batch not None):
        """A batch is to be sent again: before those that were first sent later, or never."""
        cdef ProducerBatch other
        cdef Py_ssize_t at = 0
        for other in self.closed:
            if other.order == 0 or other.order > batch.order:
                break
            at += 1
        self.closed.insert(at, batch)
        self.full = True

    def drain(self):
        """Removes all batches and returns them."""
        self.close()
        batches = self.closed
        self.closed = []
        self.full = False
        return batches

    def remove(self, ProducerBatch batch not None):
        """Removes a batch that waits; False if it does not."""
        if batch is self.growing:
            self.growing = None
            return True
        if batch in self.closed:
            self.closed.remove(batch)
            self.full = bool(self.closed)
            return True
        return False

    def batches(self):
        """All that wait, oldest first."""
        return self.closed + ([] if self.growing is None else [self.growing])


@final
cdef class TopicQueues:
    def __init__(self, str name):
        self.name = name
        self.queues = []
        self.sticky = self.previous = -1

    def resize(self, int32_t count):
        """The topic has ``count`` partitions; queues of those that are gone stay, unused."""
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
