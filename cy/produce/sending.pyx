"""The cheap coroutine that ``send`` of the asyncio producer returns.

Most records can be appended at once: then the coroutine ends in its first step, without a Python frame. If a topic is
unknown, or memory is used up, it continues as ``send_later``. In both cases, nothing is sent before the coroutine runs,
and a coroutine that is cancelled before its end sends nothing.

An application that sends and never waits would block the loop, and with it the sender. So after many bytes, the next
record waits until the loop has run once. Later records wait behind it, which keeps their order.
"""

from cpython.object cimport PyObject
from cpython.ref cimport Py_INCREF, Py_XDECREF
from cython cimport embedsignature, final, freelist

from cy.produce.producer_batch cimport DeliveryReport
from cy.batch.record_headers cimport listed
from cy.other_name import OtherName, own_names
from cy.produce.missing import MISSING

cdef enum:
    UNSEEN = 1 << 18        # bytes that are added before the loop runs

cdef extern from "Python.h":
    ctypedef PyObject *(*iternextfunc)(PyObject *) except? NULL
    ctypedef struct PyTypeObject:
        iternextfunc tp_iternext
    ctypedef enum PySendResult:
        PYGEN_RETURN
        PYGEN_ERROR
        PYGEN_NEXT
    PySendResult PyIter_Send(PyObject *coroutine, PyObject *value, PyObject **result)
    void PyErr_SetObject(PyObject *kind, PyObject *value)
    int PyErr_WarnEx(PyObject *category, const char *message, Py_ssize_t stack_level)
    void PyErr_WriteUnraisable(PyObject *where)


cdef tuple NOTHING_MORE = (None, None, None, None)
cdef str AWAITED = "await: report = await producer.send(…), then metadata = await report"


cdef inline PyObject *held(object given) noexcept:
    """Returns a new reference, which the caller owns."""
    Py_INCREF(given)
    return <PyObject *>given


cdef inline void drop(PyObject **place) noexcept:
    cdef PyObject *old = place[0]
    place[0] = NULL
    Py_XDECREF(old)


cdef void warn() noexcept:
    """Warns of a coroutine that never ran. If warnings are errors, Python prints this one as an unraisable error."""
    cdef const char *told = b"coroutine 'Producer.send' was never awaited: its record is not sent"
    if PyErr_WarnEx(<PyObject *>RuntimeWarning, told, 1) < 0:
        PyErr_WriteUnraisable(NULL)


cdef class SendingQueues(RecordQueues):
    @embedsignature(True)
    def send(
        self, topic, value=MISSING, key=None, *, partition=None, timestamp=None, headers=None,
        on_delivery=None,
    ):
        """Returns a coroutine that sends a record; see ``send`` of the blocking producer."""
        cdef Sending sending = Sending.__new__(Sending)
        sending.queues = held(self)
        sending.topic = held(topic)
        sending.value = held(value)
        sending.key = held(key)
        if (
            partition is not None or timestamp is not None or headers is not None
            or on_delivery is not None
        ):
            sending.more = held((partition, timestamp, listed(headers), on_delivery))
        sending.state = FRESH
        return sending


cdef inline void drop_record(Sending sending) noexcept:
    drop(&sending.value)
    drop(&sending.key)
    drop(&sending.more)


@final
@freelist(64)
cdef class Sending:
    def __init__(self):
        raise TypeError("send() of a producer makes these")

    def __dealloc__(self):
        if self.state == PAUSED:
            (<SendingQueues>self.queues).paused -= 1
        drop(&self.queues)
        drop(&self.topic)
        drop(&self.value)
        drop(&self.key)
        drop(&self.more)
        if self.state == FRESH:
            warn()

    result = OtherName("result", AWAITED)
    get = OtherName("get", AWAITED)
    metadata = OtherName("metadata", AWAITED)
    error = OtherName("error", AWAITED)
    done = OtherName("done", AWAITED)
    add_done_callback = OtherName("add_done_callback", AWAITED)
    __dir__ = own_names

    @property
    def __name__(self):
        return "send"

    @property
    def __qualname__(self):
        return "Producer.send"

    def __await__(self):
        return self

    def __iter__(self):
        return self

    def __next__(self):
        """Runs the next step. Python calls ``step`` instead, which does the same."""
        return self.send(None)

    def send(self, value):
        cdef PyObject *result
        if value is not None:
            if self.state != WAITING:
                raise TypeError("can't send non-None value to a just-started coroutine")
            return self.going((<object>self.more).send, value)
        result = step(<PyObject *>self)
        given = <object>result
        Py_XDECREF(result)
        return given

    def throw(self, kind, value=None, trace=None):
        error = raised(kind, value, trace)
        if self.state == WAITING:
            return self.going((<object>self.more).throw, error)
        if self.state == SPENT:
            raise RuntimeError("cannot reuse already awaited coroutine")
        self.spend()
        raise error

    def going(self, method, argument):
        """Returns what ``send_later`` yields. If that raises, the coroutine has ended."""
        try:
            return method(argument)
        except BaseException:
            self.spend()
            raise

    def close(self):
        rest = <object>self.more if self.state == WAITING else None
        self.spend()
        if rest is not None:
            rest.close()

    cdef object begun_rest(self):
        """Returns the coroutine ``send_later``, for a record that cannot be appended at once."""
        more = NOTHING_MORE if self.more == NULL else <object>self.more
        return (<SendingQueues>self.queues).send_later(
            <object>self.topic, <object>self.value, <object>self.key, *more
        )

    cdef int spend(self) except -1:
        """Drops all references of a coroutine that has ended, unless a running step still uses them."""
        if self.state == SPENT:
            return 0
        if self.state == PAUSED:
            (<SendingQueues>self.queues).paused -= 1
        self.state = SPENT
        drop_record(self)
        return 0


cdef object raised(object kind, object value, object trace):
    """Returns the exception that the arguments of ``throw`` describe."""
    if isinstance(kind, BaseException):
        error = kind
    elif isinstance(value, BaseException):
        error = value
    elif value is None:
        error = kind()
    else:
        error = kind(*value) if isinstance(value, tuple) else kind(value)
    return error if trace is None else error.with_traceback(trace)


cdef PyObject *step(PyObject *iterator) except? NULL:
    """Implements ``__next__``. Ends with StopIteration and the report, without the cost of a traceback."""
    cdef Sending sending = <Sending>iterator
    cdef SendingQueues queues
    cdef DeliveryReport report = None
    cdef bint has_failed = True
    if sending.state == WAITING:
        return step_rest(sending)
    if sending.state == SPENT:
        raise RuntimeError("cannot reuse already awaited coroutine")
    queues = <SendingQueues>sending.queues
    if sending.state == PAUSED:
        queues.paused -= 1
    elif queues.paused or queues.used - queues.seen > UNSEEN:
        if not queues.paused:
            queues.seen = queues.used
        queues.paused += 1
        sending.state = PAUSED
        Py_INCREF(None)
        return <PyObject *>None
    sending.state = SPENT       # also if it raises; nothing is dropped meanwhile
    if queues.direct:
        try:
            report = appended(sending, queues)
            has_failed = False
        finally:
            if has_failed:
                drop_record(sending)
    if report is None:
        rest = sending.begun_rest()
        drop(&sending.more)
        sending.more = held(rest)
        sending.state = WAITING
        return step_rest(sending)
    drop_record(sending)        # so that a task that is kept does not keep it
    PyErr_SetObject(<PyObject *>StopIteration, <PyObject *>report)
    return NULL


cdef inline DeliveryReport appended(Sending sending, SendingQueues queues):
    """Appends the record and returns its report, None if it cannot be appended at once."""
    if sending.more == NULL:
        return queues.add(
            <object>sending.topic, <object>sending.value, <object>sending.key, None, None, None, None
        )
    partition, timestamp, headers, on_delivery = <tuple>sending.more
    return queues.add(
        <object>sending.topic, <object>sending.value, <object>sending.key, partition, timestamp,
        headers, on_delivery,
    )


cdef PyObject *step_rest(Sending sending) except? NULL:
    cdef PyObject *result = NULL
    cdef object rest = <object>sending.more     # a step may close it
    cdef PySendResult outcome = PyIter_Send(<PyObject *>rest, <PyObject *>None, &result)
    if outcome == PYGEN_NEXT:
        return result
    if outcome == PYGEN_RETURN:
        sending.spend()
        PyErr_SetObject(<PyObject *>StopIteration, result)
        Py_XDECREF(result)
    else:
        sending.state = SPENT
    return NULL


(<PyTypeObject *>Sending).tp_iternext = step
