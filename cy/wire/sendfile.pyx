"""Sends bytes of a file by ``sendfile(2)``, and buffers by ``writev(2)``, to non-blocking sockets.

If the socket can take nothing now, both calls return -1; this is not an error. They return 0 only if nothing was left
to send, or if the file ended early. The caller must treat the latter as an error, because the frame has announced these
bytes. EINTR is retried.
"""

from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from cython cimport final, freelist
from libc.errno cimport EAGAIN, EINTR, errno
from libc.stdint cimport int64_t

import os

cdef extern from *:
    """
    #include <errno.h>
    #include <sys/types.h>
    #include <sys/uio.h>
    #if defined(__linux__)
    #include <sys/sendfile.h>
    static ssize_t pyb_sendfile(int out, int in, off_t offset, size_t count) {
        return sendfile(out, in, &offset, count);
    }
    #elif defined(__APPLE__)
    #include <sys/socket.h>
    static ssize_t pyb_sendfile(int out, int in, off_t offset, size_t count) {
        off_t sent = (off_t)count;
        int result = sendfile(in, out, offset, &sent, NULL, 0);
        return result == 0 || sent > 0 ? (ssize_t)sent : -1;
    }
    #else
    #include <sys/socket.h>
    static ssize_t pyb_sendfile(int out, int in, off_t offset, size_t count) {
        off_t sent = 0;
        int result = sendfile(in, out, offset, count, NULL, &sent, 0);
        return result == 0 || sent > 0 ? (ssize_t)sent : -1;
    }
    #endif
    """
    cdef struct iovec:
        void *iov_base
        size_t iov_len
    Py_ssize_t pyb_sendfile(int out, int file, int64_t offset, size_t count) nogil
    Py_ssize_t c_writev "writev"(int fd, const iovec *vectors, int count) nogil

cdef enum:
    MAX_VECTORS = 64            # the next call sends the others


@final
@freelist(64)
cdef class FileSlice:
    def __init__(self, file, int64_t position, int64_t length):
        if position < 0 or length < 0:
            raise ValueError(f"no slice of a file: position {position}, length {length}")
        self.file = file
        self.fd = file.fileno()
        self.position = position
        self.length = length

    def __len__(self):
        return self.length

    def read(self):
        cdef list pieces = []
        cdef int64_t position = self.position
        cdef int64_t end = self.position + self.length
        while position < end:
            piece = os.pread(self.fd, end - position, position)
            if not piece:
                raise EOFError(f"the file ends at {position}, the slice at {end}")
            position += len(piece)
            pieces.append(piece)
        return pieces[0] if len(pieces) == 1 else b"".join(pieces)

    def __repr__(self):
        return f"FileSlice(fd={self.fd}, position={self.position}, length={self.length})"


cdef Py_ssize_t send_slice(int socket_fd, FileSlice part, int64_t sent) except -2:
    cdef Py_ssize_t result
    while True:
        with nogil:
            result = pyb_sendfile(socket_fd, part.fd, part.position + sent, part.length - sent)
        if result >= 0 or errno == EAGAIN:
            return result
        if errno != EINTR:
            raise OSError(errno, os.strerror(errno))


def sendfile(int socket_fd, FileSlice part not None, int64_t sent=0):
    if sent < 0 or sent > part.length:
        raise ValueError(f"{sent} bytes of {part!r} cannot have been sent")
    return send_slice(socket_fd, part, sent)


cdef Py_ssize_t write_vectors(int fd, const iovec *vectors, int count) except -2:
    cdef Py_ssize_t result
    while True:
        with nogil:
            result = c_writev(fd, vectors, count)
        if result >= 0 or errno == EAGAIN:
            return result
        if errno != EINTR:
            raise OSError(errno, os.strerror(errno))


def writev(int fd, buffers):
    cdef Py_buffer[MAX_VECTORS] views
    cdef iovec[MAX_VECTORS] vectors
    cdef int count = 0, index
    try:
        for buffer in buffers:
            if count == MAX_VECTORS:
                break
            PyObject_GetBuffer(buffer, &views[count], PyBUF_SIMPLE)
            vectors[count].iov_base = views[count].buf
            vectors[count].iov_len = views[count].len
            count += 1
        return write_vectors(fd, vectors, count) if count else 0
    finally:
        for index in range(count):
            PyBuffer_Release(&views[index])
