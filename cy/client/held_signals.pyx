"""Lets a thread do an event loop's work for a moment: waits for one socket, and delays signals.

Python runs the handlers of signals in the main thread, between any two instructions, and most of them raise (Ctrl-C
raises KeyboardInterrupt). Therefore, work that must be finished runs inside ``held_signals``. A signal that arrives
meanwhile is noted, and raised again at the end of the outermost block. Entering and leaving a block costs no system
call: ``guard`` has put a C handler before Python's. Unless signals are held, it calls Python's handler at once.
"""

from cpython.exc cimport PyErr_CheckSignals
from cpython.pythread cimport PyThread_get_thread_ident
from libc.signal cimport SIG_DFL, SIG_IGN, SIGINT, SIGTERM, raise_
from posix.signal cimport SA_SIGINFO, sigaction, sigaction_t

import os
import threading

cdef extern from "<signal.h>" nogil:
    enum: SIGALRM

cdef extern from "<poll.h>" nogil:
    enum: POLLIN
    struct pollfd:
        int fd
        short events
        short revents
    int poll(pollfd *sockets, unsigned long count, int timeout)

cdef enum:
    KINDS = 3

ctypedef void (*Handler)(int) noexcept nogil

cdef int[KINDS] numbers = [SIGINT, SIGTERM, SIGALRM]
cdef sigaction_t[KINDS] handlers        # the handlers that the signals had before
cdef volatile int[KINDS] met            # signals that arrived while they were held
cdef volatile int depth = 0             # the number of unfinished holds
cdef unsigned long handling = threading.main_thread().ident     # the thread that runs the handlers


cdef void meet(int number) noexcept nogil:
    cdef int i
    for i in range(KINDS):
        if numbers[i] == number:
            if depth:
                met[i] = 1
            else:
                (<Handler><void *>handlers[i].sa_handler)(number)


def guard():
    """Makes it possible to hold signals with Python handlers."""
    cdef sigaction_t current
    cdef int i
    for i in range(KINDS):
        sigaction(numbers[i], NULL, &current)
        if (
            current.sa_flags & SA_SIGINFO or current.sa_handler == meet
            or current.sa_handler == SIG_DFL or current.sa_handler == SIG_IGN
        ):
            continue
        handlers[i] = current
        current.sa_handler = meet
        sigaction(numbers[i], &current, NULL)


def forget():
    """Releases all holds in a forked child, which does not have the thread that held the signals."""
    global depth, handling
    depth = 0
    handling = PyThread_get_thread_ident()


os.register_at_fork(after_in_child=forget)


cdef bint handles() noexcept:
    return <unsigned long>PyThread_get_thread_ident() == handling


cdef int hold() except -1:
    global depth
    depth += 1
    if depth > 1:
        return 0
    try:
        PyErr_CheckSignals()                # handlers of earlier signals run now, not inside
    except BaseException:
        depth -= 1
        raise
    return 0


cdef int let_go() except -1:
    global depth
    cdef int i
    depth -= 1
    if depth > 0:
        return 0
    for i in range(KINDS):
        if met[i]:
            met[i] = 0
            raise_(numbers[i])
    return 0


def are_held():
    """Returns True while guarded signals are delayed."""
    return depth > 0


cdef class HeldSignals:
    def __enter__(self):
        hold()

    def __exit__(self, *error):
        let_go()


held_signals = HeldSignals()


def readable(int fd, int timeout_ms):
    """Returns True if the socket has something to read, or has ended, within ``timeout_ms``."""
    cdef pollfd socket
    cdef int count
    socket.fd = fd
    socket.events = POLLIN
    socket.revents = 0
    with nogil:
        count = poll(&socket, 1, timeout_ms)
    return count > 0
