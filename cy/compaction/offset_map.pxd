from libc.stdint cimport int32_t, int64_t, uint8_t, uint64_t


cdef struct Entry:
    uint64_t low
    uint64_t high
    int64_t next_offset                 # the offset and one; 0: the entry is free


cdef class OffsetMap:
    cdef Entry *entries
    cdef uint64_t k0
    cdef uint64_t k1
    cdef readonly int64_t slots
    cdef readonly int64_t limit         # keys that it takes
    cdef readonly int64_t count

    # The offset of a key, -1 where it is not in the map.
    cdef int64_t find(self, const uint8_t *key, int32_t size) noexcept nogil

    # Sets the offset of a key; returns False, without a change, if the map is full, even if it has
    # the key.
    cdef bint put(self, const uint8_t *key, int32_t size, int64_t offset) noexcept nogil
