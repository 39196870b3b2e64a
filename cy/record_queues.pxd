from libc.stdint cimport int32_t, int64_t

from cy.arrow_column cimport ArrowColumn, HeaderColumn
from cy.deliveries cimport Accepted, Deliveries
from cy.partition_queue cimport PartitionQueue, TopicQueues
from cy.partitioner cimport Partitioner
from cy.producer_batch cimport DeliveryReport, ProducerBatch


cdef class RecordQueues:
    cdef dict topics
    cdef readonly Py_ssize_t used       # bytes of batches that are not done
    cdef Py_ssize_t seen                # ``used`` when the sender last looked
    cdef readonly Py_ssize_t limit      # of ``used``
    cdef Py_ssize_t batch_size
    cdef Py_ssize_t first_size          # of a batch's block
    cdef Py_ssize_t grow_limit          # how far a batch grows that waits for its turn
    cdef Py_ssize_t max_record
    cdef bint round_robin
    cdef Partitioner partitioner
    cdef public object before_wait      # called before a wait for a batch: raises where it has no end
    cdef object clock
    cdef object wake
    cdef bint signalled                 # the sender was woken and has not looked yet
    cdef bint pressing                  # there is something to wake it for
    cdef list news                      # queues that the sender does not know to have something
    cdef public bint awaitable          # ``send`` returns what is awaited for the report
    cdef public bint direct             # ``send`` may append: open, no serializer, no interceptor
    cdef public bint closed             # nothing is appended any more

    cdef Accepted accepted(self, DeliveryReport report)
    cdef TopicQueues topic_queues(self, object topic)
    cdef ProducerBatch room(self, PartitionQueue queue, Py_ssize_t size)
    cdef ProducerBatch extended(self, PartitionQueue queue, Py_ssize_t size)
    cdef ProducerBatch begun(self, PartitionQueue queue, Py_ssize_t size)
    cdef Py_ssize_t room_for(self, Py_ssize_t size) noexcept
    cdef int announce(self, PartitionQueue queue) except -1
    cdef int notify(self) except -1
    cdef DeliveryReport add(
        self, object topic, object value, object key, object partition, object timestamp,
        object headers, object callback,
    )
    cdef Py_ssize_t add_run(
        self, TopicQueues topic, object values, object keys, Py_ssize_t start, object partition,
        int64_t timestamp, Deliveries deliveries,
    ) except -1
    cdef Py_ssize_t add_column(
        self, TopicQueues topic, ArrowColumn values, Py_ssize_t start, object partition,
        int64_t timestamp, Deliveries deliveries, HeaderColumn headers,
    ) except -1
    cdef Py_ssize_t add_keyed_row(
        self, TopicQueues topic, ArrowColumn values, ArrowColumn keys, Py_ssize_t row,
        object partition, int64_t timestamp, Deliveries deliveries, HeaderColumn headers,
    ) except -1
    cdef Py_ssize_t add_some(
        self, TopicQueues topic, object values, object keys, Py_ssize_t start, object partition,
        int64_t timestamp, Deliveries deliveries, HeaderColumn headers,
    ) except -1
