"""Compares the replicas of a partition byte by byte, as they lie on the disks of their brokers.

A log is its segments' bytes one after the other; each broker may end its segments elsewhere. Two replicas may differ
above the high watermark. They must agree below the lowest high watermark that the brokers have written
(``replication-offset-checkpoint``). Once every replica is in sync and writes have stopped, a shorter replica has lost
records: ``check`` compares with the longest.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from conformance.faults.checkers.history import LOST, Anomaly

DIFFERENT = "replicas differ"
MARKS = ("-delete", "-future", "-stray")
_HEAD = struct.Struct(">qi")
_REST = 12
_LAST_OFFSET_DELTA = 23


class Batch(NamedTuple):
    """A record batch on the disk."""

    offset: int
    last_offset: int
    crc: int


def batches(folder: Path) -> Iterator[Batch]:
    """Yields a log's batches from its first to its last; ends at bytes that are not a batch."""
    for segment in sorted(folder.glob("*.log")):
        data = segment.read_bytes()
        place = 0
        while place + _HEAD.size <= len(data):
            offset, length = _HEAD.unpack_from(data, place)
            end = place + _REST + length
            if length <= 0 or end > len(data):
                return
            (delta,) = struct.unpack_from(">i", data, place + _LAST_OFFSET_DELTA)
            yield Batch(offset, offset + delta, zlib.crc32(data[place:end]))
            place = end


def checkpoint(log_dir: Path, name: str) -> dict[str, int]:
    """Returns the offsets in a log dir's checkpoint file, by ``topic-partition``."""
    lines = (log_dir / name).read_text().splitlines()[2:]
    rows = [line.rsplit(" ", 2) for line in lines if line]
    return {f"{topic}-{partition}": int(offset) for topic, partition, offset in rows}


def synced_bytes(segment: Path) -> int:
    """Counts a segment's bytes before the recovery point from which its broker would start; none without a checkpoint.
    """
    log_dir, name = segment.parent.parent, "recovery-point-offset-checkpoint"
    offset = checkpoint(log_dir, name).get(segment.parent.name, 0) if (log_dir / name).exists() else 0
    data, place = segment.read_bytes(), 0
    while place + _HEAD.size <= len(data):
        base, length = _HEAD.unpack_from(data, place)
        if base >= offset or length <= 0:
            break
        place += _REST + length
    return min(place, len(data))


def check_all(dirs: Mapping[int, Sequence[Path]]) -> list[Anomaly]:
    """Checks every partition that a broker has in any log dir, as ``check`` does."""
    found: list[Anomaly] = []
    folders = {path.name for own in dirs.values() for log_dir in own for path in log_dir.glob("*-*") if path.is_dir()}
    for partition in sorted(name for name in folders if not name.endswith(MARKS)):
        homes = {broker: [each for each in own if (each / partition).is_dir()] for broker, own in dirs.items()}
        wrong = {broker: len(places) for broker, places in homes.items() if len(places) != 1}
        if wrong:
            found.append(Anomaly(DIFFERENT, f"{partition} is not in one log dir, but in so many, by broker: {wrong}"))
        else:
            found += check({broker: places[0] for broker, places in homes.items()}, partition)
    return found


def check(log_dirs: Mapping[int, Path], partition: str) -> list[Anomaly]:
    """Returns the differences between replicas of ``topic-partition``, all in sync when their brokers stopped."""
    logs = {broker: list(batches(folder / partition)) for broker, folder in log_dirs.items()}
    longest = max(logs, key=lambda broker: len(logs[broker]))
    found = []
    for broker, log in logs.items():
        if len(log) < len(logs[longest]):
            found.append(Anomaly(LOST, f"{partition}: broker {broker} has {len(log)} batches of {len(logs[longest])}"))
        for own, other in zip(log, logs[longest], strict=False):
            if own != other:
                text = f"{partition}: {own} of broker {broker} is {other} of broker {longest}"
                found.append(Anomaly(DIFFERENT, text))
                break
    return found + list(_watermarks(log_dirs, partition, logs))


def _watermarks(log_dirs: Mapping[int, Path], partition: str, logs: Mapping[int, list[Batch]]) -> Iterator[Anomaly]:
    """Checks that no replica's high watermark is beyond the end of its log."""
    for broker, folder in log_dirs.items():
        end = logs[broker][-1].last_offset + 1 if logs[broker] else 0
        told = checkpoint(folder, "replication-offset-checkpoint").get(partition, 0)
        if told > end:
            yield Anomaly(LOST, f"{partition}: the high watermark of broker {broker} is {told}, its log ends at {end}")
