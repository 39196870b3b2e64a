"""Reads frames from a non-blocking socket: ``FrameReader``. (``send_queue`` writes.)

    frame := length:int32 byte[length]          big-endian; length counts what follows it

All connections of a loop receive into one buffer, ``ReceiveMemory.scratch``. Whole frames are returned in place, as
``(view, start, end)``. Nothing is copied, and an idle connection owns no memory. Only the incomplete frame that is left
after all whole ones moves to a block of the connection. That block grows with the bytes that have *arrived*, doubling
up to the declared length. So a peer that declares 100 MB and sends two bytes costs 512 bytes. One ``readv`` receives
the rest of a large frame directly into its block, and whatever follows into scratch. Blocks of large frames return to a
small pool, so a stream of them uses the same pages again and again.

A view is valid until the next call of ``next``, ``keep`` or ``receive`` on *any* reader of the same memory. A pooled
block is not reused while views of it exist.
"""

from cpython.buffer cimport PyBuffer_FillInfo
from cpython.exc cimport PyErr_SetFromErrno
from cpython.memoryview cimport PyMemoryView_FromObject
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
# What receive() returns if it does not return a count of bytes (0: the peer has closed).
AGAIN = -1                      # nothing has arrived
STARVED = -2                    # memory is at its limit: try again when some is free

cdef enum:
    SMALLEST_BLOCK = 512
    LARGE = 64 * 1024           # frames and blocks of this size and more are worth pooling
    RECORD = 16 * 1024          # the most bytes that a layer decrypts at once
    HUNGRY = 8 * 1024           # a layer with fewer encrypted bytes than these gets more
    PEEK = 4096                 # read ahead of a large frame, to find its length and copy little


class FrameError(ValueError):
    """The stream cannot be a stream of frames: a length below 0 or above the limit.

    ``prefix`` has its first bytes, at most eight. They often show which protocol the peer speaks.
    """

    def __init__(self, message, prefix):
        super().__init__(message)
        self.prefix = prefix


cdef class Block:
    """Memory that a socket fills. For Python it is a writable buffer."""

    def __cinit__(self, Py_ssize_t capacity):
        self.data = <char*> malloc(capacity)
        if self.data == NULL:
            raise MemoryError
        self.capacity = capacity

    def __dealloc__(self):
        free(self.data)

    cdef int resize(self, Py_ssize_t capacity) except -1:
        """Changes the size of a block without exports. The pages of a large block move without being copied."""
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
    """The memory into which the connections of one event loop receive.

    ``limit`` limits the bytes that connections hold for partial frames (``queued.max.request.bytes``). At the limit,
    connections still receive small frames, PEEK bytes at a time.
    """

    def __cinit__(self, Py_ssize_t limit=1 << 62, *, Py_ssize_t scratch_size=SCRATCH_SIZE,
                  Py_ssize_t pool_limit=POOL_LIMIT):
        self.scratch = Block(scratch_size)
        self.scratch_view = PyMemoryView_FromObject(self.scratch)
        self.pool = []
        self.limit = limit
        self.pool_limit = pool_limit

    def trim(self):
        """Frees the pool. Call it when no large frames arrive."""
        self.pool.clear()
        self.pooled = 0

    cdef bint is_full(self) noexcept:
        """Returns True at the limit: connections that hold nothing then receive little, which is all they can keep."""
        return self.taken >= self.limit

    cdef Block record_block(self):
        """Returns the block of ``record_view``, where a layer decrypts. It exists once one has been used."""
        if self.record is None:
            self.record = Block(RECORD)
            self.record_view = PyMemoryView_FromObject(self.record)
        return self.record

    cdef Block take(self, Py_ssize_t at_least, Py_ssize_t wanted):
        """Returns a pooled block of ``wanted`` bytes if one fits, otherwise a new one of ``at_least``."""
        cdef Block block
        cdef Py_ssize_t index
        cdef bint fits
        for index in range(len(self.pool)):
            block = <Block> self.pool[index]
            fits = wanted <= block.capacity <= 4 * wanted and self.taken + block.capacity <= self.limit
            if fits and block.exports == 0:
                del self.pool[index]
                self.pooled -= block.capacity
                self.taken += block.capacity
                return block
        block = Block(at_least)
        self.taken += at_least
        return block

    cdef Block grow(self, Block block, Py_ssize_t begin, Py_ssize_t filled, Py_ssize_t wanted):
        """Returns a larger block that begins with the bytes [begin, filled) of ``block``. Returns None at the limit.
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
    """Returns True for TLS's greeting or alert (as a length: 369, 352 MB) and for an HTTP method (over 1.1 GB),
    whatever the limit is."""
    cdef uint32_t word = load_uint32(at)
    return word >> 16 in (0x1603, 0x1503) or word in (0x47455420, 0x504F5354, 0x48454144, 0x50555420)


def protocol_of(prefix):
    """Returns which protocol the first bytes of a stream look like, as the end of a sentence."""
    if prefix[:4] in (b"HTTP", b"GET ", b"POST", b"HEAD", b"PUT "):
        return ": it speaks HTTP"
    if prefix[:2] in (b"\x16\x03", b"\x15\x03"):
        return ": it speaks TLS"
    return ""


cdef bint owns_whole(FrameReader reader) except -1:
    """Returns True if a whole frame is in own."""
    cdef Py_ssize_t used = reader.filled - reader.begin
    return used >= 4 and used >= 4 + reader.declared()


cdef class FrameReader:
    """The receiving half of one connection.

    Call ``receive`` once, ``next`` until it returns None or enough is in progress, then ``keep``. If frames are left
    from the previous visit, call ``go_on`` in place of ``receive``.
    """

    def __cinit__(self, ReceiveMemory memory not None, Py_ssize_t max_frame):
        self.memory = memory
        self.max_frame = max_frame

    @property
    def pending(self):
        """The number of bytes that were received but not returned as frames."""
        return self.unused()

    cdef Py_ssize_t unused(self) noexcept:
        return self.filled - self.begin + self.spilled

    @property
    def taken(self):
        """The bytes of memory that this connection holds."""
        return 0 if self.own is None else self.own.capacity

    @property
    def receives_little(self):
        """True at the memory's limit: a layer that decrypts should take no more than it needs."""
        return self.memory.is_full()

    @property
    def reuses(self):
        """True if the memory of the last returned frame will be overwritten."""
        return self.own is None or self.begin < self.filled

    def receive(self, int fd):
        """Receives once from the socket ``fd``.

        Returns the number of bytes, 0 if the peer has closed, AGAIN if nothing has arrived, STARVED if memory is at its
        limit. Raises FrameError for an impossible length, and OSError as recv does.
        """
        cdef iovec parts[2]
        cdef Block scratch = self.memory.scratch
        cdef Py_ssize_t needed, room, count
        cdef size_t peek = PEEK if self.bulk or self.memory.is_full() else scratch.capacity
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

    def receive_by(self, layer):
        """Receives everything that ``layer`` decrypts, which fits into scratch.

        A record may have few bytes: librdkafka sends one for each of its buffers. So no Python code runs for a record
        but ``layer.read(size, view)``, which fills the view and returns the number of bytes, 0 at the end.
        ``layer.feed_next(count)`` runs while few bytes in ``layer.incoming`` wait to be decrypted; ``count`` bytes have
        been read so far. ``layer.cannot_read(error)`` takes what ``read`` raised. It returns AGAIN, 0 at the end, 1 to
        read again, or None if the error ends the connection. ``layer.end_reading()`` runs if the end follows some data.
        Returns and raises the same as ``receive``; STARVED if the layer has more.
        """
        cdef ReceiveMemory memory = self.memory
        cdef Py_ssize_t count, needed, room, total = 0
        cdef Py_ssize_t* end
        cdef char* start
        cdef object read = layer.read, incoming = layer.incoming
        cdef Block record = memory.record_block()
        cdef object view = memory.record_view
        while True:
            if self.own is None:
                start, end, room = memory.scratch.data, &self.filled, memory.scratch.capacity - self.filled
            elif owns_whole(self):
                start, end, room = memory.scratch.data, &self.spilled, memory.scratch.capacity - self.spilled
            else:
                needed = self.make_room()
                if needed < 0:
                    return STARVED
                if needed == 0:  # first the length: bytes after the frame must not be in own
                    needed = 4 - (self.filled - self.begin)
                start, end, room = self.own.data, &self.filled, min(self.own.capacity - self.filled, needed)
            if room <= 0:
                raise RuntimeError("the layer has received more than scratch can hold")
            if incoming.pending < HUNGRY:
                layer.feed_next(total)
            try:
                count = read(min(room, RECORD), view)
            except Exception as error:
                stop = layer.cannot_read(error)
                if stop is None:
                    raise
                count = stop
                if count > 0:
                    continue
            if count <= 0:
                if count == 0 and total:
                    layer.end_reading()
                break
            memcpy(start + end[0], record.data, count)
            end[0] += count
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
        """Makes room in own for at least one byte. Returns how many bytes the frame still needs, 0 while its length is
        incomplete, -1 at the memory's limit.
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
        """Returns the length at ``begin``, if four bytes have arrived."""
        cdef Block block = self.memory.scratch if self.own is None else self.own
        cdef const uint8_t* at = <const uint8_t*> block.data + self.begin
        cdef Py_ssize_t length = load_int32(at)
        if 0 <= length <= self.max_frame and not is_other_protocol(at):
            return length
        prefix = at[:min(8, self.filled - self.begin)]
        raise FrameError(f"frame length {length} is not in 0..{self.max_frame}{protocol_of(prefix)}", prefix)

    def next(self, double visit_s=0):
        """Returns the next whole frame as ``(view, start, end)``, without its length field, or None. Raises FrameError.
        Also returns None if the visit has lasted for ``visit_s`` and bytes are left (``late``). A visit returns at
        least one frame.
        """
        if self.asked and visit_s and self.unused() and now_s() - self.started > visit_s:
            self.late = True
            return None
        self.asked = True
        return self.whole()

    def hand_on(self, on_frame):
        """Calls ``on_frame(view, start, end, reused)`` with each whole frame, and keeps what is left.

        If ``reused``, the view's memory will be overwritten. If the call closes the reader, no frame follows. Raises
        FrameError, and what the call raises.
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
        """Ends a visit: bytes that were not returned move from the shared buffer to this connection."""
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
        """Handles the case that own has frames that were not returned (the connection is muted), and scratch what
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
        """Continues in scratch, after everything in own was returned."""
        self.view = None
        self.memory.give(self.own)
        self.own = None
        self.begin = 0
        self.filled = self.spilled
        self.spilled = 0
        return 0

    def close(self):
        """Returns all memory to the pool."""
        self.begin = self.filled = self.spilled = 0
        if self.own is not None:
            self.drop_own()
