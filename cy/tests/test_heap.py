"""Freed memory of large blocks returns to the system."""

from __future__ import annotations

import subprocess
import sys

import pytest

PROGRAM = """
import sys
from concurrent.futures import ThreadPoolExecutor
from cy import heap
BLOCK = 31 << 20

def resident_kib():
    lines = open("/proc/self/status").read().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmRSS"))

if not heap.return_blocks(4 << 20):
    print(0)
    sys.exit()
with ThreadPoolExecutor(1) as threads:
    before = resident_kib()
    for _ in range(3):
        threads.submit(lambda: len(b"x" * BLOCK)).result()
    print(resident_kib() - before)
"""


@pytest.mark.nightly
def test_a_freed_large_block_of_a_thread_returns_to_the_system() -> None:
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=True)
    assert int(done.stdout) < 8 << 10
