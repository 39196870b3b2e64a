"""Executes compiled message plans: turns messages into bytes and back.

Grammar
    struct          the fields in order;            flexible: then uvarint count of tagged fields,
                                                    each uvarint tag, uvarint size, value
    struct or null  int8, -1 for null, else 1 and the struct; as a tagged field uvarint, 0 for null

A ``Plan`` is the wire type of a struct in one version. It has the types of its fields (``wire_types``), each with the
place of the field's slot in an instance of the message class (``messages``). Executing it costs tens of nanoseconds per
field, and no Python call.
"""

cimport cython
from cpython.mem cimport PyMem_Calloc, PyMem_Free
from cpython.object cimport PyObject
from libc.stdint cimport uint32_t
from libc.string cimport memmove

from cy.wire.buffer cimport Reader, Writer
from cy.wire.messages cimport Slot, layout_of, load, pyb_alloc, store
from cy.varint cimport size_of_unsigned_varlong, write_unsigned_varlong
from cy.wire.wire_types cimport Array, WireType

from cy.wire.buffer import DecodeError, EncodeError


cdef extern from "Python.h":
    void PyObject_GC_UnTrack(object message)


cdef enum:
    MOST_TAGS = 10_000          # the most in one struct, as in Kafka 4.4; unknown ones are skipped one by one


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

    ``fields`` are (name, type) in the order of the wire, ``tagged`` are (name, type, tag). ``forbidden`` are names of
    fields that the version lacks and that may not be dropped silently. A tagged struct with the value ``None`` is not
    sent.
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
        self.cost = 1 + self.layout.count
        self.nests = True
        self.leaf = not any(
            [(<WireType>row[1]).nests for row in fields + tagged]
            + [self.layout.slots[i].makes for i in range(self.layout.count)]
        )

    def __dealloc__(self):
        PyMem_Free(self.fields)
        PyMem_Free(self.tagged)
        PyMem_Free(self.forbidden)
        PyMem_Free(self.unset)

    cdef WireType element(self, str name):
        """Returns the type of the elements of an array field."""
        for field, wire_type in self.held[0]:
            if field == name:
                return (<Array?>wire_type).element
        raise EncodeError(f"{self.message.__qualname__} has no field {name} in this version")

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
        if self.leaf:
            PyObject_GC_UnTrack(message)    # so that the garbage collector need not visit millions of them
        return message

    cdef int decode_tags(self, Reader reader, PyObject *message) except -1:
        cdef uint32_t tag, count = reader.uvarint()
        cdef Py_ssize_t size, i
        cdef const unsigned char *begin
        if count > MOST_TAGS:
            raise DecodeError(f"{self.message.__qualname__}: {count} tagged fields; the limit is {MOST_TAGS}")
        while count:
            count -= 1
            reader.spend(1)
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
        """Decodes a message that must end where the bytes end."""
        message = self.decode(reader)
        if reader.ptr != reader.end:
            raise DecodeError(f"{reader.end - reader.ptr} bytes behind the end of a "
                              f"{self.message.__qualname__}")
        return message

    cdef int encode(self, Writer writer, object value) except -1:
        cdef Py_ssize_t i = 0
        cdef Field *field
        if type(value) is not self.message:
            raise EncodeError(f"expected a {self.message.__qualname__}, not {value!r}")
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
        """Returns the error with the field's name; inner structs have added theirs already."""
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
        writer.uvarint(0)       # fewer than 128 tagged fields: one byte, which is corrected below
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


@cython.final
cdef class Nullable(WireType):
    """A struct that may be null. It begins with one byte, negative for null."""

    cdef Plan plan

    def __cinit__(self, Plan plan):
        self.plan = plan
        self.min_size = 1
        self.cost = plan.cost
        self.nests = True

    cdef object decode(self, Reader reader):
        if <signed char>reader.take(1)[0] < 0:
            return None
        return self.plan.decode(reader)

    cdef int encode(self, Writer writer, object value) except -1:
        if value is None:
            return writer.int8(-1)
        writer.int8(1)
        return self.plan.encode(writer, value)


@cython.final
cdef class TaggedNullable(WireType):
    """A tagged struct that may be null. It begins with a varint, zero for null."""

    cdef Plan plan

    def __cinit__(self, Plan plan):
        self.plan = plan
        self.min_size = 1
        self.cost = plan.cost
        self.nests = True

    cdef object decode(self, Reader reader):
        if reader.uvarint() == 0:
            return None
        return self.plan.decode(reader)

    cdef int encode(self, Writer writer, object value) except -1:
        if value is None:
            return writer.uvarint(0)
        writer.uvarint(1)
        return self.plan.encode(writer, value)
