"""SipHash-2-4 with 128 bits (Aumasson, Bernstein): a keyed hash for maps whose keys untrusted clients choose."""
from libc.stdint cimport uint8_t, uint64_t


cdef struct Hash128:
    uint64_t low
    uint64_t high


# Returns the hash of ``size`` bytes under the secret (k0, k1).
cdef void siphash128(
    const uint8_t *data, size_t size, uint64_t k0, uint64_t k1, Hash128 *result
) noexcept nogil
