"""Zip bombs in every codec, and a program that sets each off and measures it.

``python -m cy.batch.tests.bombs`` prints a JSON object: name of the bomb → ``[error, milliseconds, bytes
of additional memory]``. Every bomb has its own forked process, so that peaks do not add up.
"""

from __future__ import annotations

import json
import os
import resource
import struct
import sys
import time
import zlib

import lz4.frame

from cy.batch import Builder, InvalidBatch, validate
from cy.batch.compression import Codec
from cy.crc32c import crc32c

MIB = 1 << 20
XERIAL = b"\x82SNAPPY\x00\x00\x00\x00\x01\x00\x00\x00\x01"


def gzip_bomb(mebibytes: int, size_claimed: int) -> bytes:
    """Returns a gzip bomb. A member cannot be made by hand, but a flushed piece of a stream can be repeated."""
    stream = zlib.compressobj(9, wbits=31)
    head = stream.compress(bytes(MIB)) + stream.flush(zlib.Z_FULL_FLUSH)
    piece = stream.compress(bytes(MIB)) + stream.flush(zlib.Z_FULL_FLUSH)
    return head + piece * (mebibytes - 1) + stream.flush()[:-4] + struct.pack("<I", size_claimed)


def gzip_members(count: int) -> bytes:
    member = zlib.compress(bytes(MIB), 9, wbits=31)
    return member * count


def varint(number: int) -> bytes:
    result = bytearray()
    while number >= 0x80:
        result.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes((*result, number))


def snappy_raw(size_claimed: int, size: int) -> bytes:
    """Returns a literal byte, then copies of 64 bytes from offset 1."""
    copies = (size - 4) // 3
    return varint(size_claimed) + b"\x00A" + b"\xfe\x01\x00" * copies


def xerial(block: bytes, count: int) -> bytes:
    return XERIAL + (struct.pack(">i", len(block)) + block) * count


def lz4_frame(content_size: int | None, blocks: int) -> bytes:
    """Returns repeated blocks of 4 MiB of zeros, with a correct checksum of the header."""
    size = 4 * MIB
    frame = lz4.frame.compress(
        bytes(size), block_size=lz4.frame.BLOCKSIZE_MAX4MB, block_linked=False, store_size=False
    )
    header, block, end = frame[:7], frame[7:-4], frame[-4:]
    if content_size is not None:
        header = lz4_header_with_size(content_size)
    return header + block * blocks + end


def lz4_header_with_size(content_size: int) -> bytes:
    """Returns a header, whose checksum is found by trying all bytes, so that no xxHash is needed."""
    for checksum in range(256):
        header = bytes.fromhex("04224d186870") + struct.pack("<QB", content_size, checksum)
        try:
            lz4.frame.get_frame_info(header)
        except RuntimeError:
            continue
        return header
    raise AssertionError("no checksum fits")


def zstd_frame(blocks: int, content_size: int | None = None, *, window: int = 0x50) -> bytes:
    """Returns run-length blocks, whose four bytes become 128 KiB each."""
    if content_size is None:
        header = bytes((0x00, window))
    else:
        header = struct.pack("<BBQ", 0xC0, window, content_size)
    run = (128 * 1024 << 3) | (1 << 1)
    last = (run | 1).to_bytes(3, "little") + b"\0"
    body = (run.to_bytes(3, "little") + b"\0") * (blocks - 1) + last
    return b"\x28\xb5\x2f\xfd" + header + body


def bombs() -> dict[str, tuple[Codec, bytes]]:
    ten_gib = 10 << 30
    zstd_blocks = ten_gib // (128 * 1024)
    return {
        "gzip": (Codec.GZIP, gzip_bomb(1000, 1000 * MIB)),
        "gzip, lying trailer": (Codec.GZIP, gzip_bomb(1000, 7)),
        "gzip, members": (Codec.GZIP, gzip_members(60)),
        "gzip, 10,000 members": (Codec.GZIP, zlib.compress(b"", 9, wbits=31) * 50_000),
        "snappy, claims 4 GiB": (Codec.SNAPPY, snappy_raw(0xFFFFFFFF, MIB)),
        "snappy, claims 60 MiB": (Codec.SNAPPY, snappy_raw(60 * MIB, MIB)),
        "snappy, claims too little": (Codec.SNAPPY, snappy_raw(1000, MIB)),
        "xerial, 4 GiB a block": (Codec.SNAPPY, xerial(snappy_raw(0xFFFFFFFF, 50), 16_000)),
        "xerial, 10 GiB of lies": (Codec.SNAPPY, xerial(snappy_raw(1300, 60), 16_000)),
        "xerial, empty blocks": (Codec.SNAPPY, xerial(b"\0", 200_000)),
        "lz4": (Codec.LZ4, lz4_frame(None, 64)),
        "lz4, claims 10 GiB": (Codec.LZ4, lz4_frame(ten_gib, 64)),
        "lz4, claims 2^63": (Codec.LZ4, lz4_frame(1 << 63, 64)),
        "lz4, claims little": (Codec.LZ4, lz4_frame(1000, 64)),
        "lz4, frames": (Codec.LZ4, lz4_frame(None, 4) * 640),
        "zstd": (Codec.ZSTD, zstd_frame(zstd_blocks)),
        "zstd, window of 2 GiB": (Codec.ZSTD, zstd_frame(zstd_blocks, window=0xA8)),
        "zstd, window of 128 MiB": (Codec.ZSTD, zstd_frame(zstd_blocks, window=0x88)),
        "zstd, declares 10 GiB": (Codec.ZSTD, zstd_frame(zstd_blocks, ten_gib)),
        "zstd, declares 1000": (Codec.ZSTD, zstd_frame(zstd_blocks, 1000)),
        "zstd, declares 2^63, is small": (Codec.ZSTD, zstd_frame(1, 1 << 63)),
        "zstd, declares 10 GiB, is small": (Codec.ZSTD, zstd_frame(1, ten_gib)),
        "zstd, frames": (Codec.ZSTD, zstd_frame(zstd_blocks // 60) * 60),
        "zstd, 20,000 frames": (Codec.ZSTD, zstd_frame(1) * 20_000),
    }


def batch_of(codec: Codec, records: bytes) -> bytes:
    """Returns a record batch with a valid header."""
    builder = Builder()
    builder.append(0, None, b"")
    batch = bytearray(builder.build()[:61] + records)
    struct.pack_into(">i", batch, 8, len(batch) - 12)
    struct.pack_into(">h", batch, 21, codec)
    struct.pack_into(">I", batch, 17, crc32c(batch[21:]))
    return bytes(batch)


def peak_kib() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def set_off(batch: bytes) -> tuple[str, float, int]:
    before = peak_kib()
    error, best_ms = "accepted", float("inf")
    for _ in range(2):
        start = time.process_time()
        try:
            validate(batch)
        except InvalidBatch as refusal:
            error = str(refusal.__cause__ and type(refusal.__cause__).__name__)
        best_ms = min(best_ms, (time.process_time() - start) * 1000)
    return error, best_ms, (peak_kib() - before) * 1024


def in_a_process_of_its_own(batch: bytes) -> tuple[str, float, int]:
    reader, writer = os.pipe()
    if os.fork() == 0:
        os.write(writer, json.dumps(set_off(batch)).encode())
        os._exit(0)
    os.close(writer)
    with os.fdopen(reader) as result:
        outcome: tuple[str, float, int] = tuple(json.load(result))
    os.wait()
    return outcome


if __name__ == "__main__":
    small = batch_of(Codec.GZIP, zlib.compress(b"x", wbits=31))
    set_off(small)  # whatever is loaded at the first use is loaded
    outcomes = {
        name: in_a_process_of_its_own(batch_of(codec, data))
        for name, (codec, data) in bombs().items()
    }
    json.dump(outcomes, sys.stdout)
