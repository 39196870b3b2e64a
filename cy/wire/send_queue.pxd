from libc.stdint cimport int64_t


cdef class SendQueue:
    cdef list items                       # bytes and file slices; None when empty
    cdef Py_ssize_t head                  # index of the first item that is not sent completely
    cdef Py_ssize_t sent                  # bytes of that item that are sent
    cdef readonly Py_ssize_t unsent       # unsent bytes of all items
    cdef int64_t given                    # all bytes that were ever added

    cdef int add(self, part) except -1
    cdef Py_ssize_t send_bytes(self, int fd) except -2
    cdef Py_ssize_t send_part(self, int fd) except -2
    cdef int advance(self, Py_ssize_t count) except -1
