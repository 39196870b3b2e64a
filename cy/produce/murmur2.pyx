"""MurmurHash2 as Kafka's clients use it to choose the partition of a key."""

from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from libc.stdint cimport int32_t, uint8_t, uint32_t

cdef enum:
    SEED = 0x9747B28C
    MULTIPLIER = 0x5BD1E995


cdef uint32_t mixed(uint32_t word) noexcept nogil:
    word *= <uint32_t>MULTIPLIER
    return (word ^ (word >> 24)) * <uint32_t>MULTIPLIER


cdef uint32_t murmur2_of(const uint8_t *at, uint32_t length) noexcept nogil:
    cdef uint32_t state = <uint32_t>SEED ^ length
    cdef const uint8_t *end = at + (length & ~3U)
    while at < end:
        state = state * <uint32_t>MULTIPLIER ^ mixed(
            at[0] | <uint32_t>at[1] << 8 | <uint32_t>at[2] << 16 | <uint32_t>at[3] << 24
        )
        at += 4
    if length & 3:
        if length & 3 == 3:
            state ^= <uint32_t>at[2] << 16
        if length & 2:
            state ^= <uint32_t>at[1] << 8
        state = (state ^ at[0]) * <uint32_t>MULTIPLIER
    state = (state ^ (state >> 13)) * <uint32_t>MULTIPLIER
    return state ^ (state >> 15)


cdef int32_t hash_buffer(object key) except? -1:
    cdef Py_buffer view
    PyObject_GetBuffer(key, &view, PyBUF_SIMPLE)
    cdef uint32_t state = murmur2_of(<const uint8_t *>view.buf, <uint32_t>view.len)
    PyBuffer_Release(&view)
    return <int32_t>state


def murmur2(key):
    return hash_buffer(key)


def partition_for_key(key, int32_t n):
    if n <= 0:
        raise ValueError(f"a topic has at least one partition, not {n}")
    return (hash_buffer(key) & 0x7FFFFFFF) % n
