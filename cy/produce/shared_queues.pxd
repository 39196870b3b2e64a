from cy.produce.blocks cimport Blocks
from cy.produce.partition_queue cimport PartitionQueue, TopicQueues
from cy.produce.producer_batch cimport ProducerBatch


cdef class SharedQueues:
    cdef dict topics
    cdef dict resting                   # of topics that are forgotten
    cdef TopicQueues latest             # what was found last, None if nothing was
    cdef object latest_name             # the object that it was looked for with
    cdef readonly Py_ssize_t used       # bytes of batches that are not done
    cdef Py_ssize_t seen                # ``used`` when the sender last looked
    cdef readonly Py_ssize_t limit      # of ``used``
    cdef Py_ssize_t batch_size
    cdef Py_ssize_t first_size          # of a batch's block
    cdef Py_ssize_t grow_limit          # how far a batch grows that waits for its turn
    cdef readonly Py_ssize_t max_record  # max.request.size
    cdef Blocks blocks
    cdef public object before_wait      # called before a wait for a batch: raises where it has no end
    cdef object clock
    cdef object wake
    cdef bint signalled                 # the sender was woken and has not looked yet
    cdef bint pressing                  # there is something to wake it for
    cdef list news                      # queues that the sender does not know to have something
    cdef public bint closed             # nothing is appended any more

    # As ``room``, where the growing batch has none.
    cdef ProducerBatch make_room(self, PartitionQueue queue, Py_ssize_t size)
    cdef ProducerBatch extended(self, PartitionQueue queue, Py_ssize_t size)
    cdef ProducerBatch begun(self, PartitionQueue queue, Py_ssize_t size)
    cdef bint settle(self, ProducerBatch batch, Py_ssize_t size) except -1
    cdef Py_ssize_t room_for(self, Py_ssize_t size) noexcept
    cdef int announce(self, PartitionQueue queue) except -1
    cdef int notify(self) except -1
    cdef TopicQueues found(self, object topic)


# The topic's queues, None where it is not known.
cdef inline TopicQueues queues_of(SharedQueues queues, object topic):
    if topic is queues.latest_name and topic is not None:
        return queues.latest
    return queues.found(topic)


# The batch that takes a record of at most ``size`` bytes; None where memory is used up, or nothing is
# appended any more.
cdef inline ProducerBatch room(SharedQueues queues, PartitionQueue queue, Py_ssize_t size):
    cdef ProducerBatch batch = queue.growing
    if batch is not None and not queues.closed:
        if batch.used + size <= batch.capacity and batch.used + size <= queues.batch_size:
            return batch
    return queues.make_room(queue, size)
