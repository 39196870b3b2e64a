"""SipHash-2-4, 128 bits: two rounds for each 8 bytes, four to finish each half of the result.

Without the secret, nobody can choose keys that collide. Compaction treats two keys with equal hashes as one key, so a
collision would remove another client's record. The probability of a collision by chance among four thousand million
keys is 2^-64.
"""

from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from cpython.bytes cimport PyBytes_FromStringAndSize
from libc.stdint cimport uint8_t, uint64_t
from libc.string cimport memcpy

cdef extern from *:
    """
    #if defined(__BYTE_ORDER__) && __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
    #define PYB_LITTLE64(x) __builtin_bswap64(x)
    #else
    #define PYB_LITTLE64(x) (x)
    #endif
    """
    uint64_t PYB_LITTLE64(uint64_t value) nogil


cdef struct State:
    uint64_t v0
    uint64_t v1
    uint64_t v2
    uint64_t v3


cdef inline uint64_t load_word(const uint8_t *at) noexcept nogil:
    cdef uint64_t word
    memcpy(&word, at, 8)
    return PYB_LITTLE64(word)


cdef inline uint64_t rotated(uint64_t value, int bits) noexcept nogil:
    return value << bits | value >> (64 - bits)


cdef inline void mix(State *s) noexcept nogil:
    s.v0 += s.v1
    s.v1 = rotated(s.v1, 13) ^ s.v0
    s.v0 = rotated(s.v0, 32)
    s.v2 += s.v3
    s.v3 = rotated(s.v3, 16) ^ s.v2
    s.v0 += s.v3
    s.v3 = rotated(s.v3, 21) ^ s.v0
    s.v2 += s.v1
    s.v1 = rotated(s.v1, 17) ^ s.v2
    s.v2 = rotated(s.v2, 32)


cdef inline void absorb(State *s, uint64_t word) noexcept nogil:
    s.v3 ^= word
    mix(s)
    mix(s)
    s.v0 ^= word


cdef inline uint64_t squeezed(State *s) noexcept nogil:
    mix(s)
    mix(s)
    mix(s)
    mix(s)
    return s.v0 ^ s.v1 ^ s.v2 ^ s.v3


cdef void siphash128(
    const uint8_t *data, size_t size, uint64_t k0, uint64_t k1, Hash128 *result
) noexcept nogil:
    cdef State s
    cdef uint64_t last = <uint64_t>size << 56
    cdef const uint8_t *end = data + (size - size % 8)
    cdef size_t index
    s.v0 = k0 ^ <uint64_t>0x736f6d6570736575
    s.v1 = k1 ^ <uint64_t>0x646f72616e646f6d ^ 0xee
    s.v2 = k0 ^ <uint64_t>0x6c7967656e657261
    s.v3 = k1 ^ <uint64_t>0x7465646279746573
    while data < end:
        absorb(&s, load_word(data))
        data += 8
    for index in range(size % 8):
        last |= <uint64_t>data[index] << (8 * index)
    absorb(&s, last)
    s.v2 ^= 0xee
    result.low = squeezed(&s)
    s.v1 ^= 0xdd
    result.high = squeezed(&s)


def siphash(data, bytes secret):
    if len(secret) != 16:
        raise ValueError("the secret has 16 bytes")
    cdef Hash128 result
    cdef Py_buffer view
    cdef const uint8_t *key = <const uint8_t *><const char *>secret
    PyObject_GetBuffer(data, &view, PyBUF_SIMPLE)
    siphash128(<const uint8_t *>view.buf, view.len, load_word(key), load_word(key + 8), &result)
    PyBuffer_Release(&view)
    result.low = PYB_LITTLE64(result.low)
    result.high = PYB_LITTLE64(result.high)
    return PyBytes_FromStringAndSize(<const char *>&result, 16)
