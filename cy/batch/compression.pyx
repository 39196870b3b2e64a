"""The four codecs of record batches, whose output is limited before it is allocated.

A compressed batch comes from an untrusted client: 1 MiB may claim to become 10 GiB, or really do so. So a claimed size
is allocated only after a check against the most that the bytes can become:

    gzip    1032 : 1; the last four bytes have the size of the last member, and that much is inflated
    snappy  each block begins with its size; a block of n bytes cannot become more than 22 n
    lz4     the frame is walked: min(largest block, 255 n) per block; the header's size must not exceed that
    zstd    the frame is walked: 128 KiB per block, or the exact size of a raw or run-length block

If that bound is within the limit, one call decompresses. Otherwise, and for gzip of several members, ``gather`` reads
chunks. It keeps the first 4 MiB. It only counts the rest up to the end or the limit, and then reads it again into
memory of the right size.

Framings: snappy is either raw (librdkafka, Go clients) or in xerial's framing, which Java and ``compress`` write: ``82
"SNAPPY" 00, version int32, compatible int32``, then blocks of ``length int32, raw snappy``. Java reads only lz4 frames
of independent blocks, so ``compress`` writes only these. Contexts are kept per thread.
"""

from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from libc.stdint cimport int64_t, uint32_t, uint64_t, uint8_t

import threading
import zlib
from enum import IntEnum

import cramjam
import lz4.frame
import snappy
import zstandard


OUTPUT_FLOOR = 32 << 20
OUTPUT_RATIO = 64

cdef enum:
    CHUNK = 1 << 18             # read at once by gather
    KEPT = 4 << 20              # kept by gather before it is known how much there is
    GZIP_INPUT = 1 << 16        # zlib copies what it leaves of its input
    GZIP_SMALLEST = 18          # header and trailer
    GZIP_RATIO = 1032
    GZIP_MEMBERS = 8 << 20      # the limit for several members, unless a larger one than usual is allowed
    MAX_FRAMES = 64             # gzip members, zstd frames
    XERIAL_BLOCK = 32768
    XERIAL_HEADER_SIZE = 16
    ZSTD_BLOCK = 128 << 10
    MAX_STREAM_WINDOW = 8 << 20

cdef bytes XERIAL_MAGIC = b"\x82SNAPPY\x00"
cdef bytes XERIAL_HEADER = XERIAL_MAGIC + b"\x00\x00\x00\x01\x00\x00\x00\x01"
cdef int64_t UNKNOWN = -1


class Codec(IntEnum):
    NONE = 0
    GZIP = 1
    SNAPPY = 2
    LZ4 = 3
    ZSTD = 4


class CompressionError(ValueError):
    pass


class UnknownCodec(CompressionError):
    pass


class OutputTooLarge(CompressionError):
    pass


class CorruptData(CompressionError):
    pass


class Contexts(threading.local):
    """The codecs' contexts of one thread, which are expensive to create."""

    def __init__(self):
        self.zstd = zstandard.ZstdDecompressor()
        self.zstd_streams = zstandard.ZstdDecompressor(max_window_size=MAX_STREAM_WINDOW)
        self.lz4 = lz4.frame.create_decompression_context()
        self.zstd_by_level = {}

    def zstd_compressor(self, level):
        compressor = self.zstd_by_level.get(level)
        if compressor is None:
            compressor = self.zstd_by_level[level] = zstandard.ZstdCompressor(level=level)
        return compressor


contexts = Contexts()


def output_limit(size):
    return max(OUTPUT_FLOOR, OUTPUT_RATIO * size)


# ---- compress ----------------------------------------------------------------------------------

def compress(int codec, data, level=None):
    if codec == 4:
        return contexts.zstd_compressor(3 if level is None else level).compress(data)
    if codec == 3:
        return lz4.frame.compress(data, compression_level=level or 0, block_linked=False)
    if codec == 2:
        return compress_snappy(memoryview(data).cast("B"))
    if codec == 1:
        return zlib.compress(data, -1 if level is None else level, wbits=31)
    if codec == 0:
        return bytes(data)
    raise UnknownCodec(f"no codec has the number {codec}")


cdef bytes compress_snappy(object view):
    cdef list pieces = [XERIAL_HEADER]
    for start in range(0, len(view), XERIAL_BLOCK):
        block = snappy.compress(view[start:start + XERIAL_BLOCK])
        pieces.append(len(block).to_bytes(4, "big"))
        pieces.append(block)
    return b"".join(pieces)


# ---- decompress --------------------------------------------------------------------------------

def decompress(int codec, data, int64_t max_output):
    if codec == 4:
        return decompress_zstd(data, max_output)
    if codec == 3:
        return decompress_lz4(data, max_output)
    if codec == 2:
        return decompress_snappy(memoryview(data).cast("B"), max_output)
    if codec == 1:
        return decompress_gzip(memoryview(data).cast("B"), max_output)
    if codec == 0:
        return within(data, len(data), max_output)
    raise UnknownCodec(f"no codec has the number {codec}")


cdef object within(object data, int64_t size, int64_t max_output):
    if size > max_output:
        raise OutputTooLarge(f"{size} bytes of output are more than {max_output}")
    return data


cdef object gather(object open_stream, object data, int64_t max_output):
    """Returns all that ``open_stream(data).read(n)`` returns. Raises OutputTooLarge beyond ``max_output``."""
    cdef list chunks = []
    cdef int64_t total = 0
    stream = open_stream(data)
    while chunk := stream.read(CHUNK):
        total += len(chunk)
        within(None, total, max_output)
        if total <= KEPT:
            chunks.append(chunk)
        else:
            chunks = None
            break
    if chunks is not None:
        return chunks[0] if len(chunks) == 1 else b"".join(chunks)
    while chunk := stream.read(CHUNK):
        total += len(chunk)
        within(None, total, max_output)
    return gather_again(open_stream(data), total)


cdef object gather_again(object stream, int64_t total):
    result = bytearray(total)
    cdef Py_ssize_t position = 0
    while chunk := stream.read(CHUNK):
        result[position:position + len(chunk)] = chunk
        position += len(chunk)
    return result


# ---- gzip --------------------------------------------------------------------------------------

cdef object decompress_gzip(object view, int64_t max_output):
    cdef Py_ssize_t size = len(view)
    cdef int64_t declared
    if size < GZIP_SMALLEST:
        return gather(GzipStream, view, max_output)
    declared = int.from_bytes(view[size - 4:], "little")
    if declared > GZIP_RATIO * size:
        raise CorruptData(f"gzip: {size} bytes cannot become {declared}")
    within(None, declared, max_output)
    member = zlib.decompressobj(31)
    try:
        whole = member.decompress(view, max(1, declared))
        if not member.eof and len(whole) == declared:
            more = member.decompress(member.unconsumed_tail, 1)
            if more:
                whole = None
    except zlib.error as error:
        raise CorruptData(f"gzip: {error}") from None
    if whole is not None and member.eof and not member.unused_data:
        return whole
    if max_output <= output_limit(size):
        max_output = min(max_output, <int64_t>GZIP_MEMBERS)
    return gather(GzipStream, view, max_output)     # several members, or a wrong size


class GzipStream:
    """Reads a sequence of gzip members."""

    def __init__(self, data):
        self.input = memoryview(data).cast("B")
        self.position = 0
        self.members = 0
        self.member = None

    def read(self, size):
        while True:
            if self.member is None and not self.open_member():
                return b""
            chunk = self.inflate(size)
            if self.member.eof:
                self.member = None
            if chunk:
                return chunk

    def open_member(self):
        if self.members and self.position == len(self.input):
            return False
        self.members += 1
        if self.members > MAX_FRAMES:
            raise CorruptData(f"more than {MAX_FRAMES} gzip members")
        self.member = zlib.decompressobj(31)
        return True

    def inflate(self, size):
        piece = self.input[self.position:self.position + GZIP_INPUT]
        try:
            chunk = self.member.decompress(piece, size)
        except zlib.error as error:
            raise CorruptData(f"gzip: {error}") from None
        left = len(self.member.unused_data if self.member.eof else self.member.unconsumed_tail)
        self.position += len(piece) - left
        if not chunk and not self.member.eof and left == len(piece):
            raise CorruptData("gzip: the data ends early")
        return chunk


# ---- snappy ------------------------------------------------------------------------------------

cdef object decompress_snappy(object view, int64_t max_output):
    if bytes(view[:8]) != XERIAL_MAGIC:
        within(None, snappy_length(view), max_output)
        return snappy_block(view)
    blocks = xerial_blocks(view)
    within(None, sum([snappy_length(block) for block in blocks]), max_output)
    if len(blocks) == 1:
        return snappy_block(blocks[0])
    return b"".join([snappy_block(block) for block in blocks])


cdef list xerial_blocks(object view):
    cdef list blocks = []
    cdef Py_ssize_t position = 0, total = len(view), length
    cdef Py_ssize_t allowed = 1024 + total // 64
    while position < total:
        if bytes(view[position:position + 8]) == XERIAL_MAGIC:
            position += XERIAL_HEADER_SIZE
            continue
        length = int.from_bytes(view[position:position + 4], "big")
        position += 4
        if length > total - position or len(blocks) == allowed:
            raise CorruptData("snappy: a block runs past the data, or there are too many")
        blocks.append(view[position:position + length])
        position += length
    if position != total:
        raise CorruptData("snappy: the header is cut")
    return blocks


cdef int64_t snappy_length(object block) except -1:
    """Returns the size that a raw block claims. Raises CorruptData if it is impossible."""
    cdef int64_t length = 0
    cdef Py_ssize_t size = len(block)
    cdef int shift = 0
    for byte in block[:5]:
        length |= <int64_t>(byte & 0x7F) << shift
        if byte < 0x80:
            if length > 22 * size:
                raise CorruptData(f"snappy: {size} bytes cannot become {length}")
            return length
        shift += 7
    raise CorruptData("snappy: the data has no length")


cdef object snappy_block(object block):
    # python-snappy is built on cramjam, and would copy its output
    try:
        return memoryview(cramjam.snappy.decompress_raw(block))
    except cramjam.DecompressionError as error:
        raise CorruptData(f"snappy: {error}") from None


# ---- lz4 ---------------------------------------------------------------------------------------

cdef uint32_t load_little(const uint8_t *at) noexcept nogil:
    return at[0] | <uint32_t>at[1] << 8 | <uint32_t>at[2] << 16 | <uint32_t>at[3] << 24


cdef struct Frame:
    int64_t size                # of the frame; -1 if it is incomplete or impossible
    int64_t bound               # the most bytes that it can become
    int64_t declared            # the output size that it claims, or UNKNOWN
    int64_t window


cdef void walk_lz4(const uint8_t *at, Py_ssize_t size, Frame *frame) noexcept nogil:
    cdef const uint8_t *start = at
    cdef const uint8_t *end = at + size
    cdef int64_t largest, length
    cdef uint8_t flags
    frame.size = -1
    frame.bound = 0
    frame.declared = UNKNOWN
    if size < 11 or load_little(at) != 0x184D2204U:
        return
    flags = at[4]
    if flags >> 6 != 1 or not flags & 0x20 or flags & 0x03 or at[5] >> 4 < 4:
        return
    largest = <int64_t>1 << (8 + 2 * (at[5] >> 4))
    at += 7
    if flags & 0x08:
        if size < 19:
            return
        frame.declared = <int64_t>(load_little(start + 6) | <uint64_t>load_little(start + 10) << 32)
        at += 8
    while end - at >= 4:
        length = load_little(at) & 0x7FFFFFFF
        if not load_little(at):
            at += 8 if flags & 0x04 else 4
            frame.size = at - start if at <= end else -1
            return
        frame.bound += min(largest, 255 * length) if at[3] < 0x80 else length
        at += 4 + length + (4 if flags & 0x10 else 0)


cdef class Lz4Stream:
    """Reads one lz4 frame."""
    cdef object view
    cdef object context
    cdef bint ended

    def __init__(self, data):
        self.view = memoryview(data).cast("B")
        self.context = contexts.lz4
        lz4.frame.reset_decompression_context(self.context)

    def read(self, size):
        if self.ended:
            return b""
        try:
            chunk, taken, self.ended = lz4.frame.decompress_chunk(
                self.context, self.view, max_length=size
            )
        except RuntimeError as error:
            raise CorruptData(f"lz4: {error}") from None
        self.view = self.view[taken:]
        if not chunk and not self.ended:
            raise CorruptData("lz4: the data ends early")
        return chunk


cdef object decompress_lz4(object data, int64_t max_output):
    cdef Py_buffer view
    cdef Frame frame
    PyObject_GetBuffer(data, &view, PyBUF_SIMPLE)
    walk_lz4(<const uint8_t *>view.buf, view.len, &frame)
    cdef bint whole = frame.size == view.len
    PyBuffer_Release(&view)
    if not whole:
        raise CorruptData("lz4: not exactly one frame of independent blocks")
    if frame.declared != UNKNOWN and not 0 <= frame.declared <= frame.bound:
        raise CorruptData(f"lz4: the frame cannot become {frame.declared} bytes")
    within(None, frame.declared, max_output)
    if frame.bound > max_output:
        return gather(Lz4Stream, data, max_output)
    try:
        return lz4.frame.decompress(data)
    except RuntimeError as error:
        raise CorruptData(f"lz4: {error}") from None


# ---- zstd --------------------------------------------------------------------------------------

cdef int64_t load_little_sized(const uint8_t *at, int size) noexcept nogil:
    cdef uint64_t value = 0
    cdef int index
    for index in range(size):
        value |= <uint64_t>at[index] << 8 * index
    return <int64_t>(value & 0x7FFFFFFFFFFFFFFFU)


cdef const uint8_t *walk_zstd_header(
    const uint8_t *at, const uint8_t *end, Frame *frame
) noexcept nogil:
    """Returns the position behind the frame header, or null if there is none."""
    cdef uint8_t flags
    cdef int size_size, skipped
    if end - at < 5 or load_little(at) != 0xFD2FB528U:
        return NULL
    flags = at[4]
    at += 5
    size_size = 1 << (flags >> 6) if flags >> 6 else (1 if flags & 0x20 else 0)
    skipped = 0 if flags & 0x20 else 1
    frame.window = 0
    if skipped and at < end:
        frame.window = (<int64_t>1 << (10 + (at[0] >> 3))) // 8 * (8 + (at[0] & 7))
    skipped += (1 << (flags & 3)) >> 1
    if flags & 0x08 or end - at < skipped + size_size:
        return NULL
    at += skipped
    frame.declared = UNKNOWN
    if size_size:
        frame.declared = load_little_sized(at, size_size) + (256 if size_size == 2 else 0)
    return at + size_size


cdef void walk_zstd(const uint8_t *at, Py_ssize_t size, Frame *frame) noexcept nogil:
    cdef const uint8_t *start = at
    cdef const uint8_t *end = at + size
    cdef uint32_t block
    cdef int kind
    frame.size = -1
    frame.bound = 0
    at = walk_zstd_header(at, end, frame)
    if at == NULL:
        return
    while end - at >= 3:
        block = at[0] | <uint32_t>at[1] << 8 | <uint32_t>at[2] << 16
        kind = block >> 1 & 3
        frame.bound += ZSTD_BLOCK if kind == 2 else block >> 3
        at += 3 + (1 if kind == 1 else block >> 3)
        if kind == 3 or at > end:
            return
        if block & 1:
            at += 4 if start[4] & 0x04 else 0
            frame.size = at - start if at <= end else -1
            return


cdef list zstd_frames(object data):
    """Returns (start, size, bound, declared) of each frame of a sequence."""
    cdef Py_buffer view
    cdef Frame frame
    cdef Py_ssize_t position = 0
    cdef list frames = []
    PyObject_GetBuffer(data, &view, PyBUF_SIMPLE)
    try:
        while position < view.len or not frames:
            walk_zstd(<const uint8_t *>view.buf + position, view.len - position, &frame)
            if frame.size < 0 or len(frames) == MAX_FRAMES:
                raise CorruptData("zstd: a frame is cut or impossible, or there are too many")
            if frame.declared > frame.bound:
                raise CorruptData(f"zstd: a frame cannot become {frame.declared} bytes")
            frames.append((position, frame.size, frame.bound, frame.declared))
            position += frame.size
    finally:
        PyBuffer_Release(&view)
    return frames


def open_zstd_stream(data):
    return ZstdStream(contexts.zstd_streams.stream_reader(data, read_across_frames=True))


cdef class ZstdStream:
    """Reads a sequence of zstd frames with windows of limited size."""
    cdef object reader

    def __init__(self, reader):
        self.reader = reader

    def read(self, size):
        try:
            return self.reader.read(size)
        except zstandard.ZstdError as error:
            raise CorruptData(f"zstd: {error}") from None


cdef object decompress_zstd(object data, int64_t max_output):
    cdef list frames = zstd_frames(data)
    cdef int64_t bound = 0, declared = 0
    for frame in frames:
        bound += frame[2]
        declared += max(0, frame[3])
    within(None, declared, max_output)
    if bound > max_output:
        return gather(open_zstd_stream, data, max_output)
    if len(frames) == 1:
        return zstd_frame(data, frames[0])
    view = memoryview(data).cast("B")
    return b"".join([zstd_frame(view[frame[0]:frame[0] + frame[1]], frame) for frame in frames])


cdef object zstd_frame(object data, tuple frame):
    try:
        return contexts.zstd.decompress(data, max_output_size=max(1, frame[2]))
    except zstandard.ZstdError as error:
        raise CorruptData(f"zstd: {error}") from None
