"""The place of an event loop's thread: which thread has it, and which acts in it. Locks and flags, no loop.

Between ``enter`` and ``leave`` the tenant is alone with what belongs to the loop: ``vacate``, by which
the loop's thread takes its place back, waits for that. Signals that would interrupt the work wait too,
where the tenant is the thread in which Python runs their handlers (``cy.client.held_signals``).
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
        """The caller has it."""
        return <unsigned long>PyThread_get_thread_ident() == self.tenant

    def enter(self):
        """Whether the caller may do the loop's work from now on, until ``leave``."""
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
        """The end of what ``enter`` began."""
        self.acting = 0
        PyThread_release_lock(self.inside)
        if self.holding:
            let_go()

    def vacate(self):
        """When this returns, no thread has or uses the place."""
        acquire(self.inside)
        self.tenant = 0
        PyThread_release_lock(self.inside)
