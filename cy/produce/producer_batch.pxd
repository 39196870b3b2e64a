from cpython.object cimport PyObject
from libc.stdint cimport int16_t, int32_t, int64_t, uint8_t

from cy.produce.blocks cimport Blocks
from cy.varint cimport size_of_varint, size_of_varlong
from cy.produce.waiters cimport Waiters

# The most bytes that a record needs beside key, value and headers: length, attributes, timestamp delta, offset delta,
# two lengths, the header count.
cdef enum:
    RECORD_OVERHEAD = 5 + 1 + 10 + 5 + 5 + 5 + 1


# Returns the length field of a record. ``since`` is its time since the batch's first timestamp. A key or value of
# length -1 is null; headers of size 0 are none.
cdef inline int32_t length_of(
    int64_t since, int32_t index, Py_ssize_t key, Py_ssize_t value, Py_ssize_t headers
) noexcept nogil:
    return <int32_t>(
        1 + size_of_varlong(since) + size_of_varint(index)
        + size_of_varint(<int32_t>key) + (key if key > 0 else 0)
        + size_of_varint(<int32_t>value) + (value if value > 0 else 0) + (headers or 1)
    )


cdef class ProducerBatch:
    cdef PyObject *block                # a block of ``capacity`` bytes; no other code sees it until ``seal``
    cdef uint8_t *data                  # the block's first byte; NULL after ``seal``
    cdef Py_ssize_t used
    cdef Py_ssize_t capacity
    cdef readonly Py_ssize_t charged    # the bytes of buffer.memory that it takes
    cdef readonly str topic
    cdef readonly int32_t partition
    cdef readonly int32_t count
    cdef int64_t base_timestamp
    cdef int64_t max_timestamp
    cdef readonly double created        # when it was begun, seconds of the producer's clock
    cdef readonly bytes records         # the whole v2 batch, after ``seal``
    cdef bytes plain                    # the bytes before compression, kept for ``split``
    cdef readonly int64_t producer_id
    cdef readonly int16_t producer_epoch
    cdef readonly int32_t base_sequence
    cdef public object phase            # a Phase
    cdef public object tell             # reports the outcome in the batch's turn; None: unknown, or reported already
    cdef public bint unprovable         # True if nothing can prove any longer that it was written
    cdef public int32_t attempts
    cdef public double retry_at         # the earliest time to send it, seconds of the producer's clock
    cdef public bint maybe_written      # it was sent, and no answer has said that it was not appended
    cdef public object last_error       # why the latest attempt failed
    cdef readonly bint done
    cdef readonly int64_t base_offset
    cdef readonly int64_t log_append_time
    cdef readonly object error
    cdef object record_errors           # errors by the records' indexes, if the batch failed (KIP-467)
    cdef list reports                   # the reports with a callback, in order
    cdef public bint asked              # the application asks for the outcome, or a close will report it
    cdef Waiters waiters                # called once when the batch is done
    cdef object before_wait             # called with this batch before a thread waits, see RecordQueues
    cdef list parts                     # (first index, batch): the parts of a split batch (MESSAGE_TOO_LARGE)

    # Gives a new batch a block of ``size`` to ``most`` bytes.
    cdef int settle(self, Blocks blocks, Py_ssize_t size, Py_ssize_t most) except -1

    cdef int grow(self, Blocks blocks, Py_ssize_t size) except -1

    # Gives up the block, because the batch is never sent again.
    cdef int leave(self, Blocks blocks) noexcept

    cdef void fill_header(self, int16_t attributes) noexcept
    cdef replace_by(self, list parts)
    cdef finish(self)

    # Writes a record for which there is room. A key or value of length -1 is null; headers of size 0 are none.
    cdef void write(
        self, int64_t timestamp, const uint8_t *key, Py_ssize_t key_length, const uint8_t *value,
        Py_ssize_t value_length, const uint8_t *headers, Py_ssize_t headers_length,
    ) noexcept nogil


cdef class DeliveryReport:
    cdef ProducerBatch batch
    cdef int32_t index
    cdef int64_t timestamp
    cdef object callback

    cdef ProducerBatch home(self)
    cdef int deliver(self) except -1


# Returns a batch without a block.
cdef ProducerBatch new_batch(str topic, int32_t partition, double created)

cdef DeliveryReport new_report(ProducerBatch batch, int32_t index, int64_t timestamp)

# Returns what ``await`` of one report, or of many, iterates over.
cdef object await_of(object deliveries)
