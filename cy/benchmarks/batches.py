"""Measures the speed of checksums, validation, iteration and codecs: ``python -m cy.benchmarks.batches``.

Every figure is the best of several rounds of about 50 ms, on one thread. GB/s count uncompressed bytes.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable

from cy.batch import Builder, assign, iterate, read_header, scan, set_log_append_time, validate
from cy.batch.compression import Codec, compress, decompress
from cy.crc32c import IMPLEMENTATIONS, crc32c_by

ROUNDS, ROUND_S = 5, 0.05


def seconds(action: Callable[[], object]) -> float:
    """The time of one call, in the best round."""
    start, calls = time.perf_counter(), 0
    while time.perf_counter() - start < ROUND_S:
        action()
        calls += 1
    best = float("inf")
    for _ in range(ROUNDS):
        start = time.perf_counter()
        for _ in range(calls):
            action()
        best = min(best, (time.perf_counter() - start) / calls)
    return best


def row(name: str, size: int, action: Callable[[], object]) -> None:
    best = seconds(action)
    print(f"{name:44}{best * 1e6:12.2f} µs{size / best / 1e9:10.2f} GB/s")


def json_lines(size: int) -> bytes:
    dice = random.Random(1)
    lines = bytearray()
    while len(lines) < size:
        lines += b'{"id":%d,"carrier":"%s","delay":%d,"origin":"JFK","distance":%d}\n' % (
            dice.randrange(10**9),
            dice.choice([b"UA", b"AA", b"DL", b"B6"]),
            dice.randint(-20, 300),
            dice.randint(80, 5000),
        )
    return bytes(lines[:size])


def batch(records: int, value_size: int, codec: Codec = Codec.NONE) -> bytes:
    text = json_lines(records * value_size)
    builder = Builder(codec=codec)
    for n in range(records):
        builder.append(1000 + n, b"key", text[n * value_size : (n + 1) * value_size])
    return builder.build()


def checksums() -> None:
    for size in (100, 1024, 16_384, 1 << 20):
        data = random.Random(size).randbytes(size)
        for name in IMPLEMENTATIONS:
            row(f"crc32c {size} B, {name}", size, lambda d=data, n=name: crc32c_by(n, d))


def batches() -> None:
    for records, value_size in ((1, 100), (150, 100), (1000, 1000), (10_000, 100)):
        octets = bytearray(batch(records, value_size))
        name = f"{records} × {value_size} B"
        row(f"read_header, {name}", len(octets), lambda o=octets: read_header(o))
        row(f"validate, {name}", len(octets), lambda o=octets: validate(o))
        row(f"assign, {name}", len(octets), lambda o=octets: assign(o, 5, 6))
        row(f"set_log_append_time, {name}", len(octets), lambda o=octets: set_log_append_time(o, 1))
        row(f"iterate, {name}", len(octets), lambda o=octets: sum(1 for _ in iterate(o)))
        row(f"build, {name}", len(octets), lambda r=records, v=value_size: build(r, bytes(v)))
    many = batch(10, 1000) * 100
    row("scan, 100 batches of 10 KB", len(many), lambda: scan(many))
    row("scan and check_crcs, 100 batches of 10 KB", len(many), lambda: scan(many, check_crcs=True))


def build(records: int, value: bytes) -> bytes:
    builder = Builder()
    for n in range(records):
        builder.append(n, b"key", value)
    return builder.build()


def codecs() -> None:
    for size in (1024, 16_384, 1 << 20):
        text = json_lines(size)
        for codec in (Codec.GZIP, Codec.SNAPPY, Codec.LZ4, Codec.ZSTD):
            packed = compress(codec, text)
            name = f"{codec.name.lower()} {size} B"
            row(f"compress, {name}", size, lambda c=codec, t=text: compress(c, t))
            row(f"decompress, {name}", size, lambda c=codec, p=packed: decompress(c, p, 1 << 25))
    for codec in (Codec.GZIP, Codec.SNAPPY, Codec.LZ4, Codec.ZSTD):
        octets, name = batch(1000, 1000, codec), codec.name.lower()
        row(f"validate, 1000 × 1000 B, {name}", 1_000_000, lambda o=octets: validate(o))


if __name__ == "__main__":
    checksums()
    batches()
    codecs()
