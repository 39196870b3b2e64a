cimport cython
from cpython.object cimport PyObject, PyTypeObject
from cpython.ref cimport Py_INCREF, Py_XDECREF

cdef extern from *:
    """
    static CYTHON_INLINE PyObject *pyb_alloc(PyTypeObject *type) { return type->tp_alloc(type, 0); }
    """
    object pyb_alloc(PyTypeObject *type)        # returns an instance whose slots are all NULL


cdef struct Slot:
    Py_ssize_t offset       # the offset within an instance of the pointer to the value
    PyObject *default       # the default, or the type that makes it
    PyObject *absent        # a value that the wire does not distinguish from the default, or NULL
    bint makes              # default is a type, called for every instance


@cython.final
cdef class Layout:
    cdef readonly tuple names           # the names of the fields, in the order of the schema
    cdef Py_ssize_t count
    cdef Slot *slots
    cdef PyTypeObject *type             # borrowed: the class owns the layout
    cdef list held                      # keeps references to the defaults

    cdef object fresh(self, Slot *slot)
    cdef Py_ssize_t index(self, str name) except -1


cdef Layout layout_of(object message)
cdef int unset() except -1


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
        unset()
    return <object>value
