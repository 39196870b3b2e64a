"""Executes the compiled message plans: messages to bytes and back.

Grammar (Kafka's protocol guide; KIP-482 for the flexible versions)
    int8 int16 uint16 int32 uint32 int64 float64    big-endian
    bool            one byte, 0 is false
    uuid            16 bytes
    string          int16 length, UTF-8;            compact: uvarint length + 1, UTF-8
    bytes, records  int32 length, the bytes;        compact: uvarint length + 1, the bytes
    array           int32 count, the elements;      compact: uvarint count + 1, the elements
                    null: length or count -1;       compact: 0
    struct          the fields in order;            flexible: then uvarint count of tagged fields,
                                                    each uvarint tag, uvarint size, value
    struct or null  int8, -1 for null, else 1 and the struct

A wire type is an object with two C methods, ``decode`` and ``encode``; a ``Plan`` is the wire type
of a struct in one version: the types of its fields, each with the place of the field's pointer in
an instance of the message class. Message classes are ordinary Python classes with ``__slots__``,
made by ``message_class``; a plan reads and writes the slots by their offsets, and the keyword
constructor is a C function, so a field costs tens of nanoseconds and no Python call.

Limits: every read is bounds-checked by ``Reader``; a count is refused when so many smallest
elements do not fit into the bytes left; so memory grows with the bytes that arrived, whatever they
declare. Text is at most 32767 bytes, as in Kafka.
"""

import sys

cimport cython
from cpython.buffer cimport (
    Py_buffer, PyBUF_SIMPLE, PyBuffer_Release, PyObject_CheckBuffer, PyObject_GetBuffer,
)
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from cpython.dict cimport PyDict_GetItem
from cpython.list cimport PyList_New
from cpython.long cimport PyLong_AsLongLong
from cpython.mem cimport PyMem_Calloc, PyMem_Free
from cpython.object cimport PyObject, PyTypeObject
from cpython.ref cimport Py_INCREF, Py_XDECREF
from libc.stdint cimport int32_t, int64_t, uint32_t, uint64_t
from libc.string cimport memcpy, memmove

from cy.buffer cimport Reader, Writer
from cy.endian cimport load_uint16, load_uint32, load_uint64, store_int32
from cy.varint cimport size_of_unsigned_varlong, write_unsigned_varlong
from cy.buffer import DecodeError, EncodeError

cdef extern from *:
    """
    #include <structmember.h>

    /* Where the slot of a member descriptor lies within an instance; -1 if it is none. */
    static Py_ssize_t pyb_slot_offset(PyObject *descriptor) {
        if (!PyObject_TypeCheck(descriptor, &PyMemberDescr_Type)) return -1;
        return ((PyMemberDescrObject *)descriptor)->d_member->offset;
    }
    static PyObject *pyb_alloc(PyTypeObject *type) { return type->tp_alloc(type, 0); }
    static PyObject *pyb_type_dict(PyObject *type) { return ((PyTypeObject *)type)->tp_dict; }
    static void pyb_set_vectorcall(PyObject *type, void *function) {
        ((PyTypeObject *)type)->tp_vectorcall = (vectorcallfunc)function;
    }
    """
    Py_ssize_t pyb_slot_offset(object descriptor)
    object pyb_alloc(PyTypeObject *type)
    PyObject *pyb_type_dict(object type)
    void pyb_set_vectorcall(object type, void *function)

cdef extern from "Python.h":
    const char *PyUnicode_AsUTF8AndSize(object text, Py_ssize_t *size) except NULL
    Py_ssize_t PyVectorcall_NARGS(size_t nargsf)
    Py_ssize_t PyTuple_GET_SIZE(PyObject *values)
    PyObject *PyTuple_GET_ITEM(PyObject *values, Py_ssize_t i)
    Py_ssize_t PySequence_Fast_GET_SIZE(object values)
    PyObject *PySequence_Fast_GET_ITEM(object values, Py_ssize_t i)

cdef enum:
    LONGEST_TEXT = 0x7fff
    WORTH_A_PIECE = 16384       # bytes from here on are not copied into the frame
    LARGEST = 0x7fffffff

cdef str LAYOUT = "__layout__"


# Messages: classes with slots -------------------------------------------------------------------

cdef inline PyObject **place(PyObject *message, Py_ssize_t offset) noexcept:
    return <PyObject **>(<char *>message + offset)


cdef inline void store(PyObject *message, Py_ssize_t offset, object value) noexcept:
    cdef PyObject **at = place(message, offset)
    cdef PyObject *old = at[0]
    Py_INCREF(value)
    at[0] = <PyObject *>value
    Py_XDECREF(old)


cdef inline object load(PyObject *message, Py_ssize_t offset):
    cdef PyObject *value = place(message, offset)[0]
    if value is NULL:
        raise EncodeError("a field was deleted, or never set")
    return <object>value


cdef inline Layout layout_of(object message):
    cdef PyObject *found = PyDict_GetItem(<object>pyb_type_dict(message), LAYOUT)
    if found is NULL:
        raise TypeError(f"{message.__qualname__} is not a message class")
    return <Layout>found


cdef class Layout:
    """Where the fields of a message class lie in its instances, and their defaults."""

    def __cinit__(self, type message, dict defaults):
        self.names = tuple([sys.intern(name) for name in defaults])   # as keywords are
        self.count = len(defaults)
        self.type = <PyTypeObject *>message
        self.held = list(defaults.values())
        self.slots = <Slot *>PyMem_Calloc(self.count + 1, sizeof(Slot))
        if self.slots is NULL:
            raise MemoryError
        cdef Py_ssize_t i
        for i, (name, default) in enumerate(defaults.items()):
            self.slots[i].offset = pyb_slot_offset(message.__dict__[name])
            if self.slots[i].offset < 0:
                raise TypeError(f"{message.__qualname__}.{name} is not a slot")
            self.slots[i].default = <PyObject *>default
            self.slots[i].makes = isinstance(default, type)

    def __dealloc__(self):
        PyMem_Free(self.slots)

    cdef object fresh(self, Slot *slot):
        if not slot.makes:
            return <object>slot.default
        if slot.default is <PyObject *>list:
            return PyList_New(0)
        return (<object>slot.default)()

    cdef Py_ssize_t index(self, str name) except -1:
        if name in self.names:
            return self.names.index(name)
        import difflib      # 5 ms, and only for a mistake
        near = difflib.get_close_matches(name, self.names, 1)
        hint = f": did you mean {near[0]}?" if near else f", only {', '.join(self.names)}"
        raise TypeError(f"{(<object>self.type).__qualname__} has no field {name}{hint}")


cdef object construct(PyObject *type, PyObject *const *args, size_t nargsf, PyObject *keywords):
    """``type(field=value, …)``: the vectorcall of every message class."""
    cdef Layout layout = layout_of(<object>type)
    cdef Py_ssize_t given = 0 if keywords is NULL else PyTuple_GET_SIZE(keywords)
    cdef Py_ssize_t i, at = 0, positional = PyVectorcall_NARGS(nargsf)
    cdef PyObject *name
    if positional:
        raise TypeError(f"{(<object>type).__qualname__} takes fields by keyword only")
    message = pyb_alloc(<PyTypeObject *>type)
    for i in range(given):
        name = PyTuple_GET_ITEM(keywords, i)
        while at < layout.count and PyTuple_GET_ITEM(<PyObject *>layout.names, at) is not name:
            at += 1                                     # keywords mostly come in the schema's order
        if at == layout.count:
            at = layout.index(<str>name)
        store(<PyObject *>message, layout.slots[at].offset, <object>args[i])
    for i in range(layout.count):
        if place(<PyObject *>message, layout.slots[i].offset)[0] is NULL:
            store(<PyObject *>message, layout.slots[i].offset, layout.fresh(&layout.slots[i]))
    return message


cdef class Message:
    """Base of all message classes: fields in slots, keyword constructor, ``==`` and ``repr``."""

    __slots__ = ()

    def __init__(self, **fields):
        """The slow way, of callers that do not know vectorcall."""
        cdef Layout layout = layout_of(type(self))
        cdef Py_ssize_t i
        for name in fields:
            layout.index(name)
        for i, name in enumerate(layout.names):
            value = fields[name] if name in fields else layout.fresh(&layout.slots[i])
            store(<PyObject *>self, layout.slots[i].offset, value)

    def __eq__(self, other):
        if type(self) is not type(other):
            return NotImplemented
        for name in layout_of(type(self)).names:
            if getattr(self, name) != getattr(other, name):
                return False
        return True

    def __repr__(self):
        """The constructor's call, without the fields that have their default."""
        cdef Layout layout = layout_of(type(self))
        cdef Py_ssize_t i
        told = []
        for i, name in enumerate(layout.names):
            value = getattr(self, name)
            if value != layout.fresh(&layout.slots[i]):
                told.append(f"{name}={value!r}")
        return f"{type(self).__qualname__}({', '.join(told)})"

    def __reduce__(self):
        """To pickle or copy: what the constructor needs."""
        cdef Layout layout = layout_of(type(self))
        return rebuild, (type(self), {name: getattr(self, name) for name in layout.names})


def rebuild(message, fields):
    """Unpickles a message."""
    return message(**fields)


def message_class(str name, dict defaults, dict attributes):
    """A message class with the fields ``defaults``, in that order.

    A default that is a type (``list``, a message class) is called for every instance.
    ``attributes``: further entries of the class: ``__qualname__``, ``__module__``, nested classes.
    """
    message = type(name, (Message,), attributes | {"__slots__": tuple(defaults)})
    setattr(message, LAYOUT, Layout(message, defaults))
    pyb_set_vectorcall(message, <void *>construct)
    return message


# Wire types -------------------------------------------------------------------------------------

cdef class WireType:
    """How values of one type look on the wire. ``min_size``: no value takes fewer bytes."""

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


cdef class Sized(WireType):
    """What starts with its length or count: in ``width`` bytes, or compact as a uvarint."""

    cdef bint compact
    cdef bint nullable
    cdef int width

    def __cinit__(self, *args, bint compact=False, bint nullable=False):
        self.compact = compact
        self.nullable = nullable
        self.width = 2 if type(self) is String else 4
        self.min_size = 1 if compact else self.width

    cdef inline Py_ssize_t read_size(self, Reader reader) except -2:
        """The size, -1 for null."""
        cdef Py_ssize_t size
        if self.compact:
            size = <Py_ssize_t>reader.uvarint() - 1
        else:
            size = reader.int16() if self.width == 2 else reader.int32()
        if size < 0 and not (size == -1 and self.nullable):
            raise DecodeError(f"the length {size} of what cannot be null")
        return size

    cdef inline int write_size(self, Writer writer, Py_ssize_t size) except -1:
        if size > (LONGEST_TEXT if self.width == 2 else LARGEST):
            raise EncodeError(f"{size} bytes or elements are too many")
        if self.compact:
            return writer.uvarint(<uint32_t>(size + 1))
        return writer.int16(size) if self.width == 2 else writer.int32(size)

    cdef int write_null(self, Writer writer) except -1:
        if not self.nullable:
            raise EncodeError("None is not allowed here in this version")
        return self.write_size(writer, -1)


@cython.final
cdef class String(Sized):
    cdef object decode(self, Reader reader):
        cdef Py_ssize_t size = self.read_size(reader)
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
        self.write_size(writer, size)
        return writer.put(text, size)


cdef class Bytes(Sized):
    cdef object decode(self, Reader reader):
        cdef Py_ssize_t size = self.read_size(reader)
        if size < 0:
            return None
        return PyBytes_FromStringAndSize(<const char *>reader.take(size), size)

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
            self.write_size(writer, view.len)
            return writer.put(view.buf, view.len)
        finally:
            PyBuffer_Release(&view)

    cdef int encode_apart(self, Writer writer, object value, Py_ssize_t size) except -1:
        self.write_size(writer, size)
        return writer.insert(value, size)


@cython.final
cdef class Records(Bytes):
    """Record batches: decoded to a memoryview of the buffer; a slice of a file is not copied."""

    cdef object decode(self, Reader reader):
        cdef Py_ssize_t size = self.read_size(reader)
        return None if size < 0 else reader.slice(size)

    cdef int encode(self, Writer writer, object value) except -1:
        if value is None or PyObject_CheckBuffer(value):
            return Bytes.encode(self, writer, value)
        return self.encode_apart(writer, value, value.length)


@cython.final
cdef class Array(Sized):
    """A list of ``element``; a tuple may be encoded as well."""

    cdef WireType element

    def __init__(self, WireType element, *, bint compact=False, bint nullable=False):
        self.element = element

    cdef object decode(self, Reader reader):
        cdef Py_ssize_t _, count = self.read_size(reader)
        if count < 0:
            return None
        if count > (reader.end - reader.ptr) // max(self.element.min_size, 1):
            raise DecodeError(f"{count} elements do not fit into {reader.end - reader.ptr} bytes")
        values = []
        for _ in range(count):
            values.append(self.element.decode(reader))
        return values

    cdef int encode(self, Writer writer, object value) except -1:
        cdef Py_ssize_t i, count
        if value is None:
            return self.write_null(writer)
        if not isinstance(value, (list, tuple)):
            raise EncodeError(f"a list is wanted, not {value!r}")
        count = PySequence_Fast_GET_SIZE(value)
        self.write_size(writer, count)
        for i in range(count):
            self.element.encode(writer, <object>PySequence_Fast_GET_ITEM(value, i))
        return 0


@cython.final
cdef class Nullable(WireType):
    """A struct that may be null: one byte, negative for null."""

    cdef Plan plan

    def __cinit__(self, Plan plan):
        self.plan = plan
        self.min_size = 1

    cdef object decode(self, Reader reader):
        if <signed char>reader.take(1)[0] < 0:
            return None
        return self.plan.decode(reader)

    cdef int encode(self, Writer writer, object value) except -1:
        if value is None:
            return writer.int8(-1)
        writer.int8(1)
        return self.plan.encode(writer, value)


# Plans ------------------------------------------------------------------------------------------

cdef bint is_default(Slot *slot, object value) except -1:
    if <PyObject *>value is slot.default:
        return True
    if slot.makes:
        return value == (<object>slot.default)()
    if slot.absent is not NULL:
        return value == <object>slot.absent
    return type(value) is type(<object>slot.default) and value == <object>slot.default


cdef class Plan(WireType):
    """A message class in one version.

    ``fields``: (name, type) in the order of the wire; ``tagged``: (name, type, tag);
    ``forbidden``: names of fields that the version lacks and that may not be dropped silently.
    ``None`` as the value of a tagged struct means that it is not sent.
    """

    def __cinit__(self, type message, list fields, list tagged, list forbidden, bint flexible):
        self.message = message
        self.layout = layout_of(message)
        self.flexible = flexible
        self.held = [fields, tagged, forbidden]
        self.count = len(fields)
        self.tagged_count = len(tagged)
        self.forbidden_count = len(forbidden)
        self.fields = <Field *>PyMem_Calloc(self.count + 1, sizeof(Field))
        self.tagged = <Field *>PyMem_Calloc(self.tagged_count + 1, sizeof(Field))
        self.forbidden = <Field *>PyMem_Calloc(self.forbidden_count + 1, sizeof(Field))
        self.unset = <Slot *>PyMem_Calloc(self.layout.count + 1, sizeof(Slot))
        if not (self.fields and self.tagged and self.forbidden and self.unset):
            raise MemoryError
        self.fill(fields, tagged, forbidden)

    def fill(self, fields, tagged, forbidden):
        cdef Py_ssize_t i
        cdef Field *field
        for i, (name, wire_type) in enumerate(fields):
            self.fields[i].slot = self.layout.slots[self.layout.index(name)]
            self.fields[i].type = <PyObject *>wire_type
            self.min_size += (<WireType>wire_type).min_size
        for i, (name, wire_type, tag) in enumerate(sorted(tagged, key=lambda row: row[2])):
            field = &self.tagged[i]
            field.slot = self.layout.slots[self.layout.index(name)]
            field.type = <PyObject *>wire_type
            field.tag = tag
            if isinstance(wire_type, Plan) and field.slot.default is <PyObject *>None:
                unsent = wire_type.message()
                self.held.append(unsent)
                field.slot.absent = <PyObject *>unsent
        for i, name in enumerate(forbidden):
            self.forbidden[i].slot = self.layout.slots[self.layout.index(name)]
        present = {row[0] for row in fields}
        for i, name in enumerate(self.layout.names):
            if name not in present:
                self.unset[self.unset_count] = self.layout.slots[i]
                self.unset_count += 1
        self.min_size += self.flexible

    def __dealloc__(self):
        PyMem_Free(self.fields)
        PyMem_Free(self.tagged)
        PyMem_Free(self.forbidden)
        PyMem_Free(self.unset)

    cdef object decode(self, Reader reader):
        cdef Py_ssize_t i
        cdef Field *field
        message = pyb_alloc(self.layout.type)
        for i in range(self.unset_count):
            store(<PyObject *>message, self.unset[i].offset, self.layout.fresh(&self.unset[i]))
        for i in range(self.count):
            field = &self.fields[i]
            store(<PyObject *>message, field.slot.offset, (<WireType>field.type).decode(reader))
        if self.flexible:
            self.decode_tags(reader, <PyObject *>message)
        return message

    cdef int decode_tags(self, Reader reader, PyObject *message) except -1:
        cdef uint32_t tag, count = reader.uvarint()
        cdef Py_ssize_t size, i
        cdef const unsigned char *begin
        while count:
            count -= 1
            tag = reader.uvarint()
            size = reader.uvarint()
            begin = reader.ptr
            for i in range(self.tagged_count):
                if self.tagged[i].tag == tag:
                    break
            else:
                reader.take(size)
                continue
            value = (<WireType>self.tagged[i].type).decode(reader)
            if reader.ptr - begin != size:
                raise DecodeError(f"tagged field {tag} is not of the size {size} that it declares")
            store(message, self.tagged[i].slot.offset, value)
        return 0

    cdef object decode_all(self, Reader reader):
        """Decodes a message that ends where the bytes end."""
        message = self.decode(reader)
        if reader.ptr != reader.end:
            raise DecodeError(f"{reader.end - reader.ptr} bytes behind the end of a "
                              f"{self.message.__qualname__}")
        return message

    cdef int encode(self, Writer writer, object value) except -1:
        cdef Py_ssize_t i = 0
        cdef Field *field
        if type(value) is not self.message:
            raise EncodeError(f"a {self.message.__qualname__} is wanted, not {value!r}")
        if self.forbidden_count:
            self.refuse_dropped(<PyObject *>value)
        try:
            for i in range(self.count):
                field = &self.fields[i]
                (<WireType>field.type).encode(writer, load(<PyObject *>value, field.slot.offset))
        except (ValueError, TypeError, OverflowError, BufferError) as error:
            raise self.blame(i, error) from None
        if self.flexible:
            self.encode_tags(writer, <PyObject *>value)
        return 0

    cdef object blame(self, Py_ssize_t index, object error):
        """The same error with the field's name; inner structs have named theirs already."""
        if isinstance(error, EncodeError) and error.where:
            return error
        return EncodeError(str(error), f"{self.message.__qualname__}.{self.held[0][index][0]}")

    cdef int refuse_dropped(self, PyObject *message) except -1:
        cdef Py_ssize_t i
        cdef Slot *slot
        for i in range(self.forbidden_count):
            slot = &self.forbidden[i].slot
            if not is_default(slot, load(message, slot.offset)):
                name = self.held[2][i]
                raise EncodeError("this version has no such field, and it is set",
                                  f"{self.message.__qualname__}.{name}")
        return 0

    cdef int encode_tags(self, Writer writer, PyObject *message) except -1:
        cdef Py_ssize_t i, begin, size, head, count_at = writer.size
        cdef Slot *slot
        cdef int count = 0
        cdef bint was_joined = writer.joined
        writer.joined = True
        writer.uvarint(0)       # there are fewer than 128 tagged fields: one byte, put right below
        for i in range(self.tagged_count):
            slot = &self.tagged[i].slot
            value = load(message, slot.offset)
            if is_default(slot, value):
                continue
            count += 1
            writer.uvarint(self.tagged[i].tag)
            begin = writer.size
            (<WireType>self.tagged[i].type).encode(writer, value)
            size = writer.size - begin
            head = size_of_unsigned_varlong(size)
            writer.reserve(head)
            memmove(writer.data + begin + head, writer.data + begin, size)
            write_unsigned_varlong(writer.data + begin, size)
        writer.data[count_at] = count
        writer.joined = was_joined
        return 0


# Frames -----------------------------------------------------------------------------------------

cdef Writer spare = Writer()


cdef Writer writer_to_use():
    """The writer of the last frame, or a new one while that is in use."""
    global spare
    writer = spare
    spare = None
    return Writer() if writer is None else writer


cdef object finished(Writer writer, Py_ssize_t prefix):
    """The result; ``prefix`` 4 puts the frame's length into its first four bytes."""
    global spare
    cdef Py_ssize_t size = writer.size + writer.foreign
    if size > LARGEST:
        raise EncodeError(f"a frame of {size} bytes; the limit is {LARGEST}")
    if prefix:
        store_int32(writer.data, <int32_t>(size - 4))
    result = writer.result()
    writer.clear()
    spare = writer
    return result


cdef String CLIENT_ID = String(nullable=True)


@cython.final
cdef class Codec:
    """The plans of one message by version, each made by ``compile(version)`` when first wanted.

    ``flexible_header``: the first version whose header has tagged fields (32767: none has).
    ``open``: bytes behind the end of a message are ignored, not an error.
    """

    cdef readonly str name
    cdef readonly int key
    cdef readonly int min_version
    cdef readonly int max_version
    cdef int flexible_header
    cdef object compile
    cdef bint open
    cdef list plans

    def __init__(
        self, str name, int key, int min_version, int max_version, int flexible_header, compile,
        bint open=False,
    ):
        self.name = name
        self.key = key
        self.min_version = min_version
        self.max_version = max_version
        self.flexible_header = flexible_header
        self.compile = compile
        self.open = open
        self.plans = [None] * (max_version + 1)

    cdef Plan known(self, int version):
        """The plan of a version, None if there is no such version."""
        if version < self.min_version or version > self.max_version:
            return None
        if self.plans[version] is None:
            self.plans[version] = self.compile(version)
        return <Plan>self.plans[version]

    def has_flexible_header(self, int version) -> bool:
        """Whether the header of that version has tagged fields."""
        return version >= self.flexible_header

    def plan(self, int version) -> Plan:
        """The plan of a version; EncodeError if there is none."""
        plan = self.known(version)
        if plan is None:
            raise EncodeError(f"{self.name} has versions {self.min_version} to {self.max_version}, "
                              f"not {version}")
        return plan

    def decode(self, int version, view, Py_ssize_t position, Py_ssize_t end):
        """The message in ``view[position:end]``, all of it. DecodeError: it is not one."""
        cdef Plan plan = self.known(version)
        if plan is None:
            raise DecodeError(f"{self.name} has no version {version}")
        if self.open:
            return plan.decode(Reader(view, position, end))
        return plan.decode_all(Reader(view, position, end))

    def encode(self, int version, message) -> bytes:
        """The message alone, without a header."""
        writer = writer_to_use()
        (<Plan>self.plan(version)).encode(writer, message)
        return whole(finished(writer, 0))

    def encode_request(self, int version, int correlation_id, client_id, message):
        """A whole request frame: length, header, message."""
        writer = writer_to_use()
        writer.int32(0)
        writer.int16(self.key)
        writer.int16(version)
        writer.int32(correlation_id)
        CLIENT_ID.encode(writer, client_id)
        if version >= self.flexible_header:
            writer.int8(0)
        (<Plan>self.plan(version)).encode(writer, message)
        return finished(writer, 4)

    def encode_response(self, int version, int correlation_id, message):
        """A whole response frame: length, header, message."""
        writer = writer_to_use()
        writer.int32(0)
        writer.int32(correlation_id)
        if version >= self.flexible_header:
            writer.int8(0)
        (<Plan>self.plan(version)).encode(writer, message)
        return finished(writer, 4)

    def encode_record(self, int version, message) -> bytes:
        """An internal record: the version as int16, the message."""
        writer = writer_to_use()
        writer.int16(version)
        (<Plan>self.plan(version)).encode(writer, message)
        return whole(finished(writer, 0))

    def decode_record(self, view):
        """The internal record in ``view``, its version in front."""
        reader = Reader(view, 0, len(view))
        cdef int version = reader.int16()
        cdef Plan plan = self.known(version)
        if plan is None:
            raise DecodeError(f"{self.name} has no version {version}")
        return plan.decode_all(reader)

    def decode_open_record(self, view):
        """As ``decode_record``, but a later version is read as the latest that is known."""
        reader = Reader(view, 0, len(view))
        cdef int version = reader.int16()
        cdef Plan plan = self.known(min(version, self.max_version))
        if plan is None:
            raise DecodeError(f"{self.name} has no version {version}")
        return plan.decode(reader)


cdef bytes whole(result):
    return result if isinstance(result, bytes) else b"".join(result)


@cython.final
cdef class RequestHeader:
    """The header of a request; ``position``: where the message begins."""

    cdef readonly int api_key
    cdef readonly int api_version
    cdef readonly int correlation_id
    cdef readonly str client_id
    cdef readonly Py_ssize_t position

    def __repr__(self):
        return (f"RequestHeader(api_key={self.api_key}, api_version={self.api_version}, "
                f"correlation_id={self.correlation_id}, client_id={self.client_id!r})")


cdef int skip_tags(Reader reader) except -1:
    cdef uint32_t count = reader.uvarint()
    while count:
        count -= 1
        reader.uvarint()
        reader.take(reader.uvarint())
    return 0


@cython.final
cdef class RequestHeaders:
    """Decodes request headers; ``flexible`` maps an API's key to its first flexible version."""

    cdef dict flexible

    def __init__(self, dict flexible):
        self.flexible = flexible

    def decode(self, view, Py_ssize_t position, Py_ssize_t end):
        """The header at ``view[position:end]``."""
        cdef Reader reader = Reader(view, position, end)
        cdef RequestHeader header = RequestHeader.__new__(RequestHeader)
        header.api_key = reader.int16()
        header.api_version = reader.int16()
        header.correlation_id = reader.int32()
        header.client_id = CLIENT_ID.decode(reader)
        if header.api_version >= <int>self.flexible.get(header.api_key, LARGEST):
            skip_tags(reader)
        header.position = reader.ptr - reader.start
        return header


def decode_response_header(view, Py_ssize_t position, Py_ssize_t end, bint flexible):
    """(correlation id, position of the message) of the response at ``view[position:end]``."""
    cdef Reader reader = Reader(view, position, end)
    correlation_id = reader.int32()
    if flexible:
        skip_tags(reader)
    return correlation_id, reader.ptr - reader.start
