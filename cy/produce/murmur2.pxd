from libc.stdint cimport uint8_t, uint32_t

# The hash of ``length`` bytes; for other Cython modules.
cdef uint32_t murmur2_of(const uint8_t *at, uint32_t length) noexcept nogil
