"""Variable-length integers: seven bits a byte, the lowest first, the high bit says "more follow".

``read_*`` advance ``cursor`` and return 1. They return 0, and leave ``cursor`` undefined, if the number runs past
``end`` or its longest form: 5 bytes for 32 bits, 10 for 64. Signed numbers are zigzag: 0, -1, 1, -2 … are 0, 1, 2, 3 …
"""
from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t, uint64_t

cdef extern from *:
    int leading_zeros "__builtin_clzll"(uint64_t value) nogil


cdef inline bint read_unsigned_varlong(
    const uint8_t **cursor, const uint8_t *end, uint64_t *value
) noexcept nogil:
    cdef const uint8_t *byte = cursor[0]
    cdef uint64_t number = 0
    cdef int shift = 0
    while byte < end and shift < 70:
        number |= <uint64_t>(byte[0] & 0x7F) << shift
        if byte[0] < 0x80:
            if shift == 63 and byte[0] > 1:
                return False
            cursor[0] = byte + 1
            value[0] = number
            return True
        byte += 1
        shift += 7
    return False


cdef inline bint read_unsigned_varint(
    const uint8_t **cursor, const uint8_t *end, uint32_t *value
) noexcept nogil:
    cdef const uint8_t *byte = cursor[0]
    cdef uint32_t number = 0
    cdef int shift = 0
    if byte < end and byte[0] < 0x80:
        value[0] = byte[0]
        cursor[0] = byte + 1
        return True
    while byte < end and shift < 35:
        number |= <uint32_t>(byte[0] & 0x7F) << shift
        if byte[0] < 0x80:
            if shift == 28 and byte[0] > 15:
                return False
            cursor[0] = byte + 1
            value[0] = number
            return True
        byte += 1
        shift += 7
    return False


cdef inline bint read_varint(
    const uint8_t **cursor, const uint8_t *end, int32_t *value
) noexcept nogil:
    cdef uint32_t raw
    if not read_unsigned_varint(cursor, end, &raw):
        return False
    value[0] = <int32_t>(raw >> 1) ^ -<int32_t>(raw & 1)
    return True


cdef inline bint read_varlong(
    const uint8_t **cursor, const uint8_t *end, int64_t *value
) noexcept nogil:
    cdef uint64_t raw
    if not read_unsigned_varlong(cursor, end, &raw):
        return False
    value[0] = <int64_t>(raw >> 1) ^ -<int64_t>(raw & 1)
    return True


cdef inline uint8_t *write_unsigned_varlong(uint8_t *target, uint64_t value) noexcept nogil:
    while value >= 0x80:
        target[0] = <uint8_t>(value | 0x80)
        target += 1
        value >>= 7
    target[0] = <uint8_t>value
    return target + 1


cdef inline uint8_t *write_varint(uint8_t *target, int32_t value) noexcept nogil:
    return write_unsigned_varlong(target, (<uint32_t>value << 1) ^ <uint32_t>(value >> 31))


cdef inline uint8_t *write_varlong(uint8_t *target, int64_t value) noexcept nogil:
    return write_unsigned_varlong(target, (<uint64_t>value << 1) ^ <uint64_t>(value >> 63))


cdef inline int size_of_unsigned_varlong(uint64_t value) noexcept nogil:
    cdef int last = 63 - leading_zeros(value | 1)       # the index of the highest bit
    return (last * 9 + 73) >> 6                         # last / 7 + 1, of all up to 63


cdef inline int size_of_varint(int32_t value) noexcept nogil:
    return size_of_unsigned_varlong((<uint32_t>value << 1) ^ <uint32_t>(value >> 31))


cdef inline int size_of_varlong(int64_t value) noexcept nogil:
    return size_of_unsigned_varlong((<uint64_t>value << 1) ^ <uint64_t>(value >> 63))
