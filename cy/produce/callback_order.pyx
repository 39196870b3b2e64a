"""Checks that a callback takes its arguments, by the names of its parameters.

confluent-kafka calls delivery callbacks with (error, message), under the same keyword. Here, such a callback would
mistake each success for a failure. Its parameter names reveal it, so it is refused before the record is sent.
"""

from cpython.object cimport PyCallable_Check, PyObject

from functools import partial

cdef extern from "Python.h":
    bint PyFunction_Check(object function)
    PyObject *PyFunction_GET_CODE(object function)
    bint PyMethod_Check(object method)
    PyObject *PyMethod_GET_FUNCTION(object method)

VARARGS = 4                     # of co_flags
MOST_KNOWN = 1000
ERRORS = {"err", "error", "errors", "exc", "exception", "kafkaerror", "failure"}
MAY_BE_ERRORS = {"e", "ex", "x"}
MESSAGES = {"msg", "message", "messages", "record", "rec", "partitions"}
METADATA = {"metadata", "meta", "md", "m", "offsets"}

cdef object last = None         # the code of the function that passed the check last
cdef dict known = {}            # all others that passed, by ``key_of``; kept, so that no id is used twice


cpdef int check_order(object callback) except -1:
    if PyFunction_Check(callback) and PyFunction_GET_CODE(callback) == <PyObject *>last:
        return 0
    return check(callback)


cdef int check(object callback) except -1:
    global last
    cdef tuple found = key_of(callback)
    if found is None or found[0] not in known:
        check_parameters(callback, "on_delivery", "metadata")
        if found is not None:
            if len(known) >= MOST_KNOWN:
                known.clear()
            known[found[0]] = found[1]
    if PyFunction_Check(callback):
        last = <object>PyFunction_GET_CODE(callback)
    return 0


cdef tuple key_of(object callback):
    """Returns a key that all callbacks of this kind share, and an object to keep as long as the key. Returns None if
    each callback must be checked.
    """
    cdef object function = callback
    cdef Py_ssize_t given = 0
    if type(callback) is partial and not callback.keywords:
        given = len(callback.args)
        function = callback.func
    if PyMethod_Check(function):
        given += 1
        function = <object>PyMethod_GET_FUNCTION(function)
    if PyFunction_Check(function):
        function = <object>PyFunction_GET_CODE(function)
        return (id(function), given), function
    if isinstance(function, partial) or hasattr(function, "__code__"):
        return None
    function = type(function)
    return (id(function), given), function


def check_parameters(callback, str what, str first):
    if not PyCallable_Check(callback):
        raise TypeError(f"{what} is {type(callback).__name__}, and cannot be called")
    names, needed, takes_more = parameters(callback)
    if names is None:
        return
    if needed > 2 or (len(names) < 2 and not takes_more):
        raise TypeError(f"{what} is called with ({first}, error): {shown(callback)} takes ({', '.join(names)})")
    if names and is_reversed(names[0], names[1] if len(names) > 1 else ""):
        raise TypeError(
            f"{what} is called with ({first}, error): {shown(callback)}({', '.join(names)}) takes them in "
            f"confluent-kafka's order; let it take ({first}, error), and see docs/coming-from.md"
        )


cdef tuple parameters(object callback):
    """Returns the names of the positional parameters, how many of these have no default, and whether more are accepted.
    Returns None if that is unknown.
    """
    cdef Py_ssize_t given = 0
    by_name = ()
    if isinstance(callback, partial):
        given = len(callback.args)
        by_name = callback.keywords
        callback = callback.func
    if not PyFunction_Check(callback) and not PyMethod_Check(callback) and not hasattr(callback, "__code__"):
        callback = getattr(type(callback), "__call__", None)
        given += 1
    if PyMethod_Check(callback):
        callback = <object>PyMethod_GET_FUNCTION(callback)
        given += 1
    code = getattr(callback, "__code__", None)
    if code is None:
        return None, 0, True
    names = [name for name in code.co_varnames[given:code.co_argcount] if name not in by_name]
    optional = len(getattr(callback, "__defaults__", None) or ())
    return names, len(names) - optional, bool(code.co_flags & VARARGS)


def is_reversed(first, second):
    """Returns True if the names show an error first, or a message second."""
    one, two = words(first), words(second)
    if one & ERRORS:
        return True
    if one & METADATA:
        return False
    return bool(two & MESSAGES) or bool(one & MAY_BE_ERRORS and two & METADATA)


def words(name):
    return set(name.lower().split("_"))


def shown(callback):
    if isinstance(callback, partial):
        callback = callback.func
    return getattr(callback, "__qualname__", None) or type(callback).__qualname__
