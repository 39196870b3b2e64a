"""No function reads beyond the end of a buffer: the page after it is protected.

The program below runs in a process of its own. It puts data directly before the protected page, and passes them, whole,
cut and damaged, to each function that reads by pointers.
"""

from __future__ import annotations

import ctypes
import mmap
import random
import subprocess
import sys
from pathlib import Path

import pytest

from cy.batch import check_crc, iterate, read_header, scan, validate
from cy.batch.compression import Codec, compress, decompress
from cy.batch.legacy import up_convert
from cy.batch.tests import golden
from cy.crc32c import IMPLEMENTATIONS, crc32c, crc32c_by
from cy.produce.murmur2 import murmur2

ROOM = 64 * mmap.PAGESIZE


class Edge:
    """Memory that ends where no access is allowed."""

    def __init__(self) -> None:
        self.memory = mmap.mmap(-1, ROOM + mmap.PAGESIZE)
        start = ctypes.addressof(ctypes.c_char.from_buffer(self.memory))
        libc = ctypes.CDLL(None, use_errno=True)
        protect = libc.mprotect(ctypes.c_void_p(start + ROOM), mmap.PAGESIZE, 0)
        assert protect == 0, ctypes.get_errno()

    def put(self, data: bytes) -> memoryview:
        self.memory[ROOM - len(data) : ROOM] = data
        return memoryview(self.memory)[ROOM - len(data) : ROOM]


def read_by_all_means(view: memoryview) -> None:
    actions = (
        read_header,
        validate,
        lambda octets: [check_crc(octets, 0, batch) for batch in scan(octets)],
        lambda octets: list(iterate(octets, check_crcs=False)),
        lambda octets: up_convert(octets),
    )
    for action in actions:
        try:
            action(view)
        except ValueError:
            continue


def sealed(octets: bytearray) -> bytes:
    octets[17:21] = crc32c(octets[21:]).to_bytes(4, "big")
    return bytes(octets)


def batches(edge: Edge, dice: random.Random) -> None:
    for row in golden.load():
        for end in range(0, len(row.octets) + 1):
            read_by_all_means(edge.put(row.octets[:end]))
        for _ in range(300):
            damaged = bytearray(row.octets)
            for _ in range(dice.randint(1, 4)):
                damaged[dice.randrange(len(damaged))] = dice.choice((0, 0x7F, 0x80, 0xFF, 0x0E))
            if len(damaged) > 21:
                read_by_all_means(edge.put(sealed(damaged)))


def checksums_and_hashes(edge: Edge, dice: random.Random) -> None:
    data = dice.randbytes(9000)
    for length in (*range(1200), *range(3000, 3200), *range(8900, 9000)):
        view = edge.put(data[:length])
        murmur2(view)
        for implementation in IMPLEMENTATIONS:
            crc32c_by(implementation, view)


def codecs(edge: Edge, dice: random.Random) -> None:
    for codec in Codec:
        packed = compress(codec, b"value " * 50 + dice.randbytes(50))
        for end in range(len(packed) + 1):
            damaged = bytearray(packed[:end])
            if damaged:
                damaged[dice.randrange(len(damaged))] ^= 1 << dice.randrange(8)
            for data in (packed[:end], bytes(damaged)):
                try:
                    decompress(codec, edge.put(data), 10_000)
                except ValueError:
                    continue


@pytest.mark.nightly
def test_case_48_no_function_reads_beyond_the_end_of_a_buffer() -> None:
    run = subprocess.run(
        [sys.executable, "-m", "cy.tests.test_bounds"],
        cwd=Path(__file__).parents[2],
        capture_output=True,
        timeout=120,
        check=False,
    )
    assert run.returncode == 0, run.stderr[-2000:]


if __name__ == "__main__":
    place, generator = Edge(), random.Random(48)
    batches(place, generator)
    checksums_and_hashes(place, generator)
    codecs(place, generator)
