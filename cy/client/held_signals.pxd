# Whether the caller is the thread in which Python runs handlers: no other one may hold signals.
cdef bint handles() noexcept

# Signals that Python's handlers meet wait from now on until ``let_go`` was called as often; those that came
# before are met first, and what they raise is raised.
cdef int hold() except -1

# Meets those that came meanwhile, where it ends the first ``hold``.
cdef int let_go() except -1
