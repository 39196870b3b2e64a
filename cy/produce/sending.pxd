from cpython.object cimport PyObject

from cy.produce.record_queues cimport RecordQueues


# A producer's queues whose ``send`` returns a coroutine.
cdef class SendingQueues(RecordQueues):
    pass


# The states of a ``Sending``.
cdef enum State:
    SPENT               # it has run, or was closed
    FRESH
    PAUSED              # the loop runs once before the record is appended
    WAITING             # ``send_later`` waits for a topic's metadata, or for room


# Its pointers are owned references, or NULL. ``Rare`` has what few records have: a tuple of partition, timestamp,
# headers and on_delivery.
cdef class Sending:
    cdef PyObject *queues               # a SendingQueues
    cdef PyObject *topic
    cdef PyObject *value
    cdef PyObject *key
    cdef PyObject *more                 # WAITING: the coroutine of ``send_later``; before that ``Rare``
    cdef State state

    cdef object begun_rest(self)
    cdef int spend(self) except -1
