"""Validates a v2 batch (grammar: ``cy.batch``) before a broker appends it.

One pass reads the records by pointers, without the GIL for large batches. If a record breaks a rule, a second pass
finds all that do. The rules are those of Kafka's LogValidator for a client's batch. In addition, offset deltas must be
0, 1, 2 …
"""

from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from libc.stdint cimport INT64_MAX, INT64_MIN, int32_t, int64_t, uint8_t

from cy.batch.header cimport (
    CODEC_MASK, CONTROL_FLAG, DELETE_HORIZON_FLAG, HEADER_SIZE, KNOWN_FLAGS, LOG_APPEND_TIME_FLAG,
    TRANSACTIONAL_FLAG, Batch, any_crc_holds, parse_header,
)
from cy.batch.reader cimport (
    BAD_COUNT, BAD_OFFSET, SOUND, RecordView, check_sizes, inflate, parse_record, reason_text, timestamp_of,
)

from cy.batch.header import CorruptBatch, InvalidBatch

cdef enum:
    GIL_BYTES = 65536

MAX_RECORD_ERRORS = 1000


cdef struct Rules:
    bint require_key
    int64_t min_timestamp
    int64_t max_timestamp


cdef struct Findings:
    int reason                  # why the record ``index`` could not be parsed
    int32_t index
    int32_t complaints          # records that parse and break a rule
    int64_t max_timestamp


cdef inline bint breaks_time(const Rules *rules, int64_t timestamp) noexcept nogil:
    return timestamp != -1 and (timestamp < rules.min_timestamp or timestamp > rules.max_timestamp)


cdef void examine(
    const uint8_t *at, const uint8_t *end, int32_t count, int64_t base_timestamp,
    const Rules *rules, Findings *found,
) noexcept nogil:
    cdef RecordView record
    cdef int64_t timestamp
    found.index = found.complaints = 0
    found.max_timestamp = -1
    while found.index < count:
        found.reason = parse_record(&at, end, &record)
        if not found.reason and record.offset_delta != found.index:
            found.reason = BAD_OFFSET
        if found.reason:
            return
        timestamp = timestamp_of(base_timestamp, record.timestamp_delta)
        if timestamp > found.max_timestamp:
            found.max_timestamp = timestamp
        if breaks_time(rules, timestamp) or (rules.require_key and record.key_length < 0):
            found.complaints += 1
        found.index += 1
    found.reason = SOUND if at == end else BAD_COUNT


cdef object record_fault(const uint8_t *at, const uint8_t *end, Batch batch, const Rules *rules):
    """Makes the second pass, over records that are known to parse, and returns the error with the faulty ones."""
    cdef RecordView record
    cdef int64_t timestamp
    cdef bint late = False
    cdef list errors = []
    for index in range(batch.count):
        parse_record(&at, end, &record)
        timestamp = timestamp_of(batch.base_timestamp, record.timestamp_delta)
        if rules.require_key and record.key_length < 0:
            errors.append((index, "Compacted topic cannot accept message without key."))
        elif breaks_time(rules, timestamp):
            late = True
            errors.append((index, time_text(rules, index, timestamp)))
        if len(errors) == MAX_RECORD_ERRORS:
            break
    what = "invalid timestamp" if late else f"{len(errors)} record errors"
    return InvalidBatch(f"One or more records have been rejected due to {what}", errors, late)


cdef str time_text(const Rules *rules, int32_t index, int64_t timestamp):
    return (
        f"Timestamp {timestamp} of message with offset {index} is out of range. "
        f"The timestamp should be within [{rules.min_timestamp}, {rules.max_timestamp}]."
    )


cdef str header_fault(Batch batch, bint allow_control):
    """Returns the first rule that the header breaks, or None."""
    if batch.count <= 0:
        return f"Invalid reported count for record batch: {batch.count}"
    if batch.count - 1 != batch.last_offset_delta:
        return (f"Inconsistent batch offset range: {batch.count} records, "
                f"last offset delta {batch.last_offset_delta}")
    if batch.attributes & ~KNOWN_FLAGS:
        return f"Unknown attributes of record batch: {batch.attributes:#06x}"
    if allow_control:
        return None
    if batch.attributes & CONTROL_FLAG:
        return "Clients are not allowed to write control records"
    if batch.attributes & DELETE_HORIZON_FLAG:
        return "Clients are not allowed to set a delete horizon"
    if batch.producer_id >= 0 and (batch.base_sequence < 0 or batch.producer_epoch < 0):
        return (f"Invalid sequence number {batch.base_sequence} in record batch with "
                f"producerId {batch.producer_id} and epoch {batch.producer_epoch}")
    if batch.attributes & TRANSACTIONAL_FLAG and batch.producer_id < 0:
        return "Transactional record batch without a producer id"
    return None


cdef int examine_header(
    const uint8_t *at, Py_ssize_t available, Batch batch, bint allow_control
) except -1:
    if batch.size > available:
        raise CorruptBatch(f"batch of {batch.size} bytes is cut after {available}")
    if batch.magic != 2:
        raise InvalidBatch(f"Only record batches of magic version 2 are allowed, not {batch.magic}")
    if not any_crc_holds(at, batch):
        raise CorruptBatch(f"CRC {batch.crc:#010x} of the record batch does not match")
    if batch.size < available:
        raise InvalidBatch(
            f"Exactly one record batch is allowed: {available - batch.size} bytes follow it"
        )
    fault = header_fault(batch, allow_control)
    if fault is not None:
        raise InvalidBatch(fault)
    if batch.attributes & LOG_APPEND_TIME_FLAG and not allow_control:
        raise InvalidBatch("Producer should not set timestamp type to LogAppendTime", (), True)
    return 0


cdef int examine_records(
    const uint8_t *at, const uint8_t *end, Batch batch, const Rules *rules
) except -1:
    cdef Findings found
    cdef int32_t count = batch.count
    cdef int64_t base_timestamp = batch.base_timestamp
    if end - at < GIL_BYTES:
        examine(at, end, count, base_timestamp, rules, &found)
    else:
        with nogil:
            examine(at, end, count, base_timestamp, rules, &found)
    if found.reason:
        raise InvalidBatch(f"Record {found.index} of {count}: {reason_text(found.reason)}")
    if found.complaints:
        raise record_fault(at, end, batch, rules)
    batch.records_max_timestamp = found.max_timestamp
    return 0


cdef int examine_compressed(
    object compressed, Batch batch, const Rules *rules, object max_output, int64_t max_record
) except -1:
    cdef Py_buffer view
    records = inflate(batch.attributes & CODEC_MASK, compressed, max_output)
    PyObject_GetBuffer(records, &view, PyBUF_SIMPLE)
    cdef const uint8_t *at = <const uint8_t *>view.buf
    try:
        check_sizes(at, at + view.len, batch.count, max_record)
        return examine_records(at, at + view.len, batch, rules)
    finally:
        PyBuffer_Release(&view)


def validate(
    buffer, *, bint require_key=False, int64_t min_timestamp=INT64_MIN,
    int64_t max_timestamp=INT64_MAX, bint allow_control=False, max_output=None,
    int64_t max_record=INT64_MAX,
):
    cdef Py_buffer view
    cdef Rules rules = Rules(require_key, min_timestamp, max_timestamp)
    PyObject_GetBuffer(buffer, &view, PyBUF_SIMPLE)
    cdef const uint8_t *at = <const uint8_t *>view.buf
    cdef Batch batch
    try:
        batch = parse_header(at, view.len, 0)
        examine_header(at, view.len, batch, allow_control)
        if batch.attributes & CODEC_MASK:
            compressed = memoryview(buffer).cast("B")[HEADER_SIZE:]
            examine_compressed(compressed, batch, &rules, max_output, max_record)
        else:
            examine_records(at + HEADER_SIZE, at + view.len, batch, &rules)
        return batch
    finally:
        PyBuffer_Release(&view)
