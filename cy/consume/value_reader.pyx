"""Calls an application's deserializer when a record's key or value is first accessed."""

from cpython.object cimport PyObject
from cpython.ref cimport Py_DECREF
from cython cimport final
from libc.stdint cimport int32_t, int64_t

cdef extern from "Python.h":
    PyObject *PyObject_Vectorcall(PyObject *function, PyObject **arguments, size_t count, PyObject *names)


@final
cdef class Reader:
    def __init__(self, function, bint takes_topic, failed):
        self.function = function
        self.takes_topic = takes_topic
        self.failed = failed

    cdef object read(self, str topic, int32_t partition, int64_t offset, bytes data):
        """Deserializes ``data``. Raises the exception that ``failed`` returns. There is no ``try``, which would cost as
        much as the call.
        """
        cdef PyObject *arguments[2]
        cdef PyObject *made
        arguments[0] = <PyObject *>topic
        arguments[1] = <PyObject *>data
        if self.takes_topic:
            made = PyObject_Vectorcall(<PyObject *>self.function, arguments, 2, NULL)
        else:
            made = PyObject_Vectorcall(<PyObject *>self.function, &arguments[1], 1, NULL)
        if made == NULL:
            self.tell(topic, partition, offset)
        result = <object>made
        Py_DECREF(result)
        return result

    cdef int tell(self, str topic, int32_t partition, int64_t offset) except -1:
        """Raises what ``failed`` returns for the function's exception."""
        try:
            raise_it()
        except Exception as error:
            raise self.failed(topic, partition, offset, error) from error
        return 0


cdef int raise_it() except -1:
    """Raises the exception that is already set."""
    return -1
