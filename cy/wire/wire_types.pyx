"""Reads and writes values on the wire: numbers, texts, bytes, arrays.

Grammar (Kafka's protocol guide; KIP-482 for the flexible versions)
    int8 int16 uint16 int32 uint32 int64 float64    big-endian
    bool            one byte, 0 is false
    uuid            16 bytes
    string          int16 length, UTF-8;            compact: uvarint length + 1, UTF-8
    bytes, records  int32 length, the bytes;        compact: uvarint length + 1, the bytes
    array           int32 count, the elements;      compact: uvarint count + 1, the elements
                    null: length or count -1;       compact: 0

A wire type is an object with two C methods, ``decode`` and ``encode``. Limits: ``Reader`` checks the bounds of every
read. A count is refused if that many elements of the least size do not fit into the remaining bytes. Each object is
charged to the reader's budget before it is created. So memory grows with the bytes that arrived, whatever they declare.
Text is at most 32767 bytes, as in Kafka.
"""

cimport cython
from cpython.buffer cimport (
    Py_buffer, PyBUF_SIMPLE, PyBuffer_Release, PyObject_CheckBuffer, PyObject_GetBuffer,
)
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from cpython.long cimport PyLong_AsLongLong
from cpython.object cimport PyObject
from libc.stdint cimport int32_t, int64_t, uint32_t, uint64_t
from libc.string cimport memcpy

from cy.wire.buffer cimport Reader, Writer
from cy.endian cimport load_uint16, load_uint32, load_uint64

from cy.wire.buffer import DecodeError, EncodeError

cdef extern from "<unistd.h>" nogil:
    int usleep(unsigned int microseconds)

cdef extern from "Python.h":
    const char *PyUnicode_AsUTF8AndSize(object text, Py_ssize_t *size) except NULL
    Py_ssize_t PySequence_Fast_GET_SIZE(object values)
    PyObject *PySequence_Fast_GET_ITEM(object values, Py_ssize_t i)

cdef enum:
    LONGEST_TEXT = 0x7fff
    WORTH_A_PIECE = 16384       # bytes from here on are not copied into the frame
    LARGEST = 0x7fffffff
    CHEAP_BYTES = 4096          # bytes copied in the time of one unit
    POLITE = 1024               # elements, of all arrays together, after which other threads may run
    AWAY_US = 50


cdef class WireType:
    """How values of one type look on the wire. ``min_size`` is the least number of bytes of a value."""

    def __cinit__(self, *args, **kwargs):
        self.cost = 1

    cdef object decode(self, Reader reader):
        raise TypeError(f"{type(self).__name__} has no values")

    cdef int encode(self, Writer writer, object value) except -1:
        raise TypeError(f"{type(self).__name__} has no values")


cdef inline int64_t integer(object value, int64_t least, int64_t most) except? -1:
    cdef int64_t number = PyLong_AsLongLong(value)
    if number < least or number > most:
        raise EncodeError(f"{number} is outside {least}..{most}")
    return number


@cython.final
cdef class Bool(WireType):
    def __cinit__(self):
        self.min_size = 1

    cdef object decode(self, Reader reader):
        return reader.take(1)[0] != 0

    cdef int encode(self, Writer writer, object value) except -1:
        return writer.int8(1 if value else 0)


@cython.final
cdef class Int8(WireType):
    def __cinit__(self):
        self.min_size = 1

    cdef object decode(self, Reader reader):
        return <signed char>reader.take(1)[0]

    cdef int encode(self, Writer writer, object value) except -1:
        return writer.int8(<signed char>integer(value, -0x80, 0x7f))


@cython.final
cdef class Int16(WireType):
    def __cinit__(self):
        self.min_size = 2

    cdef object decode(self, Reader reader):
        return reader.int16()

    cdef int encode(self, Writer writer, object value) except -1:
        return writer.int16(<int>integer(value, -0x8000, 0x7fff))


@cython.final
cdef class UInt16(WireType):
    def __cinit__(self):
        self.min_size = 2

    cdef object decode(self, Reader reader):
        return load_uint16(reader.take(2))

    cdef int encode(self, Writer writer, object value) except -1:
        return writer.int16(<int>integer(value, 0, 0xffff))


@cython.final
cdef class Int32(WireType):
    def __cinit__(self):
        self.min_size = 4

    cdef object decode(self, Reader reader):
        return reader.int32()

    cdef int encode(self, Writer writer, object value) except -1:
        return writer.int32(<int32_t>integer(value, -0x80000000, 0x7fffffff))


@cython.final
cdef class UInt32(WireType):
    def __cinit__(self):
        self.min_size = 4

    cdef object decode(self, Reader reader):
        return load_uint32(reader.take(4))

    cdef int encode(self, Writer writer, object value) except -1:
        return writer.int32(<int32_t>integer(value, 0, 0xffffffff))


@cython.final
cdef class Int64(WireType):
    def __cinit__(self):
        self.min_size = 8

    cdef object decode(self, Reader reader):
        return reader.int64()

    cdef int encode(self, Writer writer, object value) except -1:
        return writer.int64(PyLong_AsLongLong(value))


@cython.final
cdef class Float64(WireType):
    def __cinit__(self):
        self.min_size = 8

    cdef object decode(self, Reader reader):
        cdef uint64_t raw = load_uint64(reader.take(8))
        cdef double value
        memcpy(&value, &raw, 8)
        return value

    cdef int encode(self, Writer writer, object value) except -1:
        cdef double number = value
        cdef int64_t raw
        memcpy(&raw, &number, 8)
        return writer.int64(raw)


@cython.final
cdef class Uuid(WireType):
    def __cinit__(self):
        self.min_size = 16

    cdef object decode(self, Reader reader):
        return PyBytes_FromStringAndSize(<const char *>reader.take(16), 16)

    cdef int encode(self, Writer writer, object value) except -1:
        if not isinstance(value, bytes) or PyBytes_GET_SIZE(value) != 16:
            raise EncodeError(f"{value!r} is not an id of 16 bytes")
        return writer.put(PyBytes_AS_STRING(value), 16)


cdef inline Py_ssize_t read_size(Sized self, Reader reader) except -2:
    """Reads the size, -1 for null."""
    cdef Py_ssize_t size
    if self.compact:
        size = <Py_ssize_t>reader.uvarint() - 1
    else:
        size = reader.int16() if self.width == 2 else reader.int32()
    if size < 0 and not (size == -1 and self.nullable):
        raise DecodeError(f"the length {size} of what cannot be null")
    return size


cdef inline int write_size(Sized self, Writer writer, Py_ssize_t size) except -1:
    if size > (LONGEST_TEXT if self.width == 2 else LARGEST):
        raise EncodeError(f"{size} bytes or elements are too many")
    if self.compact:
        return writer.uvarint(<uint32_t>(size + 1))
    return writer.int16(size) if self.width == 2 else writer.int32(size)


cdef class Sized(WireType):
    """Values that start with their length or count: in ``width`` bytes, or compact, as a uvarint."""

    def __cinit__(self, *args, bint compact=False, bint nullable=False):
        self.compact = compact
        self.nullable = nullable
        self.width = 2 if type(self) is String else 4
        self.min_size = 1 if compact else self.width

    cdef int write_null(self, Writer writer) except -1:
        if not self.nullable:
            raise EncodeError("None is not allowed here in this version")
        return write_size(self, writer, -1)


@cython.final
cdef class String(Sized):
    cdef object decode(self, Reader reader):
        cdef Py_ssize_t size = read_size(self, reader)
        if size < 0:
            return None
        if size > LONGEST_TEXT:
            raise DecodeError(f"a text of {size} bytes; the limit is {LONGEST_TEXT}")
        return reader.text(size)

    cdef int encode(self, Writer writer, object value) except -1:
        cdef Py_ssize_t size
        cdef const char *text
        if value is None:
            return self.write_null(writer)
        text = PyUnicode_AsUTF8AndSize(value, &size)
        write_size(self, writer, size)
        return writer.put(text, size)


cdef class Bytes(Sized):
    cdef object decode(self, Reader reader):
        cdef const unsigned char *at
        cdef Py_ssize_t size = read_size(self, reader)
        if size < 0:
            return None
        at = reader.take(size)
        reader.spend(size // CHEAP_BYTES)
        return PyBytes_FromStringAndSize(<const char *>at, size)

    cdef int encode(self, Writer writer, object value) except -1:
        cdef Py_buffer view
        if value is None:
            return self.write_null(writer)
        if (
            isinstance(value, bytes)
            and PyBytes_GET_SIZE(value) >= WORTH_A_PIECE
            and not writer.joined
        ):
            return self.encode_apart(writer, value, PyBytes_GET_SIZE(value))
        PyObject_GetBuffer(value, &view, PyBUF_SIMPLE)
        try:
            write_size(self, writer, view.len)
            return writer.put(view.buf, view.len)
        finally:
            PyBuffer_Release(&view)

    cdef int encode_apart(self, Writer writer, object value, Py_ssize_t size) except -1:
        write_size(self, writer, size)
        return writer.insert(value, size)


@cython.final
cdef class Records(Bytes):
    """Record batches. They are decoded to a memoryview of the buffer. A slice of a file is not copied."""

    cdef object decode(self, Reader reader):
        cdef Py_ssize_t size = read_size(self, reader)
        return None if size < 0 else reader.slice(size)

    cdef int encode(self, Writer writer, object value) except -1:
        if value is None or PyObject_CheckBuffer(value):
            return Bytes.encode(self, writer, value)
        return self.encode_apart(writer, value, value.length)


cdef inline Py_ssize_t make_way(Py_ssize_t since) except -1:
    """Counts an element. After ``POLITE`` elements, releases the GIL long enough for a waiting thread to wake up.
    Returns the count.
    """
    if since < POLITE:
        return since + 1
    with nogil:
        usleep(AWAY_US)
    return 0


@cython.final
cdef class Array(Sized):
    """A list of ``element``. A tuple can be encoded as well."""

    def __init__(self, WireType element, *, bint compact=False, bint nullable=False):
        self.element = element
        self.nests = True

    cdef object decode(self, Reader reader):
        cdef Py_ssize_t _, count = read_size(self, reader)
        if count < 0:
            return None
        if count > (reader.end - reader.ptr) // max(self.element.min_size, 1):
            raise DecodeError(f"{count} elements do not fit into {reader.end - reader.ptr} bytes")
        reader.spend(count * self.element.cost)
        values = []
        for _ in range(count):
            values.append(self.element.decode(reader))
            if reader.polite:
                reader.since_way = make_way(reader.since_way)
        return values

    cdef int encode(self, Writer writer, object value) except -1:
        cdef Py_ssize_t i, count
        if value is None:
            return self.write_null(writer)
        if type(value) is EncodedArray:
            return self.encode_again(writer, <EncodedArray>value)
        if not isinstance(value, (list, tuple)):
            raise EncodeError(f"expected a list, not {value!r}")
        count = PySequence_Fast_GET_SIZE(value)
        write_size(self, writer, count)
        writer.spend(count * self.element.cost)
        for i in range(count):
            self.element.encode(writer, <object>PySequence_Fast_GET_ITEM(value, i))
            if writer.polite:
                writer.since_way = make_way(writer.since_way)
        return 0

    cdef int encode_again(self, Writer writer, EncodedArray value) except -1:
        cdef bytes elements = value.finished()
        cdef Py_ssize_t size = PyBytes_GET_SIZE(elements)
        write_size(self, writer, value.count)
        if size >= WORTH_A_PIECE and not writer.joined:
            return writer.insert(elements, size)
        writer.spend(size // CHEAP_BYTES)
        return writer.put(PyBytes_AS_STRING(elements), size)


@cython.final
cdef class EncodedArray:
    """An array whose elements are encoded as they are appended, each by the type ``element``.

    It can be the value of an array field in many messages, which then copy or share its bytes. They must be messages
    whose elements have that type, and after the first of them nothing may be appended.
    """

    def __cinit__(self, WireType element):
        self.element = element
        self.writer = Writer()
        self.writer.joined = True       # all bytes are in one piece

    def append(self, value):
        """Adds an element."""
        if self.writer is None:
            raise EncodeError("the array is in a message already")
        self.element.encode(self.writer, value)
        self.count += 1

    cdef bytes finished(self):
        """Returns all elements, one after the other."""
        if self.writer is not None:
            self.elements = self.writer.result()
            self.writer = None
        return self.elements
