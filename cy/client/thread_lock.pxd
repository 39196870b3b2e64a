"""Python's lock between threads, as a C value. A free lock is acquired without releasing the GIL."""
from cpython.pythread cimport (
    NOWAIT_LOCK, WAIT_LOCK, PyThread_acquire_lock, PyThread_allocate_lock, PyThread_type_lock,
)


cdef inline PyThread_type_lock new_lock() except NULL:
    cdef PyThread_type_lock made = PyThread_allocate_lock()
    if made == NULL:
        raise MemoryError
    return made


cdef inline void acquire(PyThread_type_lock lock) noexcept:
    if not PyThread_acquire_lock(lock, NOWAIT_LOCK):
        with nogil:
            PyThread_acquire_lock(lock, WAIT_LOCK)
