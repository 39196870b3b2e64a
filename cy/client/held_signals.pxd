# Signals that Python's handlers meet wait from now on until ``let_go``; those that came before are met
# first, and what they raise is raised.
cdef int hold() except -1

# Meets those that came meanwhile.
cdef int let_go() except -1
