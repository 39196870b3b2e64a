from libc.stdint cimport int64_t


cdef class FileSlice:
    cdef readonly object file       # keeps the descriptor open
    cdef readonly int fd
    cdef readonly int64_t position
    cdef readonly int64_t length

# Sends what is left of the slice. Returns the number of bytes sent, or -1 if the socket takes none now. Raises OSError.
cdef Py_ssize_t send_slice(int socket_fd, FileSlice part, int64_t sent) except -2
