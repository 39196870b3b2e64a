"""A batch that grows record by record, and its outcome.

The bytes are written once, into a block (``cy/produce/blocks``) that no other code sees until ``seal``. ``seal`` fills
in the header (grammar: ``cy.batch``) and sets the length. It does not shrink the block, because memory that is freed in
pieces of all sizes cannot be used again. Then ``assign`` writes producer id, epoch and sequence, and the CRC. A batch
that was sent may still be in a send queue, so a second ``assign`` works on a copy.

A batch grows, is sealed, is sent (perhaps several times), and ends once, by ``complete`` or ``fail``. The application
gets a ``DeliveryReport``: the batch, an index and a timestamp. A batch that the broker finds too large is split: its
records move into ``parts``, which it represents from then on.

All of this happens under the GIL, and nothing in ``write`` can release it.
"""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize
from cpython.object cimport PyObject
from cpython.ref cimport Py_INCREF, Py_XDECREF
from cython cimport final, freelist, no_gc
from libc.stdint cimport int16_t, int32_t, int64_t, uint8_t
from libc.math cimport INFINITY
from libc.string cimport memcpy

from cy.batch.header cimport (
    ATTRIBUTES_AT, BASE_OFFSET_AT, BASE_SEQUENCE_AT, BASE_TIMESTAMP_AT, CODEC_MASK, COUNT_AT,
    CRC_AT, HEADER_SIZE, LAST_OFFSET_DELTA_AT, LEADER_EPOCH_AT, LENGTH_AT, LOG_OVERHEAD, MAGIC_AT,
    MAX_TIMESTAMP_AT, PRODUCER_EPOCH_AT, PRODUCER_ID_AT, TRANSACTIONAL_FLAG,
)
from cy.produce.blocks cimport Blocks
from cy.crc32c cimport update as crc32c_update
from cy.endian cimport load_int16, store_int16, store_int32, store_int64
from cy.batch.record_headers cimport encode_headers
from cy.produce.record_metadata cimport RecordMetadata
from cy.varint cimport write_varint, write_varlong
from cy.produce.waiters cimport Waiters

from asyncio import get_running_loop

from cy.batch import iterate
from cy.batch.compression import compress
from cy.counted import counted
from cy.other_name import OtherName, own_names
from cy.produce.phase import QUEUED
from cy.seconds import not_seconds

cdef extern from "Python.h":
    char *block_data "PyBytes_AS_STRING"(PyObject *block)
    void set_size "Py_SET_SIZE"(void *block, Py_ssize_t size)

# Below this size, releasing the GIL costs more than the sum: getting it back may take milliseconds.
cdef enum:
    GIL_BYTES = 1 << 20

cdef Blocks fresh = Blocks(0)           # a pool that keeps no block


@final
cdef class ProducerBatch:
    def __dealloc__(self):
        Py_XDECREF(self.block)

    def __repr__(self):
        return (
            f"ProducerBatch({self.topic}-{self.partition}, count={self.count}, "
            f"sequence={self.producer_id}/{self.producer_epoch}/{self.base_sequence})"
        )

    @property
    def size(self):
        return len(self.records) if self.records is not None else self.used

    @property
    def plain_size(self):
        return self.used

    @property
    def sealed(self):
        return self.records is not None

    @property
    def has_sequence(self):
        return self.base_sequence >= 0

    @property
    def is_decided(self):
        return self.done or self.tell is not None

    @property
    def is_watched(self):
        return bool(self.reports)

    @property
    def is_heard(self):
        return self.asked or bool(self.reports)

    @property
    def leaves(self):
        cdef list found = []
        if self.parts is None:
            return [self]
        for _, batch in self.parts:
            found += (<ProducerBatch>batch).leaves
        return found

    # ---- growing ------------------------------------------------------------------------------

    cdef int settle(self, Blocks blocks, Py_ssize_t size, Py_ssize_t most) except -1:
        self.block = blocks.take(size, most, &self.capacity)
        self.data = <uint8_t *>block_data(self.block)
        self.charged = self.capacity
        self.used = HEADER_SIZE
        return 0

    cdef int grow(self, Blocks blocks, Py_ssize_t size) except -1:
        cdef PyObject *old = self.block
        cdef Py_ssize_t before = self.capacity
        self.block = blocks.take(size, size, &self.capacity)
        self.data = <uint8_t *>block_data(self.block)
        memcpy(self.data, block_data(old), self.used)
        blocks.give(old, before)
        self.charged += self.capacity - before
        return 0

    cdef int leave(self, Blocks blocks) noexcept:
        if self.plain is None:
            return 0
        cdef PyObject *block = <PyObject *>self.plain
        Py_INCREF(self.plain)
        self.records = self.plain = None
        blocks.give(block, self.capacity)
        return 0

    cdef void write(
        self, int64_t timestamp, const uint8_t *key, Py_ssize_t key_length, const uint8_t *value,
        Py_ssize_t value_length, const uint8_t *headers, Py_ssize_t headers_length,
    ) noexcept nogil:
        if self.count == 0:
            self.base_timestamp = self.max_timestamp = timestamp
        cdef int64_t since = timestamp - self.base_timestamp
        cdef int32_t length = length_of(since, self.count, key_length, value_length, headers_length)
        cdef uint8_t *at = write_varint(self.data + self.used, length)
        at[0] = 0
        at = write_varint(write_varlong(at + 1, since), self.count)
        at = write_field(write_field(at, key, key_length), value, value_length)
        if headers_length == 0:
            at[0] = 0
            at += 1
        else:
            memcpy(at, headers, headers_length)
            at += headers_length
        self.used = at - self.data
        self.count += 1
        if timestamp > self.max_timestamp:
            self.max_timestamp = timestamp

    def append(self, int64_t timestamp, key, value, headers=None):
        """Adds a record, however large. For tests and ``split``."""
        cdef bytes tail = encode_headers(headers) if headers else None
        cdef bytes k = key
        cdef bytes v = value
        cdef Py_ssize_t size = RECORD_OVERHEAD + HEADER_SIZE + len(k or b"") + len(v or b"")
        size += len(tail or b"")
        if self.data == NULL:
            raise ValueError(f"{self!r} is sealed")
        if self.used + size > self.capacity:
            self.grow(fresh, self.used + size)
        self.write(
            timestamp,
            NULL if k is None else <uint8_t *>PyBytes_AS_STRING(k), -1 if k is None else len(k),
            NULL if v is None else <uint8_t *>PyBytes_AS_STRING(v), -1 if v is None else len(v),
            NULL if tail is None else <uint8_t *>PyBytes_AS_STRING(tail),
            0 if tail is None else len(tail),
        )
        return new_report(self, self.count - 1, timestamp)

    # ---- sending ------------------------------------------------------------------------------

    def seal(self, int codec=0, level=None, bint transactional=False):
        cdef bytes plain
        cdef PyObject *block
        if self.data == NULL:
            return
        self.fill_header(codec | (TRANSACTIONAL_FLAG if transactional else 0))
        self.data[self.used] = 0
        self.data = NULL
        set_size(self.block, self.used)
        block = self.block
        self.block = NULL
        plain = <bytes>block
        Py_XDECREF(block)
        self.records = self.plain = plain
        if codec:
            self.records = packed(plain, codec, level)

    cdef void fill_header(self, int16_t attributes) noexcept:
        cdef uint8_t *at = self.data
        store_int64(at + BASE_OFFSET_AT, 0)
        store_int32(at + LENGTH_AT, <int32_t>(self.used - LOG_OVERHEAD))
        store_int32(at + LEADER_EPOCH_AT, -1)
        at[MAGIC_AT] = 2
        store_int16(at + ATTRIBUTES_AT, attributes)
        store_int32(at + LAST_OFFSET_DELTA_AT, self.count - 1)
        store_int64(at + BASE_TIMESTAMP_AT, self.base_timestamp)
        store_int64(at + MAX_TIMESTAMP_AT, self.max_timestamp)
        store_int64(at + PRODUCER_ID_AT, -1)
        store_int16(at + PRODUCER_EPOCH_AT, -1)
        store_int32(at + BASE_SEQUENCE_AT, -1)
        store_int32(at + COUNT_AT, self.count)

    def assign(self, int64_t producer_id=-1, int16_t epoch=-1, int32_t sequence=-1):
        if self.records is None:
            raise ValueError(f"{self!r} is not sealed")
        if self.attempts:
            self.records = PyBytes_FromStringAndSize(
                PyBytes_AS_STRING(self.records), len(self.records)
            )
        cdef uint8_t *at = <uint8_t *>PyBytes_AS_STRING(self.records)
        cdef Py_ssize_t covered = len(self.records) - ATTRIBUTES_AT
        cdef int32_t crc
        store_int64(at + PRODUCER_ID_AT, producer_id)
        store_int16(at + PRODUCER_EPOCH_AT, epoch)
        store_int32(at + BASE_SEQUENCE_AT, sequence)
        if covered >= GIL_BYTES:
            with nogil:
                crc = <int32_t>crc32c_update(0, at + ATTRIBUTES_AT, covered)
        else:
            crc = <int32_t>crc32c_update(0, at + ATTRIBUTES_AT, covered)
        store_int32(at + CRC_AT, crc)
        self.producer_id = producer_id
        self.producer_epoch = epoch
        self.base_sequence = sequence

    def clear_sequence(self):
        """Removes the sequence. The batch was not appended and will get another one."""
        self.base_sequence = -1

    def reserve_sequence(self, int32_t sequence):
        """Sets the sequence that ``assign`` will write."""
        self.base_sequence = sequence

    def split(self, Py_ssize_t limit):
        """Splits the records into at least two batches, each of at most ``limit`` bytes or with a single record."""
        cdef list parts = []
        cdef ProducerBatch part = None
        cdef Py_ssize_t size
        cdef int32_t index = 0
        for record in iterate(plain_of(self.plain), check_crcs=False):
            size = RECORD_OVERHEAD + len(record.key or b"") + len(record.value or b"")
            size += len(encode_headers(record.headers)) if record.headers else 0
            is_last = index == self.count - 1
            if part is None or part.used + size > limit or (is_last and len(parts) == 1):
                part = begin(self.topic, self.partition, capacity=min(limit, 16384), created=self.created)
                part.before_wait = self.before_wait
                parts.append((index, part))
            part.append(
                record.timestamp,
                None if record.key is None else bytes(record.key),
                None if record.value is None else bytes(record.value),
                record.headers,
            )
            index += 1
        self.replace_by(parts)
        return [batch for _, batch in parts]

    cdef replace_by(self, list parts):
        """Replaces this batch by its parts: its reports move to them, and its waiters wait for all of them."""
        cdef DeliveryReport report
        cdef ProducerBatch part
        self.parts = parts
        for report in self.reports or ():
            part = report.home()
            part.reports.append(report)
        self.reports = None
        for _, batch in parts:
            part = batch
            part.asked = self.asked
            part.add_waiter(self.part_done)

    def part_done(self):
        cdef ProducerBatch part
        for _, batch in self.parts:
            part = batch
            if not part.done:
                return
            if part.error is not None:
                self.error = part.error
        self.finish()

    # ---- done ---------------------------------------------------------------------------------

    def complete(self, int64_t base_offset, int64_t log_append_time=-1):
        if self.done:
            return
        self.base_offset = base_offset
        self.log_append_time = log_append_time
        self.finish()

    def fail(self, error, record_errors=None):
        if self.done:
            return
        self.error = error
        self.record_errors = record_errors
        self.finish()

    cdef finish(self):
        self.records = self.plain = None
        self.done = True
        self.waiters.tell()

    def run_callbacks(self, on_error):
        """Calls the records' callbacks. If one raises, calls ``on_error(callback)`` in its ``except`` block."""
        cdef DeliveryReport report
        reports, self.reports = self.reports, None
        for report in reports or ():
            try:
                report.deliver()
            except BaseException:               # SystemExit too: the other callbacks are still called
                on_error(report.callback)

    def add_waiter(self, waiter):
        """Calls ``waiter()`` when the batch is done, or at once if it is done already."""
        self.waiters.add(waiter)

    def wait(self, timeout=None):
        """Waits. Returns True if the batch was done within ``timeout`` seconds. A signal interrupts the wait."""
        cdef double limit = INFINITY
        if self.done:
            return True
        if timeout is not None:
            try:
                limit = timeout
            except TypeError:
                raise not_seconds(timeout) from None
        self.asked = True
        told = None if self.before_wait is None else self.before_wait(self)
        if self.done:
            return True
        return self.waiters.wait(told, limit)


cdef ProducerBatch new_batch(str topic, int32_t partition, double created):
    cdef ProducerBatch batch = ProducerBatch.__new__(ProducerBatch)
    batch.topic = topic
    batch.partition = partition
    batch.created = created
    batch.phase = QUEUED
    batch.reports = []
    batch.waiters = Waiters()
    batch.producer_id = batch.producer_epoch = batch.base_sequence = -1
    batch.base_offset = batch.log_append_time = -1
    return batch


def begin(str topic, int32_t partition, *, Py_ssize_t capacity=16384, double created=0):
    cdef ProducerBatch batch = new_batch(topic, partition, created)
    capacity = max(capacity, <Py_ssize_t>HEADER_SIZE)
    batch.settle(fresh, capacity, capacity)
    return batch


cdef inline uint8_t *write_field(
    uint8_t *at, const uint8_t *data, Py_ssize_t length
) noexcept nogil:
    at = write_varint(at, <int32_t>length)
    if length > 0:
        memcpy(at, data, length)
        at += length
    return at


cdef bytes packed(bytes plain, int codec, object level):
    """Returns the batch with its records compressed."""
    cdef bytes records = compress(codec, memoryview(plain)[HEADER_SIZE:], level)
    cdef bytes batch = PyBytes_FromStringAndSize(NULL, HEADER_SIZE + len(records))
    cdef uint8_t *at = <uint8_t *>PyBytes_AS_STRING(batch)
    memcpy(at, PyBytes_AS_STRING(plain), HEADER_SIZE)
    memcpy(at + HEADER_SIZE, PyBytes_AS_STRING(records), len(records))
    store_int32(at + LENGTH_AT, <int32_t>(len(batch) - LOG_OVERHEAD))
    return batch


cdef bytes plain_of(bytes plain):
    """Returns the batch before compression, with attributes without a codec."""
    cdef bytes batch = PyBytes_FromStringAndSize(PyBytes_AS_STRING(plain), len(plain))
    cdef uint8_t *at = <uint8_t *>PyBytes_AS_STRING(batch)
    store_int16(at + ATTRIBUTES_AT, load_int16(at + ATTRIBUTES_AT) & ~CODEC_MASK)
    return batch


def not_within(timeout, ProducerBatch batch not None):
    """Returns the message for a batch that was not done within ``timeout`` seconds."""
    cdef str text = f"{batch.topic}-{batch.partition}: not delivered within {timeout:.3g} s: "
    if batch.last_error is not None:
        return text + f"after {counted(batch.attempts, 'attempt')}, the last: {batch.last_error}"
    if batch.attempts:
        return text + "sent, and not answered yet"
    return text + "not sent yet"


# ---- what applications see -----------------------------------------------------------------------

cdef object wait_async = None


def set_wait_async(function):
    """Makes ``await report`` iterate over ``function(report)``, because this module knows no event loop."""
    global wait_async
    wait_async = function


def how_to_wait(str them):
    """Returns advice how this thread can wait for one report, or many. The TypeError of asyncio.create_task shows it,
    too.
    """
    try:
        get_running_loop()
    except RuntimeError:
        return f"result() waits for {them}"
    return f"await {them}, or asyncio.ensure_future({them})"


cdef object await_of(object deliveries):
    return wait_async(deliveries)


cdef DeliveryReport new_report(ProducerBatch batch, int32_t index, int64_t timestamp):
    cdef DeliveryReport report = DeliveryReport.__new__(DeliveryReport)
    report.batch = batch
    report.index = index
    report.timestamp = timestamp
    return report


CALLBACK = "send(…, on_delivery=f), which calls f(metadata, error)"


# No reference cycle outlives the batch: it drops its reports when it is done.
@final
@no_gc
@freelist(1024)
cdef class DeliveryReport:
    cdef ProducerBatch home(self):
        """Returns the batch that has the record, after splits."""
        cdef Py_ssize_t at
        while self.batch.parts is not None:
            at = len(self.batch.parts) - 1
            while self.batch.parts[at][0] > self.index:
                at -= 1
            first, batch = self.batch.parts[at]
            self.index -= first
            self.batch = batch
        return self.batch

    cdef int deliver(self) except -1:
        """Calls the record's callback with its outcome."""
        error = self.error
        self.callback(self.metadata if error is None else None, error)
        return 0

    @property
    def done(self):
        return self.home().done

    @property
    def error(self):
        cdef ProducerBatch batch = self.home()
        if batch.record_errors is None:
            return batch.error
        return batch.record_errors.get(self.index, batch.error)

    @property
    def metadata(self):
        cdef ProducerBatch batch = self.home()
        if not batch.done or batch.error is not None:
            return None
        cdef RecordMetadata metadata = RecordMetadata.__new__(RecordMetadata)
        metadata.topic = batch.topic
        metadata.partition = batch.partition
        metadata.offset = batch.base_offset + self.index if batch.base_offset >= 0 else -1
        metadata.timestamp = (
            self.timestamp if batch.log_append_time < 0 else batch.log_append_time
        )
        return metadata

    @property
    def topic(self):
        return self.batch.topic

    @property
    def partition(self):
        return self.batch.partition

    def result(self, timeout=None):
        if not self.batch.wait(timeout):
            raise TimeoutError(not_within(timeout, self.home()))
        return self.outcome()

    def outcome(self):
        """Returns the metadata of a finished report, or raises its error."""
        error = self.error
        if error is not None:
            raise error
        return self.metadata

    def add_done_callback(self, function):
        """Calls ``function()`` when the record's outcome is known, on the sender's thread."""
        self.batch.asked = True
        self.batch.add_waiter(function)

    get = OtherName("get", "result(timeout)")
    add_callback = OtherName("add_callback", CALLBACK)
    add_errback = OtherName("add_errback", CALLBACK)
    add_both = OtherName("add_both", CALLBACK)
    succeeded = OtherName("succeeded", "done, with None as error")
    failed = OtherName("failed", "error, which is None after a success")
    is_done = OtherName("is_done", "done")
    __dir__ = own_names

    def __await__(self):
        return await_of(self)

    def __repr__(self):
        state = "done" if self.done else f"pending: {how_to_wait('it')}"
        return f"DeliveryReport({self.batch.topic}-{self.batch.partition}, {state})"
