"""Puts records into batches: the part of a producer that runs on applications' threads.

``send`` finds the partition's growing batch and writes the record into it. It needs no lock: it holds the GIL, and
nothing between the check of a batch and the write into it can release that. Allocating a batch may collect garbage and
so run any code. So a batch is allocated first, and the check comes after that.

If the records of a list or a column fill a batch, they get a batch of their own. It is filled without the GIL, so the
sender can work meanwhile.
"""

from cpython.bytes cimport (
    PyBytes_AS_STRING, PyBytes_CheckExact, PyBytes_FromObject, PyBytes_GET_SIZE,
)
from cython cimport boundscheck, embedsignature
from cpython.long cimport PyLong_CheckExact
from libc.stdint cimport int32_t, int64_t, uint8_t, uint64_t
from posix.time cimport CLOCK_REALTIME, clock_gettime, timespec

from cy.produce.arrow_column cimport ArrowColumn, BytesColumn, HeaderColumn
from cy.batch.header cimport HEADER_SIZE
from cy.produce.callback_order cimport check_order
from cy.produce.deliveries cimport Deliveries
from cy.produce.item_column cimport OTHER, ItemColumn
from cy.produce.partition_queue cimport PartitionQueue, TopicQueues
from cy.produce.partitioner cimport Partitioner, queue_for, stick
from cy.produce.producer_batch cimport (
    RECORD_OVERHEAD, DeliveryReport, ProducerBatch, length_of, new_batch, new_report,
)
from cy.batch.record_headers cimport encode_headers, listed
from cy.produce.shared_queues cimport SharedQueues, queues_of, room
from cy.varint cimport size_of_varint

from cy.produce.missing import MISSING, require_key

import operator
import time


cdef inline int64_t now_ms() noexcept:
    cdef timespec now
    clock_gettime(CLOCK_REALTIME, &now)
    return <int64_t>now.tv_sec * 1000 + now.tv_nsec // 1000000


cpdef int64_t milliseconds(object timestamp) except? -1:
    """Returns a record's timestamp in milliseconds, the current time for None. Raises TypeError, ValueError."""
    if timestamp is None:
        return now_ms()
    cdef int64_t stamp = timestamp if PyLong_CheckExact(timestamp) else whole(timestamp)
    if stamp < 0:
        raise ValueError(f"timestamp {timestamp} is below 0")
    return stamp


cdef object whole(object timestamp):
    try:
        return operator.index(timestamp)
    except TypeError:
        raise TypeError(
            f"timestamp is {type(timestamp).__name__}, not int: milliseconds since 1970, "
            "int(time.time() * 1000)"
        ) from None


cdef inline bytes as_bytes(object data, str what):
    """Returns ``data`` itself if it is bytes, else a copy of its buffer."""
    if data is None or PyBytes_CheckExact(data):
        return <bytes>data
    return copied(data, what)


cdef bytes copied(object data, str what):
    if isinstance(data, (bytes, bytearray, memoryview)):
        return PyBytes_FromObject(data)
    try:
        return bytes(memoryview(data))
    except TypeError:
        raise TypeError(
            f"{what} is {type(data).__name__}, not bytes: encode it, or give the producer "
            f"a {what}_serializer"
        ) from None


cdef inline bytes value_of(object value, bytes key):
    """Returns the value as bytes; checks only what is not bytes already."""
    if value is None or PyBytes_CheckExact(value):
        return <bytes>value
    if value is MISSING:
        require_key(key)
        return None
    return copied(value, "value")


cdef inline Py_ssize_t size_of(bytes data) noexcept:
    return -1 if data is None else PyBytes_GET_SIZE(data)


cdef inline uint8_t *start_of(bytes data) noexcept:
    return NULL if data is None else <uint8_t *>PyBytes_AS_STRING(data)


cdef class RecordQueues(SharedQueues):
    def __init__(
        self, *, Py_ssize_t batch_size=16384, Py_ssize_t buffer_memory=32 << 20,
        Py_ssize_t max_request_size=1 << 20, bint round_robin=False, bint ignore_keys=False,
        bint adaptive=True, uint64_t seed=1, clock=time.monotonic,
    ):
        SharedQueues.__init__(self, batch_size, buffer_memory, max_request_size, clock)
        self.round_robin = round_robin
        self.partitioner = Partitioner(batch_size, round_robin, ignore_keys, adaptive, seed)

    # ---- the application's side ----------------------------------------------------------------

    @embedsignature(True)
    def send(
        self, topic, value=MISSING, key=None, *, partition=None, timestamp=None, headers=None,
        on_delivery=None,
    ):
        """Sends a record. Waits only for the topic's metadata and for memory, up to max.block.ms.

        Returns the record's report. ``timestamp`` is in milliseconds, the current time by default. ``headers`` are
        pairs of a name and bytes, or a mapping of them; an iterator is read once. Raises BufferExhausted,
        RecordTooLarge, InvalidTopicException, KafkaError, and TypeError for anything but bytes, or for a record without
        value and key, unless value=None is given.
        """
        cdef DeliveryReport report
        if headers is not None:
            headers = listed(headers)
        if self.direct:
            report = self.add(topic, value, key, partition, timestamp, headers, on_delivery)
            if report is not None:
                return report
        return self.send_later(topic, value, key, partition, timestamp, headers, on_delivery)

    def try_send(self, topic, value, key, partition, timestamp, headers, on_delivery):
        """Sends a record without waiting. Returns None if topic or partition is unknown, or memory is used up."""
        return self.add(topic, value, key, partition, timestamp, headers, on_delivery)

    def send_later(self, topic, value, key, partition, timestamp, headers, on_delivery):
        """Sends a record that cannot be appended at once. The blocking and the asyncio producer implement the wait."""
        raise NotImplementedError

    cdef DeliveryReport add(
        self, object topic, object value, object key, object partition, object timestamp,
        object headers, object callback,
    ):
        if callback is not None:
            check_order(callback)
        cdef bytes k = as_bytes(key, "key")
        cdef bytes v = value_of(value, k)
        cdef bytes tail = encode_headers(headers) if headers else None
        cdef int64_t stamp = now_ms() if timestamp is None else milliseconds(timestamp)
        cdef TopicQueues topic_queues = queues_of(self, topic)
        if topic_queues is None:
            return None
        cdef Py_ssize_t k_size = size_of(k), v_size = size_of(v)
        cdef Py_ssize_t tail_size = 0 if tail is None else PyBytes_GET_SIZE(tail)
        cdef Py_ssize_t size = RECORD_OVERHEAD + k_size + v_size + tail_size
        if size > self.max_record:
            return None
        cdef PartitionQueue queue = queue_for(self.partitioner, topic_queues, k, partition)
        if queue is None:
            return None
        cdef ProducerBatch batch = room(self, queue, size)
        if batch is None:
            return None
        batch.write(stamp, start_of(k), k_size, start_of(v), v_size, start_of(tail), tail_size)
        cdef DeliveryReport report = new_report(batch, batch.count - 1, stamp)
        if callback is not None:
            report.callback = callback
            batch.reports.append(report)
        stick(self.partitioner, topic_queues, queue, size)
        if self.pressing:
            self.notify()
        return report

    # ---- many records ----------------------------------------------------------------------------

    def add_many(
        self, str topic, values, keys, Py_ssize_t start, partition, timestamp,
        Deliveries deliveries not None, HeaderColumn headers=None,
    ):
        """Appends ``values[start:]`` as far as there is room. Returns the index of the first one that was not appended.

        ``values`` and ``keys`` are tuples or lists that do not change, or both Arrow columns; ``keys``
        may be None. ``headers`` are for Arrow columns only.
        """
        cdef ItemColumn items = None
        cdef TopicQueues queues = self.topics.get(topic)
        if queues is None:
            return start
        cdef Py_ssize_t end = min(<Py_ssize_t>len(values), deliveries.size)
        cdef Py_ssize_t stop
        if keys is None and type(values) is tuple and not self.round_robin:
            items = ItemColumn(values, end)
        try:
            while start < end:
                stop = self.add_some(
                    queues, values, items, keys, start, partition, timestamp, deliveries, headers
                )
                if stop == start:
                    break
                start = stop
        finally:
            if self.pressing:
                self.notify()
        return start

    cdef Py_ssize_t add_some(
        self, TopicQueues topic, object values, ItemColumn items, object keys, Py_ssize_t start,
        object partition, int64_t timestamp, Deliveries deliveries, HeaderColumn headers,
    ) except -1:
        """Appends some records to one batch. Returns the index of the first one that was not appended."""
        cdef Py_ssize_t stop = start
        if items is not None:
            stop = self.add_column(
                topic, items, start, partition, timestamp, deliveries, None, self.grow_limit // 2
            )
        if stop > start:
            return stop
        if type(values) is not ArrowColumn:
            return self.add_run(topic, values, keys, start, partition, timestamp, deliveries)
        if keys is None:
            return self.add_column(
                topic, values, start, partition, timestamp, deliveries, headers, 0
            )
        return self.add_keyed_row(
            topic, values, keys, start, partition, timestamp, deliveries, headers
        )

    cdef Py_ssize_t add_column(
        self, TopicQueues topic, BytesColumn values, Py_ssize_t start, object partition,
        int64_t timestamp, Deliveries deliveries, HeaderColumn headers, Py_ssize_t least,
    ) except -1:
        """Appends rows of at least ``least`` bytes to a batch of their own, which is filled without the GIL."""
        cdef Py_ssize_t stop, size = HEADER_SIZE
        with nogil:
            stop = self.fitting(values, start, headers, &size)
        cdef PartitionQueue queue = self.partitioner.choose(topic, None, partition)
        if stop == start or size < least or queue is None:
            return start
        cdef ProducerBatch batch = new_batch(queue.topic, queue.partition, self.clock())
        batch.before_wait = self.before_wait
        if self.closed or not self.settle(batch, size):
            return start
        with nogil:
            fill(batch, timestamp, values, headers, start, stop)
        if self.closed:
            self.used -= batch.charged
            return start
        deliveries.note(batch, 0, stop - start)
        queue.close()
        queue.closed.append(batch)
        queue.full = True
        self.announce(queue)
        stick(self.partitioner, topic, queue, batch.used)
        return stop

    cdef Py_ssize_t fitting(
        self, BytesColumn values, Py_ssize_t start, HeaderColumn headers, Py_ssize_t *size
    ) noexcept nogil:
        """Returns the first row from ``start`` that does not fit into a batch, or cannot be sent as it is.

        Adds the bytes of the rows before it to ``size``.
        """
        cdef const uint8_t *at = NULL
        cdef bint with_headers = headers is not None
        cdef Py_ssize_t most = min(max(self.grow_limit, self.batch_size), self.limit - self.used)
        cdef Py_ssize_t row = start, value, tail = 0, length
        while row < values.rows:
            value = values.get(row, &at)
            if with_headers:
                tail = headers.get(row, &at)
            if value == OTHER or max(value, 0) + tail + RECORD_OVERHEAD > self.max_record:
                break
            length = length_of(0, <int32_t>(row - start), -1, value, tail)
            length += size_of_varint(<int32_t>length)
            if size[0] + length > most and row > start:
                break
            size[0] += length
            row += 1
        return row

    cdef Py_ssize_t add_keyed_row(
        self, TopicQueues topic, ArrowColumn values, ArrowColumn keys, Py_ssize_t row,
        object partition, int64_t timestamp, Deliveries deliveries, HeaderColumn headers,
    ) except -1:
        """Appends one row. Returns the index of the next one, or its own if there is no room."""
        cdef const uint8_t *key
        cdef const uint8_t *value
        cdef const uint8_t *tail = NULL
        cdef Py_ssize_t k_size = keys.get(row, &key), v_size = values.get(row, &value)
        cdef Py_ssize_t tail_size = 0 if headers is None else headers.get(row, &tail)
        cdef Py_ssize_t size = RECORD_OVERHEAD + max(k_size, 0) + max(v_size, 0) + tail_size
        if size > self.max_record:
            return row
        cdef int32_t number = -1
        if partition is None and k_size >= 0:
            number = self.partitioner.of_key(topic, key, k_size)
        cdef PartitionQueue queue = self.partitioner.choose(
            topic, None, partition if number < 0 else number
        )
        cdef ProducerBatch batch = None if queue is None else room(self, queue, size)
        if batch is None:
            return row
        batch.write(timestamp, key, k_size, value, v_size, tail, tail_size)
        deliveries.note(batch, batch.count - 1, 1)
        stick(self.partitioner, topic, queue, size)
        return row + 1

    @boundscheck(True)
    cdef Py_ssize_t add_run(
        self, TopicQueues topic, object values, object keys, Py_ssize_t start, object partition,
        int64_t timestamp, Deliveries deliveries,
    ) except -1:
        """Appends a run of records to one batch. Returns the index of the first one that was not appended."""
        cdef bytes key = None if keys is None else as_bytes(keys[start], "key")
        cdef bytes value = as_bytes(values[start], "value")
        cdef Py_ssize_t k_size = size_of(key), v_size = size_of(value)
        cdef Py_ssize_t size = RECORD_OVERHEAD + k_size + v_size
        cdef Py_ssize_t at = start, limit
        cdef Py_ssize_t end = min(<Py_ssize_t>len(values), start + deliveries.size - deliveries.filled)
        if size > self.max_record:
            return start
        cdef PartitionQueue queue = self.partitioner.choose(topic, key, partition)
        if queue is None:
            return start
        cdef ProducerBatch batch = room(self, queue, size)
        if batch is None:
            return start
        cdef int32_t first = batch.count
        cdef Py_ssize_t before = batch.used
        limit = min(batch.capacity, max(self.batch_size, batch.used + size))
        while True:
            batch.write(timestamp, start_of(key), k_size, start_of(value), v_size, NULL, 0)
            at += 1
            if keys is not None or self.round_robin or at == end:
                break
            item = values[at]
            if not PyBytes_CheckExact(item):
                break
            value = <bytes>item
            v_size = PyBytes_GET_SIZE(value)
            if batch.used + RECORD_OVERHEAD + v_size > limit:
                break
        stick(self.partitioner, topic, queue, batch.used - before)
        deliveries.note(batch, first, at - start)
        return at


cdef void fill(
    ProducerBatch batch, int64_t timestamp, BytesColumn values, HeaderColumn headers,
    Py_ssize_t start, Py_ssize_t stop,
) noexcept nogil:
    cdef const uint8_t *at = NULL
    cdef const uint8_t *tail = NULL
    cdef bint with_headers = headers is not None
    cdef Py_ssize_t row, length, tail_size = 0
    for row in range(start, stop):
        length = values.get(row, &at)
        if with_headers:
            tail_size = headers.get(row, &tail)
        batch.write(timestamp, NULL, -1, at, length, tail, tail_size)
