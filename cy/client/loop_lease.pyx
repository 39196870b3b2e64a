"""Decides which thread may act as an event loop's thread. Has locks and flags, no loop.

Between ``enter`` and ``leave``, only the tenant uses what belongs to the loop. The loop's thread takes the lease back
by ``vacate``, which waits for ``leave``. If the tenant is the thread in which Python runs signal handlers, signals wait
too (``cy.client.held_signals``).
"""

from cpython.pythread cimport PyThread_free_lock, PyThread_get_thread_ident, PyThread_release_lock

from cy.client.held_signals cimport hold, let_go
from cy.client.thread_lock cimport acquire, new_lock


cdef class LoopLease:
    def __cinit__(self):
        self.inside = new_lock()

    def __dealloc__(self):
        if self.inside != NULL:
            PyThread_free_lock(self.inside)

    @property
    def is_mine(self):
        """Returns True if the calling thread has the lease."""
        return <unsigned long>PyThread_get_thread_ident() == self.tenant

    def enter(self):
        """Returns True if the caller may do the loop's work until ``leave``."""
        cdef unsigned long me = PyThread_get_thread_ident()
        if self.tenant != me or self.acting == me:
            return False
        cdef bint holding = self.holds_signals
        if holding:
            hold()
        acquire(self.inside)
        if self.tenant != me:           # the lease has ended meanwhile
            PyThread_release_lock(self.inside)
            if holding:
                let_go()
            return False
        self.acting = me
        self.holding = holding
        self.uses += 1
        return True

    def leave(self):
        """Ends what ``enter`` began."""
        self.acting = 0
        PyThread_release_lock(self.inside)
        if self.holding:
            let_go()

    def vacate(self):
        """Takes the lease back and waits until it is no longer used. After that, no thread has it."""
        acquire(self.inside)
        self.tenant = 0
        PyThread_release_lock(self.inside)
