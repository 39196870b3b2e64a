from libc.stdint cimport int64_t, uint64_t


cdef struct Pair:
    int64_t key
    int64_t value
    bint used


cdef class Int64Map:
    cdef Pair *pairs
    cdef uint64_t capacity              # a power of two
    cdef int shift                      # 64 - log2(capacity)
    cdef readonly int64_t count

    # Returns the address of the value, NULL if the key is not in the map.
    cdef int64_t *find(self, int64_t key) noexcept nogil

    # Sets a value. Returns False if memory runs out.
    cdef bint put(self, int64_t key, int64_t value) noexcept nogil

    # Removes a key. Returns False if it was not in the map.
    cdef bint remove(self, int64_t key) noexcept nogil

    cdef uint64_t home(self, int64_t key) noexcept nogil
    cdef uint64_t place(self, int64_t key) noexcept nogil
    cdef bint grow(self) noexcept nogil
