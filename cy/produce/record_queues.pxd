from libc.stdint cimport int64_t

from cy.produce.arrow_column cimport ArrowColumn, BytesColumn, HeaderColumn
from cy.produce.deliveries cimport Deliveries
from cy.produce.item_column cimport ItemColumn
from cy.produce.partition_queue cimport TopicQueues
from cy.produce.partitioner cimport Partitioner
from cy.produce.producer_batch cimport DeliveryReport
from cy.produce.shared_queues cimport SharedQueues


cdef class RecordQueues(SharedQueues):
    cdef bint round_robin
    cdef Partitioner partitioner
    cdef Py_ssize_t paused              # how many coroutines let the loop run before they append
    cdef public bint direct             # ``send`` may append at once: open, no serializer, no interceptor

    cdef DeliveryReport add(
        self, object topic, object value, object key, object partition, object timestamp,
        object headers, object callback,
    )
    cdef Py_ssize_t add_some(
        self, TopicQueues topic, object values, ItemColumn items, object keys, Py_ssize_t start,
        object partition, int64_t timestamp, Deliveries deliveries, HeaderColumn headers,
    ) except -1
    cdef Py_ssize_t add_run(
        self, TopicQueues topic, object values, object keys, Py_ssize_t start, object partition,
        int64_t timestamp, Deliveries deliveries,
    ) except -1
    cdef Py_ssize_t add_column(
        self, TopicQueues topic, BytesColumn values, Py_ssize_t start, object partition,
        int64_t timestamp, Deliveries deliveries, HeaderColumn headers, Py_ssize_t least,
    ) except -1
    cdef Py_ssize_t fitting(
        self, BytesColumn values, Py_ssize_t start, HeaderColumn headers, Py_ssize_t *size
    ) noexcept nogil
    cdef Py_ssize_t add_keyed_row(
        self, TopicQueues topic, ArrowColumn values, ArrowColumn keys, Py_ssize_t row,
        object partition, int64_t timestamp, Deliveries deliveries, HeaderColumn headers,
    ) except -1
