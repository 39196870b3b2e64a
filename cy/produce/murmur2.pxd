from libc.stdint cimport uint8_t, uint32_t

# Returns the hash of ``length`` bytes. For other Cython modules.
cdef uint32_t murmur2_of(const uint8_t *at, uint32_t length) noexcept nogil
