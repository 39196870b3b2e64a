"""Message classes: Python classes with slots whose fields C code reads and writes.

A message class is an ordinary class with ``__slots__``; its ``Layout`` knows where each slot lies in an instance, and
each field's default. So the keyword constructor (a C function called by vectorcall) and a decoder make and fill an
instance without a Python call. A slot holds one reference, or NULL if the field was deleted or never set.
"""

import sys

from cpython.list cimport PyList_New
from cpython.mem cimport PyMem_Calloc, PyMem_Free
from cpython.object cimport PyObject, PyTypeObject

from cy.wire.buffer import EncodeError

cdef extern from *:
    """
    #include <structmember.h>

    /* Where the slot of a member descriptor lies within an instance; -1 if it is none. */
    static Py_ssize_t pyb_slot_offset(PyObject *descriptor) {
        if (!PyObject_TypeCheck(descriptor, &PyMemberDescr_Type)) return -1;
        return ((PyMemberDescrObject *)descriptor)->d_member->offset;
    }

    /* A class's own attribute, borrowed; NULL where it has none. From Python 3.12 on, types that are built in
       have no tp_dict; message classes have one. */
    static PyObject *pyb_own(PyObject *type, PyObject *name) {
        PyObject *attributes = ((PyTypeObject *)type)->tp_dict;
        return attributes ? PyDict_GetItemWithError(attributes, name) : NULL;
    }

    static void pyb_set_vectorcall(PyObject *type, void *function) {
        ((PyTypeObject *)type)->tp_vectorcall = (vectorcallfunc)function;
    }
    """
    Py_ssize_t pyb_slot_offset(object descriptor)
    PyObject *pyb_own(object type, object name)
    void pyb_set_vectorcall(object type, void *function)

cdef extern from "Python.h":
    Py_ssize_t PyVectorcall_NARGS(size_t nargsf)
    Py_ssize_t PyTuple_GET_SIZE(PyObject *values)
    PyObject *PyTuple_GET_ITEM(PyObject *values, Py_ssize_t i)

cdef str LAYOUT = "__layout__"


cdef int unset() except -1:
    raise EncodeError("a field was deleted, or never set")


cdef Layout layout_of(object message):
    """Returns the layout of a message class."""
    cdef PyObject *found = pyb_own(message, LAYOUT)
    if found is NULL:
        raise TypeError(f"{message.__qualname__} is not a message class")
    return <Layout>found


cdef class Layout:
    """Where the fields of a message class lie in its instances, and their defaults."""

    def __cinit__(self, type message, dict defaults):
        self.names = tuple([sys.intern(name) for name in defaults])   # as keyword names are
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
        import difflib      # takes 5 ms, and only after a mistake
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
            at += 1                                     # keywords usually come in the schema's order
        if at == layout.count:
            at = layout.index(<str>name)
        store(<PyObject *>message, layout.slots[at].offset, <object>args[i])
    for i in range(layout.count):
        if place(<PyObject *>message, layout.slots[i].offset)[0] is NULL:
            store(<PyObject *>message, layout.slots[i].offset, layout.fresh(&layout.slots[i]))
    return message


cdef class Message:
    """The base of all message classes: fields in slots, keyword constructor, ``==`` and ``repr``."""

    __slots__ = ()

    def __init__(self, **fields):
        """Creates a message for callers that do not use vectorcall. This is slower."""
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
        """Returns the call of the constructor, without fields that have their defaults."""
        cdef Layout layout = layout_of(type(self))
        cdef Py_ssize_t i
        told = []
        for i, name in enumerate(layout.names):
            value = getattr(self, name)
            if value != layout.fresh(&layout.slots[i]):
                told.append(f"{name}={value!r}")
        return f"{type(self).__qualname__}({', '.join(told)})"

    def __reduce__(self):
        """Returns what the constructor needs, for pickle and copy."""
        cdef Layout layout = layout_of(type(self))
        return rebuild, (type(self), {name: getattr(self, name) for name in layout.names})


def rebuild(message, fields):
    """Unpickles a message."""
    return message(**fields)


def message_class(str name, dict defaults, dict attributes):
    """Returns a message class with the fields ``defaults``, in that order.

    A default that is a type (``list``, a message class) is called for every instance. ``attributes`` are further
    entries of the class: ``__qualname__``, ``__module__``, nested classes.
    """
    message = type(name, (Message,), attributes | {"__slots__": tuple(defaults)})
    setattr(message, LAYOUT, Layout(message, defaults))
    pyb_set_vectorcall(message, <void *>construct)
    return message
