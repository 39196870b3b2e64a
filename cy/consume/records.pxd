from cy.consume.fetched cimport Chunk, Entry


cdef class Records:
    cdef list chunks
    cdef Py_ssize_t total


cdef class RecordsIterator:
    cdef list chunks
    cdef Chunk chunk            # the chunk that is being read, or None
    cdef Py_ssize_t next_chunk
    cdef int index              # the index of its next record
    cdef readonly Py_ssize_t given

    cdef bint advance(self) except -1
