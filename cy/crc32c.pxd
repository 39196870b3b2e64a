from libc.stdint cimport uint8_t, uint32_t

# Returns the CRC-32C of ``length`` bytes, continuing ``value`` (0 to start). For other Cython modules.
cdef uint32_t update(uint32_t value, const uint8_t *data, size_t length) noexcept nogil
