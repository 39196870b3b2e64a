"""Frames from a non-blocking socket: ``FrameReader``. (``send_queue`` has the way out.)

    frame := length:int32 byte[length]          big-endian; length counts what follows it

All connections of a loop receive into one buffer, ``ReceiveMemory.scratch``. Whole frames
are handed out where they lie, as ``(view, start, end)``; nothing is copied and an idle connection
owns no memory. Only what is left when all whole frames are used, part of a frame, moves to a block
of the connection. That block grows with the bytes that have *arrived*, doubling up to the declared
length, so a peer that declares 100 MB and sends two bytes costs 512 bytes. The rest of a large
frame is received straight into its block, and whatever follows it in the socket into scratch, by
one ``readv``. Blocks of large frames go back to a small pool, so that a stream of them touches the
same pages again and again.

A view is good until the next call of ``next``, ``keep`` or ``receive`` on *any* reader of the same
memory. A pooled block is not reused while views of it are alive.
"""

from cpython.buffer cimport PyBUF_WRITE, PyBuffer_FillInfo
from cpython.exc cimport PyErr_SetFromErrno
from cpython.memoryview cimport PyMemoryView_FromMemory, PyMemoryView_FromObject
from libc.errno cimport EAGAIN, EINTR, errno
from libc.stdint cimport uint8_t, uint32_t
from libc.stdlib cimport free, malloc, realloc
from libc.string cimport memcpy, memmove
from posix.time cimport CLOCK_MONOTONIC, clock_gettime, timespec

from cy.endian cimport load_int32, load_uint32

cdef extern from "<sys/uio.h>" nogil:
    struct iovec:
        void* iov_base
        size_t iov_len
    ssize_t readv(int fd, const iovec* parts, int count)

cdef extern from "<sys/socket.h>" nogil:
    enum: MSG_DONTWAIT
    ssize_t recv(int fd, void* data, size_t size, int flags)


cdef double now_s() noexcept nogil:
    cdef timespec now
    clock_gettime(CLOCK_MONOTONIC, &now)
    return now.tv_sec + 1e-9 * now.tv_nsec


SCRATCH_SIZE = 256 * 1024
POOL_LIMIT = 16 * 1024 * 1024
# What receive() returns besides a count of bytes (0: the peer has closed).
AGAIN = -1                      # nothing there
STARVED = -2                    # memory is at its limit: ask again when some is free

cdef enum:
    SMALLEST_BLOCK = 512
    LARGE = 64 * 1024           # frames and blocks from here on are worth pooling
    PEEK = 4096                 # read ahead of a large frame: finds its length, copies little


class FrameError(ValueError):
    """The stream cannot be a stream of frames: a length below 0 or above the limit.

    ``prefix`` holds the bytes at fault, at most eight; they often tell which protocol the peer
    believes to speak.
    """

    def __init__(self, message, prefix):
        super().__init__(message)
        self.prefix = prefix


cdef class Block:
    """Memory that a socket fills; a writable buffer to Python."""

    def __cinit__(self, Py_ssize_t capacity):
        self.data = <char*> malloc(capacity)
        if self.data == NULL:
            raise MemoryError
        self.capacity = capacity

    def __dealloc__(self):
        free(self.data)

    cdef int resize(self, Py_ssize_t capacity) except -1:
        """For one without exports. The pages of a large block move without being copied."""
        cdef char* data = <char*> realloc(self.data, capacity)
        if data == NULL:
            raise MemoryError
        self.data = data
        self.capacity = capacity
        return 0

    def __getbuffer__(self, Py_buffer* buffer, int flags):
        PyBuffer_FillInfo(buffer, self, self.data, self.capacity, 0, flags)
        self.exports += 1

    def __releasebuffer__(self, Py_buffer* buffer):
        self.exports -= 1


cdef class ReceiveMemory:
    """What the connections of one event loop receive into.

    ``limit`` bounds the bytes that connections hold for partial frames
    (``queued.max.request.bytes``).
    """

    def __cinit__(self, Py_ssize_t limit=1 << 62, *, Py_ssize_t scratch_size=SCRATCH_SIZE,
                  Py_ssize_t pool_limit=POOL_LIMIT):
        self.scratch = Block(scratch_size)
        self.scratch_view = PyMemoryView_FromObject(self.scratch)
        self.pool = []
        self.limit = limit
        self.pool_limit = pool_limit

    def trim(self):
        """Frees the pool; for times when nothing large arrives."""
        self.pool.clear()
        self.pooled = 0

    cdef Block take(self, Py_ssize_t at_least, Py_ssize_t wanted):
        """A block of ``wanted`` bytes if a pooled one fits, else a new one of ``at_least``."""
        cdef Block block
        cdef Py_ssize_t index
        for index in range(len(self.pool)):
            block = <Block> self.pool[index]
            if block.exports == 0 and wanted <= block.capacity <= 4 * wanted:
                del self.pool[index]
                self.pooled -= block.capacity
                self.taken += block.capacity
                return block
        block = Block(at_least)
        self.taken += at_least
        return block

    cdef Block grow(self, Block block, Py_ssize_t begin, Py_ssize_t filled, Py_ssize_t wanted):
        """A larger block with the bytes [begin, filled) of ``block`` at its front; None at the
        limit.
        """
        cdef Py_ssize_t used = filled - begin
        cdef Py_ssize_t capacity = min(2 * block.capacity, wanted)
        cdef Block larger
        if capacity > LARGE:
            capacity = (capacity + LARGE - 1) & ~(<Py_ssize_t> LARGE - 1)
        if self.taken + capacity - block.capacity > self.limit:
            return None
        if begin == 0 and block.exports == 0 and block.capacity >= LARGE:
            self.taken += capacity - block.capacity
            block.resize(capacity)
            return block
        larger = self.take(capacity, wanted)
        memcpy(larger.data, block.data + begin, used)
        self.give(block)
        return larger

    cdef void give(self, Block block):
        """Takes a block back."""
        self.taken -= block.capacity
        if block.capacity >= LARGE and self.pooled + block.capacity <= self.pool_limit:
            self.pool.append(block)
            self.pooled += block.capacity


cdef inline bint is_other_protocol(const uint8_t* at) noexcept nogil:
    """TLS's greeting or alert (as a length: 369, 352 MB), an HTTP method (over 1.1 GB), whatever the limit is."""
    cdef uint32_t word = load_uint32(at)
    return word >> 16 in (0x1603, 0x1503) or word in (0x47455420, 0x504F5354, 0x48454144, 0x50555420)


def protocol_of(prefix):
    """What the first bytes of a stream that is not Kafka's look like, as the end of a sentence."""
    if prefix[:4] in (b"HTTP", b"GET ", b"POST", b"HEAD", b"PUT "):
        return ": it speaks HTTP"
    if prefix[:2] in (b"\x16\x03", b"\x15\x03"):
        return ": it speaks TLS"
    return ""


cdef inline Py_ssize_t read_into(object read, char* data, Py_ssize_t size) except? -2:
    return read(size, PyMemoryView_FromMemory(data, size, PyBUF_WRITE))


cdef bint owns_whole(FrameReader reader) except -1:
    """A frame is in own from its first byte to its last."""
    cdef Py_ssize_t used = reader.filled - reader.begin
    return used >= 4 and used >= 4 + reader.declared()


cdef class FrameReader:
    """The receiving half of one connection.

    In turn: ``receive`` once, ``next`` until it returns None or enough is under way, ``keep``.
    Where frames are left over from the visit before, ``go_on`` stands for ``receive``.
    """

    def __cinit__(self, ReceiveMemory memory not None, Py_ssize_t max_frame):
        self.memory = memory
        self.max_frame = max_frame

    @property
    def pending(self):
        """Bytes that were received and not handed out."""
        return self.unused()

    cdef Py_ssize_t unused(self) noexcept:
        return self.filled - self.begin + self.spilled

    @property
    def taken(self):
        """Bytes of memory that this connection holds."""
        return 0 if self.own is None else self.own.capacity

    @property
    def reuses(self):
        """True where the memory of the frame that was handed out last will be overwritten."""
        return self.own is None or self.begin < self.filled

    def receive(self, int fd):
        """Receives once from the socket ``fd``.

        Returns the number of bytes, 0 when the peer has closed, AGAIN when nothing is there,
        STARVED when memory is at its limit. Raises FrameError for an impossible length and OSError
        as recv does.
        """
        cdef iovec parts[2]
        cdef Block scratch = self.memory.scratch
        cdef Py_ssize_t needed, room, count
        cdef size_t peek = PEEK if self.bulk else scratch.capacity
        if self.own is None:
            count = recv(fd, scratch.data, peek, MSG_DONTWAIT)
            if count < 0:
                return self.failed()
            self.filled = count
            self.begin_visit()
            return count
        needed = self.make_room()
        if needed < 0:
            return STARVED
        room = self.own.capacity - self.filled
        parts[0].iov_base = self.own.data + self.filled
        parts[0].iov_len = room if needed == 0 else min(room, needed)
        parts[1].iov_base = scratch.data
        parts[1].iov_len = peek
        count = readv(fd, parts, 2 if 0 < needed <= room else 1)
        if count < 0:
            return self.failed()
        self.filled += min(count, <Py_ssize_t> parts[0].iov_len)
        self.spilled = max(0, count - <Py_ssize_t> parts[0].iov_len)
        self.begin_visit()
        return count

    def receive_by(self, read):
        """Receives all that ``read`` has, which is little enough for scratch: what lies below decrypts.

        ``read(size, view)`` fills the view, which dies with the call: the number of bytes, 0 at the end,
        AGAIN. Returns and raises as ``receive``; STARVED where ``read`` has more.
        """
        cdef Block scratch = self.memory.scratch
        cdef Py_ssize_t count, needed, total = 0, room
        while True:
            if self.own is None:
                count = read_into(read, scratch.data + self.filled, scratch.capacity - self.filled)
                self.filled += max(count, 0)
            elif owns_whole(self):
                count = read_into(read, scratch.data + self.spilled, scratch.capacity - self.spilled)
                self.spilled += max(count, 0)
            else:
                needed = self.make_room()
                if needed < 0:
                    return STARVED
                if needed == 0:  # first the length: what follows the frame must not lie in own
                    needed = 4 - (self.filled - self.begin)
                room = min(self.own.capacity - self.filled, needed)
                count = read_into(read, self.own.data + self.filled, room)
                self.filled += max(count, 0)
            if count <= 0:
                break
            total += count
        if total:
            self.begin_visit()
        return total or count

    def go_on(self):
        """Begins a visit without receiving."""
        self.begin_visit()

    cdef int begin_visit(self) except -1:
        self.started = now_s()
        self.asked = self.late = False
        return 0

    def visit_s(self):
        """How long the visit has lasted."""
        return now_s() - self.started

    cdef failed(self):
        if errno == EAGAIN or errno == EINTR:
            return AGAIN
        PyErr_SetFromErrno(OSError)

    cdef Py_ssize_t make_room(self) except? -2:
        """Makes room in own for at least one byte.

        Returns how many bytes its frame still needs, 0 while its length has not arrived, -1 at the
        memory's limit.
        """
        cdef Block larger
        cdef Py_ssize_t used = self.filled - self.begin
        cdef bint known = used >= 4
        cdef Py_ssize_t total = 4 + self.declared() if known else 4
        if total <= used:
            raise RuntimeError("a whole frame is there: take it by next()")
        if self.begin > 0 and self.begin + total > self.own.capacity:
            memmove(self.own.data, self.own.data + self.begin, used)
            self.begin = 0
            self.filled = used
        if self.filled == self.own.capacity:
            larger = self.memory.grow(self.own, self.begin, self.filled, total)
            if larger is None:
                return -1
            self.own = larger
            self.begin = 0
            self.filled = used
        return total - used if known else 0

    cdef Py_ssize_t declared(self) except -1:
        """The length at ``begin``, once four bytes are there."""
        cdef Block block = self.memory.scratch if self.own is None else self.own
        cdef const uint8_t* at = <const uint8_t*> block.data + self.begin
        cdef Py_ssize_t length = load_int32(at)
        if 0 <= length <= self.max_frame and not is_other_protocol(at):
            return length
        prefix = at[:min(8, self.filled - self.begin)]
        raise FrameError(f"frame length {length} is not in 0..{self.max_frame}{protocol_of(prefix)}", prefix)

    def next(self, double visit_s=0):
        """The next whole frame as ``(view, start, end)``, without its length field, or None. Raises
        FrameError.

        None also where the visit has lasted for ``visit_s`` and bytes are left (``late``): a visit hands
        out one frame at least.
        """
        if self.asked and visit_s and self.unused() and now_s() - self.started > visit_s:
            self.late = True
            return None
        self.asked = True
        return self.whole()

    def hand_on(self, on_frame):
        """Calls ``on_frame(view, start, end, reused)`` with each whole frame, and keeps what is left.

        ``reused``: the view's memory will be overwritten. A reader that is closed by the call has no
        more frames. Raises FrameError, and what is raised by the call.
        """
        cdef tuple frame = self.whole()
        while frame is not None:
            view, start, end = frame
            on_frame(view, start, end, view is self.memory.scratch_view or self.unused() > 0)
            frame = self.whole()
        self.keep()

    cdef tuple whole(self):
        cdef Py_ssize_t start, length
        if self.own is not None and self.begin == self.filled:
            self.drop_own()
        if self.filled - self.begin < 4:
            return None
        length = self.declared()
        start = self.begin + 4
        if self.filled - start < length:
            return None
        self.begin = start + length
        self.bulk = length >= LARGE
        if self.own is None:
            return self.memory.scratch_view, start, self.begin
        if self.view is None:
            self.view = PyMemoryView_FromObject(self.own)
        return self.view, start, self.begin

    def keep(self):
        """Ends a visit: what was not handed out moves from the shared buffer to this connection."""
        cdef Py_ssize_t remaining, wanted
        cdef Block block
        if self.own is not None:
            if self.begin < self.filled:
                self.view = None
                self.keep_spilled()
                return
            self.drop_own()
        remaining = self.filled - self.begin
        if remaining > 0:
            wanted = remaining
            if remaining >= 4:
                wanted = max(remaining, 4 + self.declared())
            block = self.memory.take(max(remaining, SMALLEST_BLOCK), wanted)
            memcpy(block.data, self.memory.scratch.data + self.begin, remaining)
            self.own = block
        self.begin = 0
        self.filled = remaining

    cdef int keep_spilled(self) except -1:
        """Own holds frames that were not handed out (the connection is muted), and scratch what
        followed them.
        """
        cdef Block larger
        cdef Py_ssize_t used = self.filled - self.begin
        if self.spilled == 0:
            return 0
        larger = self.memory.take(used + self.spilled, used + self.spilled)
        memcpy(larger.data, self.own.data + self.begin, used)
        memcpy(larger.data + used, self.memory.scratch.data, self.spilled)
        self.memory.give(self.own)
        self.own = larger
        self.begin = 0
        self.filled = used + self.spilled
        self.spilled = 0
        return 0

    cdef int drop_own(self) except -1:
        """All of own was handed out: go on in scratch."""
        self.view = None
        self.memory.give(self.own)
        self.own = None
        self.begin = 0
        self.filled = self.spilled
        self.spilled = 0
        return 0

    def close(self):
        """Gives all memory back."""
        self.begin = self.filled = self.spilled = 0
        if self.own is not None:
            self.drop_own()
