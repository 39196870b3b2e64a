"""A block of memory that grows, without the GIL."""
from libc.stdint cimport int64_t, uint8_t
from libc.stdlib cimport realloc

cdef enum:
    FIRST_CAPACITY = 4096


cdef struct Memory:
    uint8_t *at
    int64_t size            # bytes in use
    int64_t capacity


# Returns where ``more`` bytes can be written after those in use, NULL if memory runs out.
cdef inline uint8_t *room(Memory *memory, int64_t more) noexcept nogil:
    cdef int64_t capacity = memory.capacity if memory.capacity else FIRST_CAPACITY
    cdef uint8_t *at
    while capacity - memory.size < more:
        capacity *= 2
    if capacity > memory.capacity:
        at = <uint8_t *>realloc(memory.at, capacity)
        if at == NULL:
            return NULL
        memory.at = at
        memory.capacity = capacity
    return memory.at + memory.size
