from libc.stdint cimport uint8_t, uint32_t

# Continues ``value`` (0 to start) over ``length`` bytes; for other Cython modules.
cdef uint32_t update(uint32_t value, const uint8_t *data, size_t length) noexcept nogil
