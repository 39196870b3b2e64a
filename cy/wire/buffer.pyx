"""Reader and Writer: how bytes of the protocol are read and written.

A ``Reader`` is a pointer and an end in a buffer that other code owns. Every read passes one bounds check,
``Reader.take``: nothing is read past the end, and nothing is allocated for a length that was only declared. Text is
checked to be UTF-8. Short ASCII text comes from a small cache, because every request repeats the same topic names and
client ids. A cached ``str`` also has its hash.

Both have a *budget*: the units that they may create for a message. It is unlimited by default; exceeding it raises
``TooMuch``. Both can also be *polite*: then they release the GIL after a number of array elements.

A ``Writer`` is one growing block of memory. It does not copy large ``bytes``, or pieces that are not in memory at all
(a slice of a file, to be sent by ``sendfile``). They are noted as cuts, and the result is then a list of pieces instead
of one ``bytes``.
"""

from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from cpython.bytes cimport PyBytes_FromStringAndSize
from cpython.mem cimport PyMem_Free, PyMem_Malloc, PyMem_Realloc
from cpython.object cimport PyObject
from cpython.ref cimport Py_XDECREF, Py_INCREF
from cpython.unicode cimport PyUnicode_DecodeUTF8, PyUnicode_GET_LENGTH
from libc.stdint cimport uint64_t
from libc.string cimport memcmp, memcpy

cdef extern from "Python.h":
    bint PyUnicode_IS_COMPACT_ASCII(object text)
    void *PyUnicode_DATA(object text)
    const Py_ssize_t PY_SSIZE_T_MAX


class DecodeError(ValueError):
    """The bytes do not follow the protocol."""


class EncodeError(ValueError):
    """The schema does not allow the message in this version. ``where`` names the field."""

    def __init__(self, reason, where=None):
        super().__init__(f"{where}: {reason}" if where else reason)
        self.where = where


class TooMuch(Exception):
    """The message exceeds its budget."""


cdef Py_ssize_t UNLIMITED = PY_SSIZE_T_MAX

cdef enum:
    FIRST_CAPACITY = 512
    KEPT_CAPACITY = 1 << 20     # the most memory that a reused writer keeps
    LONGEST_CACHED = 64
    UNIT = 10                   # bytes of long text per unit: each may become four
    CACHE_SIZE = 256

cdef PyObject *cached_text[CACHE_SIZE]


cdef inline unsigned int cache_index(const unsigned char *at, Py_ssize_t size) noexcept nogil:
    """Hashes the length and the first and last eight bytes, because names differ at one of their ends."""
    cdef uint64_t first = 0, last = 0
    if size >= 8:
        memcpy(&first, at, 8)
        memcpy(&last, at + size - 8, 8)
    else:
        memcpy(&first, at, size)
    first = (first ^ <uint64_t>size) * 0x9e3779b97f4a7c15u
    return <unsigned int>(((first ^ last) * 0xbf58476d1ce4e5b9u) >> 56)


cdef object decode_utf8(const unsigned char *at, Py_ssize_t size):
    try:
        return PyUnicode_DecodeUTF8(<const char *>at, size, NULL)
    except UnicodeDecodeError as error:
        raise DecodeError(f"text is not UTF-8: {error.reason}") from None


cdef class Reader:
    """A cursor over ``view[position:end]``; ``view`` is any contiguous buffer of bytes."""

    def __cinit__(self, view, Py_ssize_t position, Py_ssize_t end):
        self.source = view if type(view) is memoryview else memoryview(view)
        PyObject_GetBuffer(self.source, &self.buffer, PyBUF_SIMPLE)
        if position < 0 or position > end or end > self.buffer.len:
            raise DecodeError(f"[{position}:{end}] lies outside of {self.buffer.len} bytes")
        self.start = <const unsigned char *>self.buffer.buf
        self.ptr = self.start + position
        self.end = self.start + end
        self.budget = UNLIMITED

    def __dealloc__(self):
        if self.buffer.obj is not None:
            PyBuffer_Release(&self.buffer)

    @property
    def position(self) -> int:
        """The index in the buffer of the next byte to read."""
        return self.ptr - self.start

    @property
    def remaining(self) -> int:
        """The number of bytes left to read."""
        return self.end - self.ptr

    cdef int overrun(self, Py_ssize_t size) except -1:
        raise DecodeError(f"{size} bytes wanted at {self.position}, {self.remaining} left")

    cdef int bad_varint(self) except -1:
        raise DecodeError(f"the varint at {self.position} is cut off or too long")

    cdef int overspent(self) except -1:
        raise TooMuch("a message of so many parts")

    cdef object slice(self, Py_ssize_t size):
        """Returns the next ``size`` bytes as a memoryview, without a copy."""
        cdef Py_ssize_t at = self.take(size) - self.start
        return self.source[at:at + size]

    cdef object text(self, Py_ssize_t size):
        cdef const unsigned char *at = self.take(size)
        cdef unsigned int index
        if size > LONGEST_CACHED:
            self.spend(size // UNIT)
            return decode_utf8(at, size)
        index = cache_index(at, size)
        cdef PyObject *known = cached_text[index]
        if (
            known is not NULL
            and PyUnicode_GET_LENGTH(<object>known) == size
            and memcmp(PyUnicode_DATA(<object>known), at, size) == 0
        ):
            return <object>known
        fresh = decode_utf8(at, size)
        if PyUnicode_IS_COMPACT_ASCII(fresh):
            Py_INCREF(fresh)
            cached_text[index] = <PyObject *>fresh
            Py_XDECREF(known)
        return fresh


cdef class Writer:
    """Memory that grows while it is written. ``result`` returns what was written and empties it."""

    def __cinit__(self):
        self.data = <unsigned char *>PyMem_Malloc(FIRST_CAPACITY)
        if self.data is NULL:
            raise MemoryError
        self.capacity = FIRST_CAPACITY
        self.budget = UNLIMITED

    def __dealloc__(self):
        PyMem_Free(self.data)

    cdef int grow(self, Py_ssize_t size) except -1:
        cdef Py_ssize_t capacity = max(2 * self.capacity, self.size + size)
        cdef void *data = PyMem_Realloc(self.data, capacity)
        if data is NULL:
            raise MemoryError
        self.data = <unsigned char *>data
        self.capacity = capacity
        return 0

    cdef int overspent(self) except -1:
        raise TooMuch("a message of so many parts")

    cdef int put(self, const void *source, Py_ssize_t size) except -1:
        memcpy(self.reserve(size), source, size)
        return 0

    cdef int insert(self, object piece, Py_ssize_t size) except -1:
        """Inserts ``piece``, of ``size`` bytes, here without copying it."""
        if self.joined:
            raise EncodeError("a slice of a file cannot be in a tagged field")
        if self.cuts is None:
            self.cuts = []
        self.cuts.append((self.size, piece))
        self.foreign += size
        return 0

    cdef int clear(self) except -1:
        self.size = 0
        self.foreign = 0
        self.cuts = None
        self.joined = False
        self.budget = UNLIMITED
        self.polite = False
        if self.capacity > KEPT_CAPACITY:
            self.data = <unsigned char *>PyMem_Realloc(self.data, FIRST_CAPACITY)
            self.capacity = FIRST_CAPACITY
        return 0

    cdef object result(self):
        """Returns the written bytes, or the list of pieces if there are cuts."""
        if self.cuts is None:
            return PyBytes_FromStringAndSize(<char *>self.data, self.size)
        cdef Py_ssize_t begin = 0, at
        pieces = []
        for at, piece in self.cuts:
            if at > begin:
                pieces.append(PyBytes_FromStringAndSize(<char *>self.data + begin, at - begin))
            pieces.append(piece)
            begin = at
        if self.size > begin:
            pieces.append(PyBytes_FromStringAndSize(<char *>self.data + begin, self.size - begin))
        return pieces
