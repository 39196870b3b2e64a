"""A map of int64 to int64 that needs no GIL: open addressing, linear probing, at most half full.

A removal moves the following entries back into the gap and leaves no tombstones. So a map in which keys come and go
does not slow down.

A key's home is the top bits of its product with a secret odd number (Dietzfelbinger's multiply-shift). Clients choose
keys (producer ids), but without the secret they cannot choose keys that collide.
"""

import os

from cython cimport final
from libc.stdint cimport int64_t, uint64_t
from libc.stdlib cimport calloc, free

cdef enum:
    FIRST_CAPACITY = 16
    FIRST_SHIFT = 60                    # 64 - log2(FIRST_CAPACITY)

cdef uint64_t MULTIPLIER = int.from_bytes(os.urandom(8), "little") | 1


@final
cdef class Int64Map:
    def __cinit__(self, items=()):
        self.capacity = FIRST_CAPACITY
        self.shift = FIRST_SHIFT
        self.pairs = <Pair *>calloc(self.capacity, sizeof(Pair))
        if self.pairs == NULL:
            raise MemoryError
        for key, value in items:
            if not self.put(key, value):
                raise MemoryError

    def __dealloc__(self):
        free(self.pairs)

    def __len__(self):
        return self.count

    def get(self, int64_t key, default=None):
        cdef int64_t *value = self.find(key)
        return default if value == NULL else value[0]

    def set(self, int64_t key, int64_t value):
        if not self.put(key, value):
            raise MemoryError

    def discard(self, int64_t key):
        return self.remove(key)

    cdef uint64_t home(self, int64_t key) noexcept nogil:
        return <uint64_t>key * MULTIPLIER >> self.shift

    cdef uint64_t place(self, int64_t key) noexcept nogil:
        """Returns the index of the key, or of the place where it would be added."""
        cdef uint64_t mask = self.capacity - 1
        cdef uint64_t at = self.home(key)
        while self.pairs[at].used and self.pairs[at].key != key:
            at = (at + 1) & mask
        return at

    cdef int64_t *find(self, int64_t key) noexcept nogil:
        cdef Pair *pair = &self.pairs[self.place(key)]
        return &pair.value if pair.used else NULL

    cdef bint put(self, int64_t key, int64_t value) noexcept nogil:
        cdef Pair *pair
        if <uint64_t>self.count * 2 >= self.capacity and not self.grow():
            return False
        pair = &self.pairs[self.place(key)]
        if not pair.used:
            pair.used = True
            pair.key = key
            self.count += 1
        pair.value = value
        return True

    cdef bint grow(self) noexcept nogil:
        cdef Pair *old = self.pairs
        cdef uint64_t old_capacity = self.capacity, index
        cdef Pair *pairs = <Pair *>calloc(old_capacity * 2, sizeof(Pair))
        if pairs == NULL:
            return False
        self.pairs = pairs
        self.capacity = old_capacity * 2
        self.shift -= 1
        for index in range(old_capacity):
            if old[index].used:
                pairs[self.place(old[index].key)] = old[index]
        free(old)
        return True

    cdef bint remove(self, int64_t key) noexcept nogil:
        cdef uint64_t mask = self.capacity - 1
        cdef uint64_t gap = self.place(key), at, home
        if not self.pairs[gap].used:
            return False
        at = gap
        while True:
            at = (at + 1) & mask
            if not self.pairs[at].used:
                break
            home = self.home(self.pairs[at].key)
            if (at - home) & mask >= (at - gap) & mask:
                self.pairs[gap] = self.pairs[at]
                gap = at
        self.pairs[gap].used = False
        self.count -= 1
        return True
