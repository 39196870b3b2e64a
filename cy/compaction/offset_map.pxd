from libc.stdint cimport int32_t, int64_t, uint8_t, uint64_t


cdef struct Entry:
    uint64_t low
    uint64_t high
    int64_t next_offset                 # the offset + 1; 0: the entry is free


cdef class OffsetMap:
    cdef Entry *entries
    cdef uint64_t k0
    cdef uint64_t k1
    cdef readonly int64_t slots
    cdef readonly int64_t limit         # how many keys fit
    cdef readonly int64_t count

    # Returns the offset of a key, -1 if it is not in the map.
    cdef int64_t find(self, const uint8_t *key, int32_t size) noexcept nogil

    # Sets the offset of a key. If the map is full, returns False and changes nothing, even if the key is in it.
    cdef bint put(self, const uint8_t *key, int32_t size, int64_t offset) noexcept nogil
