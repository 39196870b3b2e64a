cimport cython
from libc.stdint cimport int16_t, int32_t, int64_t, uint32_t

from cy.endian cimport load_int16, load_int32, load_int64, store_int16, store_int32, store_int64
from cy.varint cimport read_unsigned_varint, write_unsigned_varlong


@cython.final
cdef class Reader:
    cdef const unsigned char *start     # first byte of the buffer that ``source`` exports
    cdef const unsigned char *ptr       # next byte to read
    cdef const unsigned char *end       # first byte not to read
    cdef object source                  # a memoryview of it: slices come from here
    cdef Py_ssize_t budget              # the units that may still be created; see spend
    cdef bint polite                    # True if it lets other threads run
    cdef Py_ssize_t since_way           # elements since other threads last ran
    cdef Py_buffer buffer               # keeps the bytes where they are

    cdef int overrun(self, Py_ssize_t size) except -1
    cdef int bad_varint(self) except -1
    cdef int overspent(self) except -1
    cdef object slice(self, Py_ssize_t size)
    cdef object text(self, Py_ssize_t size)

    cdef inline const unsigned char *take(self, Py_ssize_t size) except NULL:
        """Returns the next ``size`` bytes and moves past them. This is the only bounds check."""
        cdef const unsigned char *at = self.ptr
        if size < 0 or size > self.end - at:
            self.overrun(size)
            return NULL
        self.ptr = at + size
        return at

    cdef inline int spend(self, Py_ssize_t units) except -1:
        """Takes ``units`` off the budget. A unit is about 40 bytes of memory and 40 ns."""
        self.budget -= units
        if self.budget < 0:
            self.overspent()
        return 0

    cdef inline int16_t int16(self) except? -1:
        return load_int16(self.take(2))

    cdef inline int32_t int32(self) except? -1:
        return load_int32(self.take(4))

    cdef inline int64_t int64(self) except? -1:
        return load_int64(self.take(8))

    cdef inline uint32_t uvarint(self) except? 0xffffffff:
        cdef uint32_t value = 0
        if not read_unsigned_varint(&self.ptr, self.end, &value):
            self.bad_varint()
        return value


@cython.final
cdef class Writer:
    cdef unsigned char *data
    cdef Py_ssize_t size                # bytes written
    cdef Py_ssize_t capacity            # bytes allocated
    cdef Py_ssize_t foreign             # bytes in the objects of ``cuts``
    cdef Py_ssize_t budget              # the units that may still be written; see spend
    cdef bint polite                    # True if it lets other threads run
    cdef Py_ssize_t since_way           # elements since other threads last ran
    cdef list cuts                      # [(position in data, object to insert there), …] or None
    cdef bint joined                    # no cuts: the bytes written now will be moved

    cdef int grow(self, Py_ssize_t size) except -1
    cdef int put(self, const void *source, Py_ssize_t size) except -1
    cdef int insert(self, object piece, Py_ssize_t size) except -1
    cdef int clear(self) except -1
    cdef int overspent(self) except -1
    cdef object result(self)

    cdef inline int spend(self, Py_ssize_t units) except -1:
        """Takes ``units`` off the budget. A unit is about 20 ns."""
        self.budget -= units
        if self.budget < 0:
            self.overspent()
        return 0

    cdef inline unsigned char *reserve(self, Py_ssize_t size) except NULL:
        """Returns room for ``size`` bytes and counts them as written. The caller fills it."""
        cdef unsigned char *at
        if size > self.capacity - self.size:
            self.grow(size)
        at = self.data + self.size
        self.size += size
        return at

    cdef inline int int8(self, signed char value) except -1:
        self.reserve(1)[0] = <unsigned char>value
        return 0

    cdef inline int int16(self, int16_t value) except -1:
        store_int16(self.reserve(2), value)
        return 0

    cdef inline int int32(self, int32_t value) except -1:
        store_int32(self.reserve(4), value)
        return 0

    cdef inline int int64(self, int64_t value) except -1:
        store_int64(self.reserve(8), value)
        return 0

    cdef inline int uvarint(self, uint32_t value) except -1:
        cdef unsigned char *at = self.reserve(5)
        self.size -= at + 5 - write_unsigned_varlong(at, value)
        return 0
