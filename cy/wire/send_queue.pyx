"""Sends byte strings and file slices to a non-blocking socket, in order. ``SendQueue`` counts what is not sent.

It sends consecutive byte strings by one ``sendmsg``, and file slices by ``sendfile``. ``MSG_MORE`` joins a header with
the following slice.
"""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_GET_SIZE
from cpython.exc cimport PyErr_SetFromErrno
from libc.errno cimport EAGAIN, EINTR, errno
from libc.string cimport memset

import os

from cy.wire.sendfile cimport FileSlice, send_slice

cdef extern from "<sys/uio.h>" nogil:
    struct iovec:
        void* iov_base
        size_t iov_len

cdef extern from "<sys/socket.h>" nogil:
    enum: MSG_NOSIGNAL, MSG_DONTWAIT
    struct msghdr:
        iovec* msg_iov
        size_t msg_iovlen
    ssize_t sendmsg(int fd, const msghdr* message, int flags)

cdef extern from *:
    """
    #include <sys/socket.h>
    #ifndef MSG_MORE
    #define MSG_MORE 0          /* a hint, and Linux's own */
    #endif
    """
    int MSG_MORE

cdef enum:
    MAX_PARTS = 64              # the most pieces of one sendmsg
    TURN = 4 * 1024 * 1024      # bytes that one connection may send before others get their turn


cdef inline Py_ssize_t size_of(part) except -1:
    if type(part) is bytes:
        return PyBytes_GET_SIZE(part)
    return (<FileSlice?> part).length


cdef class SendQueue:
    """The sending half of one connection: what it still has to send, in order."""

    def append(self, reply):
        """Adds ``bytes``, a file slice, or a list of both. Returns their end as a position: the number of bytes that
        were ever added.
        """
        if type(reply) is list:
            for part in <list> reply:
                self.add(part)
        else:
            self.add(reply)
        return self.given

    cdef int add(self, part) except -1:
        cdef Py_ssize_t size = size_of(part)
        if self.items is None:
            self.items = []
        self.items.append(part)
        self.unsent += size
        self.given += size
        return 0

    @property
    def gone(self):
        """The number of bytes that were ever sent."""
        return self.given - self.unsent

    def flush(self, int fd):
        """Sends as much as the socket takes. Returns True if nothing is left. Also returns False after 4 MiB, so that
        other connections get their turn. Raises OSError as send does, and EOFError if a file is shorter than its slice.
        After such an error, close the connection.
        """
        cdef Py_ssize_t count, turn = 0
        while self.items is not None:
            if type(self.items[self.head]) is bytes:
                count = self.send_bytes(fd)
            else:
                count = self.send_part(fd)
            if count < 0:
                return False
            turn += count
            if turn >= TURN:
                return self.items is None
        return True

    cdef Py_ssize_t send_part(self, int fd) except -2:
        """Calls sendfile once, for the first slice. Returns -1 if the socket is full."""
        cdef FileSlice part = self.items[self.head]
        cdef Py_ssize_t count = send_slice(fd, part, self.sent)
        if count == 0 and self.sent < part.length:
            raise EOFError(f"file ended at {self.sent} of {part.length} bytes of {part!r}")
        if count >= 0:
            self.advance(count)
        return count

    cdef Py_ssize_t send_bytes(self, int fd) except -2:
        """Sends the byte strings at the front by one call. Returns -1 if the socket is full."""
        cdef iovec parts[MAX_PARTS]
        cdef msghdr message
        cdef Py_ssize_t index = self.head, end = len(self.items), count, number = 0
        cdef int flags = MSG_NOSIGNAL | MSG_DONTWAIT
        cdef object part
        while index < end and number < MAX_PARTS:
            part = self.items[index]
            if type(part) is not bytes:
                break
            parts[number].iov_base = PyBytes_AS_STRING(part)
            parts[number].iov_len = PyBytes_GET_SIZE(part)
            number += 1
            index += 1
        parts[0].iov_base = <char*> parts[0].iov_base + self.sent
        parts[0].iov_len -= self.sent
        memset(&message, 0, sizeof(message))
        message.msg_iov = parts
        message.msg_iovlen = number
        if index < end:
            flags |= MSG_MORE
        count = sendmsg(fd, &message, flags)
        if count < 0:
            if errno == EAGAIN or errno == EINTR:
                return -1
            PyErr_SetFromErrno(OSError)
        self.advance(count)
        return count

    cdef int advance(self, Py_ssize_t count) except -1:
        """Counts ``count`` bytes as sent and drops finished items."""
        cdef Py_ssize_t size
        cdef object part
        self.unsent -= count
        count += self.sent
        while self.head < len(self.items):
            part = self.items[self.head]
            size = size_of(part)
            if count < size:
                self.sent = count
                return 0
            count -= size
            self.items[self.head] = None
            self.head += 1
        self.items = None
        self.head = self.sent = 0
        return 0

    def peek(self, Py_ssize_t size):
        """Returns the next bytes, at most ``size``, for a layer that encrypts; empty if nothing is left. Reads file
        slices. Raises OSError, and EOFError as ``flush`` does.
        """
        cdef Py_ssize_t index = self.head, skip = self.sent, wanted, end
        cdef list pieces = []
        cdef object part
        end = 0 if self.items is None else len(self.items)
        while index < end and size > 0:
            part = self.items[index]
            wanted = min(size_of(part) - skip, size)
            if type(part) is bytes:
                pieces.append(part[skip:skip + wanted])
            else:
                piece = os.pread((<FileSlice> part).fd, wanted, (<FileSlice> part).position + skip)
                if len(piece) < wanted:
                    raise EOFError(f"file ended at {skip + len(piece)} of {size_of(part)} bytes of {part!r}")
                pieces.append(piece)
            size -= wanted
            skip = 0
            index += 1
        return pieces[0] if len(pieces) == 1 else b"".join(pieces)

    def drop(self, Py_ssize_t count):
        """Counts the next ``count`` bytes, from ``peek``, as sent. Returns True if nothing is left."""
        if self.items is not None:
            self.advance(count)
        return self.items is None

    def close(self):
        """Drops everything that was not sent."""
        self.items = None
        self.head = self.sent = self.unsent = 0
