"""The queues that the threads of an application and the sender share: room for records, and news.

A batch is worth sending when it has ``batch_size`` bytes, or is old enough (linger), which the sender decides. Until
the sender takes it, it goes on growing up to ``grow_limit``. So if records come faster than requests can be sent, fewer
and larger requests are sent. ``batch_size`` is therefore the size for which a batch waits, not a limit. While memory is
plentiful, a batch begins with the size that the partition's last batch reached.

``wake()`` wakes the sender once, when an empty queue gets a record or a batch becomes full. ``take_news`` tells that
the sender has looked.
"""

from libc.stdint cimport int32_t

from cy.batch.header cimport HEADER_SIZE
from cy.produce.blocks cimport Blocks
from cy.produce.partition_queue cimport PartitionQueue, TopicQueues
from cy.produce.producer_batch cimport RECORD_OVERHEAD, ProducerBatch, new_batch

cdef enum:
    FIRST_SIZE = 16384
    MOST_SPARE = 16 << 20   # bytes


cdef class SharedQueues:
    def __init__(
        self, Py_ssize_t batch_size, Py_ssize_t buffer_memory, Py_ssize_t max_request_size, clock
    ):
        self.topics = {}
        self.resting = {}
        self.batch_size = batch_size
        self.limit = buffer_memory
        self.max_record = max_request_size
        self.first_size = max(HEADER_SIZE, min(batch_size, FIRST_SIZE, buffer_memory))
        self.grow_limit = max(batch_size, max_request_size * 15 // 16 if batch_size > 0 else 0)
        self.blocks = Blocks(min(MOST_SPARE, buffer_memory // 4))
        self.clock = clock
        self.news = []
        self.signalled = True

    # ---- room ----------------------------------------------------------------------------------

    cdef ProducerBatch make_room(self, PartitionQueue queue, Py_ssize_t size):
        cdef ProducerBatch batch
        if self.closed:
            return None
        if queue.growing is not None:
            batch = self.extended(queue, size)
            if batch is not None or queue.growing is not None:
                return batch
        return self.begun(queue, size)

    cdef ProducerBatch extended(self, PartitionQueue queue, Py_ssize_t size):
        """Returns the growing batch with more room, None if it was closed or memory is used up."""
        cdef ProducerBatch batch = queue.growing
        cdef Py_ssize_t wanted = batch.used + size, capacity, before
        if wanted > self.batch_size and not queue.full:
            queue.full = True
            self.announce(queue)
        if wanted > self.grow_limit:
            queue.close()
            return None
        if wanted > batch.capacity:
            capacity = min(
                max(wanted, min(2 * batch.capacity, self.grow_limit)),
                batch.capacity + self.limit - self.used,
            )
            if capacity < wanted:
                return None
            before = batch.capacity
            batch.grow(self.blocks, capacity)
            self.used += batch.capacity - before
        return batch

    cdef ProducerBatch begun(self, PartitionQueue queue, Py_ssize_t size):
        """Returns a new batch, None if memory is used up."""
        cdef Py_ssize_t capacity = max(self.first_size, <Py_ssize_t>HEADER_SIZE + size)
        if self.used + capacity > self.limit:
            return None
        cdef ProducerBatch batch = new_batch(queue.topic, queue.partition, self.clock())
        batch.before_wait = self.before_wait
        if queue.growing is not None or self.closed:    # another thread was here meanwhile
            return room(self, queue, size)
        if self.used + max(capacity, queue.usual) <= self.limit // 2:
            capacity = max(capacity, queue.usual)
        if not self.settle(batch, capacity):
            return None
        queue.growing = batch
        if HEADER_SIZE + size >= self.batch_size:
            queue.full = True
        self.announce(queue)
        return batch

    cdef bint settle(self, ProducerBatch batch, Py_ssize_t size) except -1:
        """Gives the new batch a block of ``size`` bytes. Returns False if memory is used up."""
        if self.used + size > self.limit:
            return False
        batch.settle(self.blocks, size, min(2 * size, self.limit - self.used))
        self.used += batch.charged
        return True

    @property
    def spare(self):
        return self.blocks.kept

    # ---- the sender's side ---------------------------------------------------------------------

    def attach(self, wake):
        """Sets ``wake``, which is called, in any thread, when the sender should look."""
        self.wake = wake
        self.signalled = False

    cdef int announce(self, PartitionQueue queue) except -1:
        """Tells the sender that the queue has news."""
        if not queue.listed:
            queue.listed = True
            self.news.append(queue)
        self.pressing = True
        return 0

    cdef int notify(self) except -1:
        self.pressing = False
        if not self.signalled:
            self.signalled = True
            try:
                self.wake()
            except BaseException:           # Ctrl-C: the next record tries again
                self.signalled = False
                self.pressing = True
                raise
        return 0

    def poke(self):
        """Wakes the sender."""
        self.notify()

    def take_news(self):
        """Returns the queues that got records since the last call."""
        cdef PartitionQueue queue
        self.signalled = False
        self.seen = self.used
        news, self.news = self.news, []
        for queue in news:
            queue.listed = False
        return news

    def release(self, ProducerBatch batch not None):
        """Frees the memory of a finished batch."""
        self.used -= batch.charged
        self.seen = min(self.seen, self.used)
        batch.charged = 0
        batch.leave(self.blocks)

    def trim(self):
        """Frees spare memory if there are no unfinished batches."""
        if self.used == 0:
            self.blocks.clear()

    def charge(self, ProducerBatch batch not None):
        """Counts the memory of a batch that was not made by ``send``, for example by ``split``."""
        self.used += batch.charged

    def close_all(self):
        """Closes all growing batches, so that the next records go into new ones."""
        cdef PartitionQueue queue
        for queues in self.topics.values():
            for queue in queues.queues:
                queue.close()

    def topic(self, name):
        return self.topics.get(name)

    def set_partitions(self, str name, int32_t count):
        """Sets how many partitions the topic has."""
        cdef TopicQueues queues = self.topics.get(name)
        self.latest = self.latest_name = None
        if queues is None:
            queues = self.resting.pop(name, None) or TopicQueues(name)
            queues.resize(count)
            self.topics[name] = queues
        elif queues.count != count:
            queues.resize(count)

    def forget_topic(self, str name):
        """Forgets how many partitions the topic has, unless it has waiting batches.

        ``set_partitions`` brings its queues back, with the sequence numbers that must continue.
        """
        cdef TopicQueues queues = self.topics.get(name)
        cdef PartitionQueue queue
        if queues is None:
            return
        for queue in queues.queues:
            if queue.growing is not None or queue.closed:
                return
        self.latest = self.latest_name = None
        self.resting[name] = self.topics.pop(name)

    cdef TopicQueues found(self, object topic):
        cdef TopicQueues queues = self.topics.get(topic)
        self.latest, self.latest_name = queues, topic
        return queues

    def fits(self, Py_ssize_t size):
        """Returns True if a record of ``size`` bytes (key, value, headers) is not too large to be sent."""
        return RECORD_OVERHEAD + size <= self.max_record and self.room_for(size) <= self.limit

    def has_room(self, Py_ssize_t size):
        """Returns True if there is room for a record of ``size`` bytes, in a growing batch or a new one."""
        return self.used + self.room_for(size) <= self.limit

    cdef Py_ssize_t room_for(self, Py_ssize_t size) noexcept:
        """Returns how much memory a record of ``size`` bytes takes at most."""
        return max(self.first_size, HEADER_SIZE + RECORD_OVERHEAD + size)
