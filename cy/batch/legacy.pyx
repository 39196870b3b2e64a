"""Reads message formats v0 and v1 (Kafka 0.8 to 0.10), which old logs have, and converts them to v2.

    message_set := message*
    message     := offset int64, size int32, crc uint32, magic int8 (0, 1), attributes int8,
                   timestamp int64 (v1 only), key_length int32 (-1: null), key,
                   value_length int32 (-1: null), value

``size`` counts from the CRC on; the CRC-32 (zlib's, not CRC-32C) covers magic to the end.
Attributes: bits 0-2 codec, bit 3 LogAppendTime (v1).

Compression wraps: the value of a message with a codec is a compressed message set. The wrapper's offset is that of its
last inner message. Inner offsets are absolute in v0. In v1 they are relative: the inner message at ``r`` has the offset
``wrapper - last + r``. Here ``last`` is the relative offset of the last one (compaction leaves gaps, so it need not be
the count). Until a broker assigns a wrapper's offset, it is 0, and the relative offsets are the offsets. A wrapper with
LogAppendTime gives its own timestamp to all. Wrappers do not nest.

lz4 in v0 has a wrong header checksum (KAFKA-3160): the hash began at the magic number instead of after it. This module
corrects it before the codec reads the frame.
"""

from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from cpython.bytes cimport PyBytes_FromStringAndSize
from cython cimport final
from libc.stdint cimport int32_t, int64_t, int8_t, uint8_t, uint32_t

from cy.batch.header cimport (
    CODEC_MASK, LOG_APPEND_TIME_FLAG, LOG_OVERHEAD, MAGIC_AT, Batch, any_crc_holds, parse_header,
)
from cy.batch.reader cimport Record, inflate
from cy.endian cimport load_int32

from cy.batch.builder import Builder
from cy.batch.header import CorruptBatch, InvalidBatch

cdef enum:
    LZ4 = 3
    MAX_CONVERTED_SIZE = 1 << 20    # a run of single messages becomes batches of about this size


@final
cdef class Message:
    cdef int64_t offset
    cdef int64_t timestamp
    cdef int8_t magic
    cdef uint8_t attributes
    cdef object key
    cdef object value


cdef object take(const uint8_t **cursor, const uint8_t *end):
    """Reads a length (-1: null) and that many bytes."""
    cdef int32_t length
    if end - cursor[0] < 4:
        raise CorruptBatch("a key or value of a message is cut")
    length = load_int32(cursor[0])
    cursor[0] += 4
    if length < -1 or length > end - cursor[0]:
        raise CorruptBatch(f"a key or value of {length} bytes runs past its message")
    if length < 0:
        return None
    cursor[0] += length
    return PyBytes_FromStringAndSize(<const char *>cursor[0] - length, length)


cdef Message parse_message(const uint8_t *at, Py_ssize_t available, Py_ssize_t position):
    cdef Batch header = parse_header(at, available, position)
    if header.magic > 1 or header.size > available:
        raise CorruptBatch(f"{available} bytes at {position} are not a whole message of v0 or v1")
    if not any_crc_holds(at, header):
        raise CorruptBatch(f"the CRC of the message at offset {header.base_offset} does not match")
    cdef Message message = Message.__new__(Message)
    cdef const uint8_t *end = at + header.size
    message.offset = header.base_offset
    message.timestamp = header.max_timestamp
    message.magic = header.magic
    message.attributes = <uint8_t>header.attributes
    at += MAGIC_AT + (10 if header.magic else 2)
    message.key = take(&at, end)
    message.value = take(&at, end)
    if at != end:
        raise CorruptBatch(f"{end - at} bytes follow the message at offset {message.offset}")
    return message


cdef list parse_messages(object data):
    """Returns the messages of a set, without an incomplete last one."""
    cdef Py_buffer view
    cdef Py_ssize_t position = 0
    cdef list messages = []
    PyObject_GetBuffer(data, &view, PyBUF_SIMPLE)
    cdef const uint8_t *at = <const uint8_t *>view.buf
    try:
        while view.len - position >= LOG_OVERHEAD:
            size = LOG_OVERHEAD + <int64_t>load_int32(at + position + 8)
            if size > view.len - position:
                break
            messages.append(parse_message(at + position, view.len - position, position))
            position += size
    finally:
        PyBuffer_Release(&view)
    return messages


cdef list unwrap(Message wrapper, object max_output):
    """Returns the messages in a wrapper, with their absolute offsets and final timestamps."""
    cdef int codec = wrapper.attributes & CODEC_MASK
    cdef Message message
    cdef int64_t shift = 0
    if wrapper.value is None:
        raise InvalidBatch(f"the compressed message at offset {wrapper.offset} has no value")
    value = right_lz4(wrapper.value) if codec == LZ4 and wrapper.magic == 0 else wrapper.value
    cdef list messages = parse_messages(inflate(codec, value, max_output))
    if not messages:
        raise InvalidBatch(f"the compressed message at offset {wrapper.offset} is empty")
    if wrapper.magic == 1:
        shift = max(0, wrapper.offset - (<Message>messages[len(messages) - 1]).offset)
    for message in messages:
        if message.attributes & CODEC_MASK or message.magic != wrapper.magic:
            raise InvalidBatch(
                f"the compressed message at offset {wrapper.offset} wraps another or mixes formats"
            )
        message.offset += shift
        if wrapper.attributes & LOG_APPEND_TIME_FLAG:
            message.timestamp = wrapper.timestamp
    return messages


def iterate(buffer, max_output=None):
    cdef Message message
    for message in parse_messages(buffer):
        if message.attributes & CODEC_MASK:
            yield from [make_record(inner) for inner in unwrap(message, max_output)]
        else:
            yield make_record(message)


cdef Record make_record(Message message):
    cdef Record record = Record.__new__(Record)
    record.offset = message.offset
    record.timestamp = message.timestamp
    record.key = message.key
    record.value = message.value
    record.headers = []
    return record


# ---- conversion --------------------------------------------------------------------------------

def up_convert(buffer, *, max_output=None):
    cdef Message message
    cdef list batches = []
    cdef Run run = Run()
    for message in parse_messages(buffer):
        if message.attributes & CODEC_MASK:
            batches.append(run.finish())
            run.begin(message)
            for inner in unwrap(message, max_output):
                run.add(inner)
            batches.append(run.finish())
        else:
            if not run.goes_on_with(message):
                batches.append(run.finish())
                run.begin(message)
            run.add(message)
    batches.append(run.finish())
    return b"".join(batches)


@final
cdef class Run:
    """The messages of one batch: those of a wrapper, or consecutive single ones of the same kind."""
    cdef object builder
    cdef Message first

    cdef int begin(self, Message message) except -1:
        self.first = None
        self.builder = Builder(
            codec=message.attributes & CODEC_MASK,
            log_append_time=bool(message.attributes & LOG_APPEND_TIME_FLAG),
        )
        return 0

    cdef bint goes_on_with(self, Message message) except -1:
        if self.builder is None or self.builder.size > MAX_CONVERTED_SIZE:
            return False
        if message.attributes & LOG_APPEND_TIME_FLAG and message.timestamp != self.first.timestamp:
            return False
        if message.attributes != self.first.attributes:
            return False
        return 0 <= message.offset - self.first.offset < 1 << 30

    cdef int add(self, Message message) except -1:
        if self.first is None:
            self.first = message
        delta = message.offset - self.first.offset
        try:
            self.builder.append(message.timestamp, message.key, message.value, (), delta)
        except ValueError as error:
            raise InvalidBatch(f"message at offset {message.offset}: {error}") from None
        return 0

    cdef bytes finish(self):
        if self.builder is None:
            return b""
        cdef bytes batch = self.builder.build(self.first.offset)
        self.builder = self.first = None
        return batch


# ---- the lz4 header of v0 ----------------------------------------------------------------------

cdef object right_lz4(bytes frame):
    """Returns the frame with the header checksum that the lz4 format requires."""
    cdef Py_ssize_t at = 14 if len(frame) > 14 and frame[4] & 0x08 else 6
    if len(frame) <= at:
        return frame
    return frame[:at] + bytes((xxh32_short(frame[4:at]) >> 8 & 0xFF,)) + frame[at + 1:]


cdef uint32_t rotated(uint32_t value, int bits) noexcept:
    return (value << bits) | (value >> (32 - bits))


cdef uint32_t xxh32_short(bytes data):
    """Returns xxHash32, with seed 0, of fewer than 16 bytes."""
    cdef uint32_t state = 374761393U + <uint32_t>len(data)
    cdef Py_ssize_t words = len(data) // 4
    cdef Py_ssize_t index
    for index in range(words):
        word = int.from_bytes(data[4 * index:4 * index + 4], "little")
        state = rotated(state + <uint32_t>word * 3266489917U, 17) * 668265263U
    for index in range(4 * words, len(data)):
        state = rotated(state + <uint32_t><uint8_t>data[index] * 374761393U, 11) * 2654435761U
    state = (state ^ state >> 15) * 2246822519U
    state = (state ^ state >> 13) * 3266489917U
    return state ^ state >> 16
