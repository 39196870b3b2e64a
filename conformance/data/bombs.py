"""Zip bombs: streams of every codec that are small and unpack to gigabytes, made without ever holding the gigabytes.

The unpacked bytes are one plausible record, whose value never ends. A broker that unpacks it to check it must stop by
itself.
"""

from __future__ import annotations

import struct
import zlib

import zstandard

from conformance.data import batches
from conformance.data.batches import varint

MIB, GIB = 1 << 20, 1 << 30


def record_start(value_size: int) -> bytes:
    """Returns the first bytes of a record whose value has that size."""
    head = b"\0\0\0" + varint(-1) + varint(value_size)
    return varint(len(head) + value_size + 1) + head


def gzip_bomb(size: int) -> bytes:
    """Returns a gzip stream. Deflate packs zeros 1030 : 1, and the middle of the stream repeats one compressed MiB."""
    packer = zlib.compressobj(9, zlib.DEFLATED, -15)
    start = packer.compress(record_start(size)) + packer.flush(zlib.Z_FULL_FLUSH)
    packer = zlib.compressobj(9, zlib.DEFLATED, -15)
    middle = packer.compress(bytes(MIB)) + packer.flush(zlib.Z_FULL_FLUSH)
    header = b"\x1f\x8b\x08\0\0\0\0\0\0\xff"
    return header + start + middle * (size // MIB) + b"\3\0" + bytes(8)


def unsigned_varint(value: int) -> bytes:
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes((*out, value))


def snappy_bomb(size: int) -> bytes:
    """Returns the raw form: the declared size, a literal, then copies of 64 bytes from offset 1."""
    start = record_start(size)
    copies = size // 64
    literal = bytes(((len(start) - 1) << 2,)) + start
    return unsigned_varint(len(start) + 64 * copies) + literal + b"\xfe\1\0" * copies


def snappy_liar(declared: int = 2**32 - 1) -> bytes:
    """Returns data that declare 4 GiB and contain nothing. A decoder of Java's framing, or of the raw form, may
    allocate the declared size.
    """
    return unsigned_varint(declared) + b"\0a"


def lz4_bomb(size: int) -> bytes:
    """Returns one frame of 4 MiB blocks; a match's length costs one byte per 255 bytes."""
    start = record_start(size)
    first = bytes((len(start) << 4 | 15,)) + start + struct.pack("<H", 1)
    run = (4 * MIB - 1024) // 255
    block = first + b"\xff" * run + b"\0" + b"\x50" + b"\0" * 5
    following = b"\x1f\0" + struct.pack("<H", 1) + b"\xff" * run + b"\0" + b"\x50" + b"\0" * 5
    frame = struct.pack("<IBBB", 0x184D2204, 0x60, 0x70, 0x73)
    blocks = [block] + [following] * max(0, size // (4 * MIB) - 1)
    return frame + b"".join(struct.pack("<I", len(one)) + one for one in blocks) + bytes(4)


def zstd_bomb(size: int) -> bytes:
    """Returns hand-made frames of run-length blocks: four bytes for 128 KiB each."""
    start = zstandard.ZstdCompressor().compress(record_start(size))
    block = ((128 << 10) << 3 | 1 << 1).to_bytes(3, "little") + b"\0"
    last = (1 << 3 | 1 << 1 | 1).to_bytes(3, "little") + b"\0"
    frame = struct.pack("<IBB", 0xFD2FB528, 0x00, 0x38)
    return start + frame + block * (size // (128 << 10)) + last


BOMBS = {
    batches.GZIP: gzip_bomb,
    batches.SNAPPY: snappy_bomb,
    batches.LZ4: lz4_bomb,
    batches.ZSTD: zstd_bomb,
}


def bomb(codec: int, limit: int = 900_000) -> bytes:
    """Returns a batch of less than ``limit`` bytes that unpacks to as much as the codec allows, at most 10 GiB.

    Snappy compresses at most 22 : 1, so its output is large, but not a bomb. ``snappy_liar`` is its bomb.
    """
    size = {batches.GZIP: 850 * MIB, batches.SNAPPY: 12 * MIB, batches.LZ4: 190 * MIB, batches.ZSTD: 10 * GIB}
    payload = BOMBS[codec](size[codec])
    data = batches.batch([b"x"], codec=codec, payload=payload)
    assert len(data) <= limit, f"{len(data)} bytes"
    return data
