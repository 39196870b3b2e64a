from cy.produce.blocks cimport Blocks
from cy.produce.partition_queue cimport PartitionQueue, TopicQueues
from cy.produce.producer_batch cimport ProducerBatch


cdef class SharedQueues:
    cdef dict topics
    cdef dict resting                   # the queues of forgotten topics
    cdef TopicQueues latest             # the result of the last lookup, None if nothing was found
    cdef object latest_name             # the object that was looked up last
    cdef readonly Py_ssize_t used       # bytes of unfinished batches
    cdef Py_ssize_t seen                # ``used`` when the sender last looked
    cdef readonly Py_ssize_t limit      # the limit of ``used``
    cdef Py_ssize_t batch_size
    cdef Py_ssize_t first_size          # the first size of a batch's block
    cdef Py_ssize_t grow_limit          # the size up to which a waiting batch grows
    cdef readonly Py_ssize_t max_record  # max.request.size
    cdef Blocks blocks
    cdef public object before_wait      # called before a wait for a batch; raises if the wait would never end
    cdef object clock
    cdef object wake
    cdef bint signalled                 # the sender was woken and has not looked yet
    cdef bint pressing                  # there is a reason to wake the sender
    cdef list news                      # queues that got records since the sender looked
    cdef public bint closed             # nothing may be appended any longer

    # Does what ``room`` does, if the growing batch has no room.
    cdef ProducerBatch make_room(self, PartitionQueue queue, Py_ssize_t size)
    cdef ProducerBatch extended(self, PartitionQueue queue, Py_ssize_t size)
    cdef ProducerBatch begun(self, PartitionQueue queue, Py_ssize_t size)
    cdef bint settle(self, ProducerBatch batch, Py_ssize_t size) except -1
    cdef Py_ssize_t room_for(self, Py_ssize_t size) noexcept
    cdef int announce(self, PartitionQueue queue) except -1
    cdef int notify(self) except -1
    cdef TopicQueues found(self, object topic)


# Returns the topic's queues, None if the topic is unknown.
cdef inline TopicQueues queues_of(SharedQueues queues, object topic):
    if topic is queues.latest_name and topic is not None:
        return queues.latest
    return queues.found(topic)


# Returns the batch for a record of at most ``size`` bytes, None if memory is used up, or if nothing may be appended any
# longer.
cdef inline ProducerBatch room(SharedQueues queues, PartitionQueue queue, Py_ssize_t size):
    cdef ProducerBatch batch = queue.growing
    if batch is not None and not queues.closed:
        if batch.used + size <= batch.capacity and batch.used + size <= queues.batch_size:
            return batch
    return queues.make_room(queue, size)
