cdef class Waiters:
    cdef list functions
    cdef bint told

    # Will be called; at once, if the others have been.
    cdef int add(self, function) except -1

    # Calls all.
    cdef int tell(self) except -1

    # Whether they were called within ``left`` seconds; if so, ``also`` was, unless it is None.
    cdef bint wait(self, object also, double left) except -1
