"""Records on their way into batches: the half of a producer that applications' threads enter.

``send`` finds the partition's growing batch and writes the record into it. That needs no lock: it
happens under the GIL, and between the look at a batch and the write into it nothing runs that could
yield the GIL. What can (the allocation of a batch may collect garbage, and so run anything) comes
before, and looks again.

A batch is worth sending when it has ``batch_size`` bytes, or is old enough (linger), which the
sender decides. Until the sender takes it, it goes on growing, to ``grow_limit``: where records come
faster than requests go, fewer and larger requests go. So ``batch_size`` is what a batch waits for,
not a bound.

The sender is woken once, by ``wake()``, when a queue that it does not know to have something gets
a record or a batch becomes full; it says by ``take_news`` that it has looked.
"""

from cpython.bytes cimport (
    PyBytes_AS_STRING, PyBytes_CheckExact, PyBytes_FromObject, PyBytes_GET_SIZE,
)
from cython cimport boundscheck, embedsignature
from cpython.long cimport PyLong_CheckExact
from libc.stdint cimport int32_t, int64_t, uint8_t, uint64_t
from posix.time cimport CLOCK_REALTIME, clock_gettime, timespec

from cy.arrow_column cimport ArrowColumn, HeaderColumn
from cy.batch_header cimport HEADER_SIZE
from cy.deliveries cimport Accepted, Deliveries, new_accepted
from cy.partition_queue cimport PartitionQueue, TopicQueues
from cy.partitioner cimport Partitioner
from cy.producer_batch cimport (
    RECORD_OVERHEAD, DeliveryReport, ProducerBatch, new_batch, new_report,
)
from cy.record_headers cimport encode_headers

import operator
import time

cdef enum:
    FIRST_SIZE = 16384
    UNSEEN = 1 << 18        # bytes that an asyncio application may add before the loop runs


cdef inline int64_t now_ms() noexcept:
    cdef timespec now
    clock_gettime(CLOCK_REALTIME, &now)
    return <int64_t>now.tv_sec * 1000 + now.tv_nsec // 1000000


cpdef int64_t milliseconds(object timestamp) except? -1:
    """A record's timestamp, of None the time now. Raises TypeError, ValueError."""
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
    """``data`` itself if it is bytes; a copy of another buffer."""
    if data is None or PyBytes_CheckExact(data):
        return data
    if isinstance(data, (bytes, bytearray, memoryview)):
        return PyBytes_FromObject(data)
    try:
        return bytes(memoryview(data))
    except TypeError:
        raise TypeError(
            f"{what} is {type(data).__name__}, not bytes: encode it, or give the producer "
            f"a {what}_serializer"
        ) from None


cdef class RecordQueues:
    def __init__(
        self, *, Py_ssize_t batch_size=16384, Py_ssize_t buffer_memory=32 << 20,
        Py_ssize_t max_request_size=1 << 20, bint round_robin=False, bint ignore_keys=False,
        bint adaptive=True, uint64_t seed=1, clock=time.monotonic,
    ):
        self.topics = {}
        self.batch_size = batch_size
        self.limit = buffer_memory
        self.max_record = max_request_size
        self.first_size = max(HEADER_SIZE, min(batch_size, FIRST_SIZE, buffer_memory))
        self.grow_limit = max(batch_size, max_request_size * 15 // 16 if batch_size > 0 else 0)
        self.round_robin = round_robin
        self.partitioner = Partitioner(batch_size, round_robin, ignore_keys, adaptive, seed)
        self.clock = clock
        self.news = []
        self.signalled = True

    # ---- the application's side ----------------------------------------------------------------

    @embedsignature(True)
    def send(
        self, topic, value=None, key=None, *, partition=None, timestamp=None, headers=None,
        on_delivery=None,
    ):
        """Sends a record; does not wait, except for the metadata of a topic and for room (max.block.ms).

        Returns a view on what becomes of it, in ``pyclient.aio`` an awaitable of one. ``timestamp`` in
        milliseconds, now by default; ``headers``: pairs of name and bytes. Raises BufferExhausted,
        RecordTooLarge, InvalidTopicException, KafkaError; TypeError for what is not bytes.
        """
        cdef DeliveryReport report
        if self.direct:
            report = self.add(topic, value, key, partition, timestamp, headers, on_delivery)
            if report is not None:
                return self.accepted(report) if self.awaitable else report
        return self.send_later(topic, value, key, partition, timestamp, headers, on_delivery)

    cdef Accepted accepted(self, DeliveryReport report):
        """What is awaited for the report; at times it lets the loop run, and so the sender."""
        cdef bint pause = self.used - self.seen > UNSEEN
        if pause:
            self.seen = self.used
        return new_accepted(report, pause)

    def try_send(self, topic, value, key, partition, timestamp, headers, on_delivery):
        """As ``send``, or None: the topic is not known, the partition is not, there is no room."""
        return self.add(topic, value, key, partition, timestamp, headers, on_delivery)

    def send_later(self, topic, value, key, partition, timestamp, headers, on_delivery):
        """What ``send`` does where it cannot append at once; a face knows how it waits."""
        raise NotImplementedError

    cdef DeliveryReport add(
        self, object topic, object value, object key, object partition, object timestamp,
        object headers, object callback,
    ):
        cdef bytes k = as_bytes(key, "key")
        cdef bytes v = as_bytes(value, "value")
        cdef bytes tail = encode_headers(headers) if headers else None
        cdef int64_t stamp = milliseconds(timestamp)
        cdef TopicQueues queues = self.topic_queues(topic)
        if queues is None:
            return None
        cdef Py_ssize_t k_size = -1 if k is None else PyBytes_GET_SIZE(k)
        cdef Py_ssize_t v_size = -1 if v is None else PyBytes_GET_SIZE(v)
        cdef Py_ssize_t tail_size = 0 if tail is None else PyBytes_GET_SIZE(tail)
        cdef Py_ssize_t size = RECORD_OVERHEAD + k_size + v_size + tail_size
        if size > self.max_record:
            return None
        cdef PartitionQueue queue = self.partitioner.choose(queues, k, partition)
        if queue is None:
            return None
        cdef ProducerBatch batch = self.room(queue, size)
        if batch is None:
            return None
        batch.write(
            stamp,
            NULL if k is None else <uint8_t *>PyBytes_AS_STRING(k), k_size,
            NULL if v is None else <uint8_t *>PyBytes_AS_STRING(v), v_size,
            NULL if tail is None else <uint8_t *>PyBytes_AS_STRING(tail), tail_size,
        )
        cdef DeliveryReport report = new_report(batch, batch.count - 1, stamp)
        if callback is not None:
            report.callback = callback
            batch.reports.append(report)
        if queue.partition == queues.sticky:
            self.partitioner.stick(queues, size)
        if self.pressing:
            self.notify()
        return report

    cdef TopicQueues topic_queues(self, object topic):
        return self.topics.get(topic)

    # ---- room ----------------------------------------------------------------------------------

    cdef ProducerBatch room(self, PartitionQueue queue, Py_ssize_t size):
        """The batch that takes a record of at most ``size`` bytes; None where memory is used up, or
        nothing is appended any more.
        """
        if self.closed:
            return None
        cdef ProducerBatch batch = queue.growing
        if batch is not None:
            if batch.used + size <= batch.capacity and batch.used + size <= self.batch_size:
                return batch
            batch = self.extended(queue, size)
            if batch is not None or queue.growing is not None:
                return batch
        return self.begun(queue, size)

    cdef ProducerBatch extended(self, PartitionQueue queue, Py_ssize_t size):
        """The growing batch with more room. None: it was closed, or (if not) memory is used up."""
        cdef ProducerBatch batch = queue.growing
        cdef Py_ssize_t wanted = batch.used + size, capacity
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
            self.used += capacity - batch.capacity
            batch.grow(capacity)
        return batch

    cdef ProducerBatch begun(self, PartitionQueue queue, Py_ssize_t size):
        """A new batch; None where memory is used up."""
        cdef Py_ssize_t capacity = max(self.first_size, <Py_ssize_t>HEADER_SIZE + size)
        if self.used + capacity > self.limit:
            return None
        self.used += capacity
        cdef ProducerBatch batch = new_batch(
            queue.topic, queue.partition, capacity, self.clock()
        )
        batch.before_wait = self.before_wait
        if queue.growing is not None or self.closed:    # another thread was here meanwhile
            self.used -= capacity
            return self.room(queue, size)
        queue.growing = batch
        if HEADER_SIZE + size >= self.batch_size:
            queue.full = True
        self.announce(queue)
        return batch

    # ---- the sender's side ---------------------------------------------------------------------

    def attach(self, wake):
        """``wake()`` is called, in whatever thread, when the sender should look."""
        self.wake = wake
        self.signalled = False

    cdef int announce(self, PartitionQueue queue) except -1:
        """The sender should look at the queue."""
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
        """The queues that got something since the last call."""
        cdef PartitionQueue queue
        self.signalled = False
        self.seen = self.used
        news, self.news = self.news, []
        for queue in news:
            queue.listed = False
        return news

    def release(self, ProducerBatch batch not None):
        """The batch is done: its memory is free."""
        self.used -= batch.charged
        self.seen = min(self.seen, self.used)
        batch.charged = 0

    def charge(self, ProducerBatch batch not None):
        """The batch came by ``split`` or another way than ``send``."""
        self.used += batch.charged

    def close_all(self):
        """What grows waits from now on as it is: what comes next goes into new batches."""
        cdef PartitionQueue queue
        for queues in self.topics.values():
            for queue in queues.queues:
                queue.close()

    def topic(self, name):
        return self.topics.get(name)

    def set_partitions(self, str name, int32_t count):
        """The topic has ``count`` partitions."""
        cdef TopicQueues queues = self.topics.get(name)
        if queues is None:
            queues = TopicQueues(name)
            queues.resize(count)
            self.topics[name] = queues
        elif queues.count != count:
            queues.resize(count)

    def forget_topic(self, str name):
        """The topic is not known any more; what waits for it stays with the sender."""
        return self.topics.pop(name, None)

    def fits(self, Py_ssize_t size):
        """Whether a record of ``size`` bytes (key, value, headers) may ever be sent."""
        return RECORD_OVERHEAD + size <= self.max_record and self.room_for(size) <= self.limit

    def has_room(self, Py_ssize_t size):
        """Whether a record of ``size`` bytes finds room, in a batch that grows or in a new one."""
        return self.used + self.room_for(size) <= self.limit

    cdef Py_ssize_t room_for(self, Py_ssize_t size) noexcept:
        """The memory that a record of ``size`` bytes takes at most."""
        return max(self.first_size, HEADER_SIZE + RECORD_OVERHEAD + size)

    # ---- many records ----------------------------------------------------------------------------

    def add_many(
        self, str topic, values, keys, Py_ssize_t start, partition, timestamp,
        Deliveries deliveries not None, HeaderColumn headers=None,
    ):
        """Appends ``values[start:]`` as far as there is room; the index of the first that is not in.

        ``values`` and ``keys`` are tuples or lists that nobody changes, or both Arrow columns; ``keys``
        may be None. ``headers``: with Arrow columns only.
        """
        cdef TopicQueues queues = self.topics.get(topic)
        if queues is None:
            return start
        cdef Py_ssize_t end = min(<Py_ssize_t>len(values), deliveries.size)
        cdef Py_ssize_t stop
        try:
            while start < end:
                stop = self.add_some(
                    queues, values, keys, start, partition, timestamp, deliveries, headers
                )
                if stop == start:
                    break
                start = stop
        finally:
            if self.pressing:
                self.notify()
        return start

    cdef Py_ssize_t add_some(
        self, TopicQueues topic, object values, object keys, Py_ssize_t start, object partition,
        int64_t timestamp, Deliveries deliveries, HeaderColumn headers,
    ) except -1:
        if type(values) is not ArrowColumn:
            return self.add_run(topic, values, keys, start, partition, timestamp, deliveries)
        if keys is None:
            return self.add_column(topic, values, start, partition, timestamp, deliveries, headers)
        return self.add_keyed_row(
            topic, values, keys, start, partition, timestamp, deliveries, headers
        )

    cdef Py_ssize_t add_column(
        self, TopicQueues topic, ArrowColumn values, Py_ssize_t start, object partition,
        int64_t timestamp, Deliveries deliveries, HeaderColumn headers,
    ) except -1:
        """As ``add_run``, into a batch of its own, which is filled without the GIL."""
        cdef const uint8_t *at
        cdef const uint8_t *tail = NULL
        cdef bint with_headers = headers is not None
        cdef Py_ssize_t row = start, length, tail_size = 0, size = HEADER_SIZE
        cdef Py_ssize_t room = min(max(self.grow_limit, self.batch_size), self.limit - self.used)
        with nogil:
            while row < values.rows:
                length = max(values.get(row, &at), 0) + RECORD_OVERHEAD
                if with_headers:
                    length += headers.get(row, &tail)
                if length > self.max_record or (size + length > room and row > start):
                    break
                size += length
                row += 1
        cdef PartitionQueue queue = self.partitioner.choose(topic, None, partition)
        if row == start or queue is None or size > self.limit - self.used:
            return start
        cdef ProducerBatch batch = new_batch(queue.topic, queue.partition, size, self.clock())
        batch.before_wait = self.before_wait
        if self.closed:
            return start
        self.used += batch.charged
        cdef Py_ssize_t index
        with nogil:
            for index in range(start, row):
                length = values.get(index, &at)
                if with_headers:
                    tail_size = headers.get(index, &tail)
                batch.write(
                    timestamp, NULL, -1, at, length, tail if tail_size else NULL, tail_size
                )
        deliveries.note(batch, 0, row - start)
        queue.close()
        queue.closed.append(batch)
        queue.full = True
        self.announce(queue)
        if queue.partition == topic.sticky:
            self.partitioner.stick(topic, batch.used)
        return row

    cdef Py_ssize_t add_keyed_row(
        self, TopicQueues topic, ArrowColumn values, ArrowColumn keys, Py_ssize_t row,
        object partition, int64_t timestamp, Deliveries deliveries, HeaderColumn headers,
    ) except -1:
        """Appends one row; the index of the next one, or its own."""
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
        cdef ProducerBatch batch = None if queue is None else self.room(queue, size)
        if batch is None:
            return row
        batch.write(
            timestamp, key, k_size, value, v_size, tail if tail_size else NULL, tail_size
        )
        deliveries.note(batch, batch.count - 1, 1)
        if queue.partition == topic.sticky:
            self.partitioner.stick(topic, size)
        return row + 1

    @boundscheck(True)
    cdef Py_ssize_t add_run(
        self, TopicQueues topic, object values, object keys, Py_ssize_t start, object partition,
        int64_t timestamp, Deliveries deliveries,
    ) except -1:
        """Appends some records to one batch; the index of the first that is not in."""
        cdef bytes key = None if keys is None else as_bytes(keys[start], "key")
        cdef bytes value = as_bytes(values[start], "value")
        cdef Py_ssize_t k_size = -1 if key is None else PyBytes_GET_SIZE(key)
        cdef Py_ssize_t v_size = -1 if value is None else PyBytes_GET_SIZE(value)
        cdef Py_ssize_t size = RECORD_OVERHEAD + k_size + v_size
        cdef Py_ssize_t at = start, limit
        cdef Py_ssize_t end = min(<Py_ssize_t>len(values), start + deliveries.size - deliveries.filled)
        if size > self.max_record:
            return start
        cdef PartitionQueue queue = self.partitioner.choose(topic, key, partition)
        if queue is None:
            return start
        cdef ProducerBatch batch = self.room(queue, size)
        if batch is None:
            return start
        cdef int32_t first = batch.count
        cdef Py_ssize_t before = batch.used
        limit = min(batch.capacity, max(self.batch_size, batch.used + size))
        while True:
            batch.write(
                timestamp,
                NULL if key is None else <uint8_t *>PyBytes_AS_STRING(key), k_size,
                NULL if value is None else <uint8_t *>PyBytes_AS_STRING(value), v_size,
                NULL, 0,
            )
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
        if queue.partition == topic.sticky:
            self.partitioner.stick(topic, batch.used - before)
        deliveries.note(batch, first, at - start)
        return at
