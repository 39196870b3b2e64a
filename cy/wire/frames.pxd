cdef class Block:
    cdef char* data
    cdef readonly Py_ssize_t capacity
    cdef readonly Py_ssize_t exports      # the number of living views of it

    cdef int resize(self, Py_ssize_t capacity) except -1


cdef class ReceiveMemory:
    cdef readonly Block scratch           # where connections without a partial frame receive
    cdef object scratch_view              # a memoryview of scratch
    cdef Block record                     # where a layer decrypts one record, or None
    cdef object record_view               # a memoryview of record
    cdef list pool                        # free blocks, for large frames
    cdef readonly Py_ssize_t pooled       # size in bytes of the blocks in the pool
    cdef readonly Py_ssize_t taken         # size in bytes of the blocks that connections hold
    cdef public Py_ssize_t limit          # the limit of ``taken``; beyond it, connections that need more must wait
    cdef readonly Py_ssize_t pool_limit

    cdef bint is_full(self) noexcept
    cdef Block record_block(self)
    cdef Block take(self, Py_ssize_t at_least, Py_ssize_t wanted)
    cdef Block grow(self, Block block, Py_ssize_t begin, Py_ssize_t filled, Py_ssize_t wanted)
    cdef void give(self, Block block)


cdef class FrameReader:
    cdef ReceiveMemory memory
    cdef Block own                        # has a partial frame, or frames kept for later; or None
    cdef object view                      # a memoryview of own, while its frames are returned
    cdef Py_ssize_t begin                 # the next frame starts here …
    cdef Py_ssize_t filled                # … and received bytes end here; in own, otherwise in scratch
    cdef Py_ssize_t spilled               # the number of bytes in scratch that follow those in own
    cdef bint bulk                        # the last frame was large, so the next one may be
    cdef double started                   # when the visit began, in seconds
    cdef bint asked                       # the visit has returned a frame, or tried to
    cdef readonly bint late               # the visit's time ended before its frames did
    cdef public Py_ssize_t max_frame

    cdef object failed(self)
    cdef Py_ssize_t make_room(self) except? -2
    cdef Py_ssize_t declared(self) except -1
    cdef int keep_spilled(self) except -1
    cdef int drop_own(self) except -1
    cdef int begin_visit(self) except -1
    cdef tuple whole(self)
    cdef Py_ssize_t unused(self) noexcept
