"""A lock for ``with`` that is released even if a signal handler raises.

``with threading.RLock()`` did that until Python 3.13. Python 3.14 calls ``__enter__`` like any function, so signal
handlers may run after the call and before the block is protected. If one raises (Ctrl-C), the lock stays held for ever.
Therefore, the thread that runs handlers holds signals together with the lock.
"""

from cpython.pythread cimport (
    PyThread_free_lock, PyThread_get_thread_ident, PyThread_release_lock, PyThread_type_lock,
)

from cy.client.held_signals cimport handles, hold, let_go
from cy.client.thread_lock cimport acquire, new_lock


cdef class SignalSafeLock:
    cdef PyThread_type_lock inside
    cdef unsigned long owner
    cdef int depth                      # how often its owner has entered

    def __cinit__(self):
        self.inside = new_lock()

    def __dealloc__(self):
        if self.inside != NULL:
            PyThread_free_lock(self.inside)

    def __enter__(self):
        if handles():
            hold()                      # first: a handler that waits for another thread must not have the lock
        cdef unsigned long me = PyThread_get_thread_ident()
        if self.owner != me:
            acquire(self.inside)
            self.owner = me
        self.depth += 1

    def __exit__(self, *error):
        self.depth -= 1
        if self.depth == 0:
            self.owner = 0
            PyThread_release_lock(self.inside)
        if handles():
            let_go()
