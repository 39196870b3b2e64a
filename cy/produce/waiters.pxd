cdef class Waiters:
    cdef list functions
    cdef bint told

    # Adds a function to call; calls it at once if the others were called already.
    cdef int add(self, function) except -1

    # Calls all functions.
    cdef int tell(self) except -1

    # Waits up to ``left`` seconds. Returns True if the functions were called by then, ``also`` included (unless it is
    # None).
    cdef bint wait(self, object also, double left) except -1
