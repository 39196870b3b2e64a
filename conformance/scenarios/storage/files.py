"""Reads the files of a broker on disk, and traces its system calls."""

from __future__ import annotations

import re
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from harness.servers.brokers import Broker

MIB = 1 << 20


def base_offsets(broker: Broker, topic: str, suffix: str = ".log") -> list[int]:
    return sorted(int(path.stem) for path in broker.partition_dir(topic).glob(f"*{suffix}"))


def index_entries(path: Path) -> list[tuple[int, int]]:
    """Returns (relative offset, position) of an offset index, without the zeros of its preallocated part."""
    rows = list(struct.iter_unpack(">ii", path.read_bytes()))
    return [row for row in rows if row != (0, 0)]


def index_lookup(path: Path, relative: int) -> int:
    """Returns the position of the last entry at or before an offset."""
    return max((entry for entry in index_entries(path) if entry[0] <= relative), default=(0, 0))[1]


@contextmanager
def traced(broker: Broker, calls: str, file: Path) -> Iterator[Path]:
    """Starts the broker under strace."""
    broker.wrapper = ["strace", "-D", "-f", "-qq", "-y", "-e", f"trace={calls}", "-o", str(file)]
    with broker:
        yield file


def count_calls(trace: Path, pattern: str) -> int:
    return len(re.findall(pattern, trace.read_text(errors="replace")))
