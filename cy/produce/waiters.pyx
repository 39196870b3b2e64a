"""Functions to call once, when something is done, and threads that wait until then.

If one of them raises, the error is logged, and the others are still called. A wait that times out leaves nothing
behind. All of this happens under the GIL.
"""

from cython cimport final

from threading import Lock
import logging

log = logging.getLogger("pyclient.producer")

cdef enum:
    SLICE = 1               # seconds of one wait: a signal that arrives just before it is handled after it


@final
cdef class Waiters:
    def __cinit__(self):
        self.functions = []

    cdef int add(self, function) except -1:
        if self.told:
            call(function)
        else:
            self.functions.append(function)
        return 0

    cdef int tell(self) except -1:
        self.told = True
        functions, self.functions = self.functions, []
        for function in functions:
            call(function)
        return 0

    cdef bint wait(self, object also, double left) except -1:
        lock = Lock()
        lock.acquire()
        added = [lock.release] if also is None else [also, lock.release]
        if self.told:           # another thread did it while this one allocated
            return True
        self.functions += added
        try:
            return acquired(lock, left)
        finally:
            for function in added:
                if function in self.functions:
                    self.functions.remove(function)


cdef int call(function) except -1:
    try:
        function()
    except BaseException:       # whatever this raises, the others are called
        log.exception("%r, called because records were delivered, failed", function)
    return 0


cdef bint acquired(object lock, double left) except -1:
    """Returns True if the lock was acquired within ``left`` seconds. A signal interrupts the wait."""
    while left > SLICE:
        if lock.acquire(True, SLICE):
            return True
        left -= SLICE
    return lock.acquire(True, max(0, left))
