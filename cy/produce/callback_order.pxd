cpdef int check_order(object callback) except -1
