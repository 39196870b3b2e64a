# Returns True if the caller is the thread in which Python runs handlers. Only that thread may hold signals.
cdef bint handles() noexcept

# Delays signals with Python handlers until ``let_go`` was called as often as this function. Handlers of earlier signals
# run first, and what they raise is raised here.
cdef int hold() except -1

# Ends a ``hold``. After the outermost one, the handlers of delayed signals run.
cdef int let_go() except -1
