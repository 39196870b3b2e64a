"""Big-endian (network order) numbers at any address, aligned or not."""
from libc.stdint cimport int16_t, int32_t, int64_t, uint8_t, uint16_t, uint32_t, uint64_t


cdef inline uint16_t load_uint16(const uint8_t *at) noexcept nogil:
    return <uint16_t>(at[0] << 8 | at[1])


cdef inline uint32_t load_uint32(const uint8_t *at) noexcept nogil:
    return (<uint32_t>at[0] << 24 | <uint32_t>at[1] << 16 | <uint32_t>at[2] << 8 | <uint32_t>at[3])


cdef inline uint64_t load_uint64(const uint8_t *at) noexcept nogil:
    return <uint64_t>load_uint32(at) << 32 | load_uint32(at + 4)


cdef inline int16_t load_int16(const uint8_t *at) noexcept nogil:
    return <int16_t>load_uint16(at)


cdef inline int32_t load_int32(const uint8_t *at) noexcept nogil:
    return <int32_t>load_uint32(at)


cdef inline int64_t load_int64(const uint8_t *at) noexcept nogil:
    return <int64_t>load_uint64(at)


cdef inline void store_uint16(uint8_t *at, uint16_t value) noexcept nogil:
    at[0] = <uint8_t>(value >> 8)
    at[1] = <uint8_t>value


cdef inline void store_uint32(uint8_t *at, uint32_t value) noexcept nogil:
    at[0] = <uint8_t>(value >> 24)
    at[1] = <uint8_t>(value >> 16)
    at[2] = <uint8_t>(value >> 8)
    at[3] = <uint8_t>value


cdef inline void store_uint64(uint8_t *at, uint64_t value) noexcept nogil:
    store_uint32(at, <uint32_t>(value >> 32))
    store_uint32(at + 4, <uint32_t>value)


cdef inline void store_int16(uint8_t *at, int16_t value) noexcept nogil:
    store_uint16(at, <uint16_t>value)


cdef inline void store_int32(uint8_t *at, int32_t value) noexcept nogil:
    store_uint32(at, <uint32_t>value)


cdef inline void store_int64(uint8_t *at, int64_t value) noexcept nogil:
    store_uint64(at, <uint64_t>value)
