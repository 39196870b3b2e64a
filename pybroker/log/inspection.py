"""Inspects the files of a running or stopped broker without changing them, for ``pybroker log verify``.

A partition's folder is sound if

* the batches of each ``.log`` follow each other up to its end, with matching CRCs, ascending offsets and as many
  records as their headers say;
* every entry of an ``.index`` and ``.timeindex`` points to the batch with its offset;
* every entry of a ``.txnindex`` points to an abort marker of its producer;
* ``.snapshot``, ``leader-epoch-checkpoint`` and ``partition.metadata`` can be read.

Index entries that an active segment still lacks are not reported. Files are opened for reading only.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Container, Iterator
from dataclasses import dataclass, field
from itertools import islice, pairwise
from typing import NamedTuple

from cy.batch import CorruptBatch, InvalidBatch, check_crc, iterate
from cy.batch.compression import CompressionError
from cy.counted import counted
from pybroker.log.files import leader_epochs, partition_metadata
from pybroker.log.files.batches import Located, MalformedBatch, walk
from pybroker.log.files.file_cache import FileCache
from pybroker.log.files.offset_index import OffsetIndex, OffsetPosition
from pybroker.log.files.storage import DataFile, Storage
from pybroker.log.files.time_index import TimeIndex, TimestampEntry
from pybroker.log.files.txn_index import TransactionIndex
from pybroker.log.producers import producer_snapshot

LOG_SUFFIX = ".log"
MOST_FINDINGS = 100
"""How many findings of one file are listed at most."""


class ReadOnly(Storage):
    """A storage that reads the files of another process: it writes nothing, and needs no write permission."""

    def open(self, path: str, *, create: bool = False) -> DataFile:
        return DataFile(os.open(path, os.O_RDONLY | os.O_CLOEXEC), path)


class Finding(NamedTuple):
    """A fault: the file, the place in it (a position or an offset; empty for the whole file), and the problem."""

    path: str
    place: str
    problem: str


@dataclass
class Segment:
    """The contents of a ``.log``. ``ends`` has position and greatest timestamp of each indexed batch, by its last
    offset.
    """

    path: str
    base_offset: int
    size: int
    batches: int = 0
    records: int = 0
    next_offset: int = -1
    ends: dict[int, tuple[int, int]] = field(default_factory=dict)
    markers: dict[int, int] = field(default_factory=dict)
    """Producer ids of control batches by offset."""
    findings: list[Finding] = field(default_factory=list)


@dataclass
class Partition:
    """The contents and the faults of a partition's folder."""

    path: str
    segments: list[Segment]
    findings: list[Finding]


def partitions(path: str) -> Iterator[str]:
    """Yields the partitions' folders at or below a folder, sorted, including those of logs without records."""
    for folder, below, files in os.walk(path):
        below.sort()
        if partition_metadata.FILE_NAME in files or any(is_log(name) for name in files):
            yield folder


def is_log(name: str) -> bool:
    """Returns True if the name is that of a segment's ``.log``."""
    return name.endswith(LOG_SUFFIX) and name.removesuffix(LOG_SUFFIX).isdigit()


def base_offset_of(path: str) -> int:
    """Returns the base offset of a segment's file, with which its name begins. Raises ValueError."""
    return int(os.path.basename(path).partition(".")[0])


def batch_bytes(file: DataFile, located: Located) -> bytes:
    """Returns the bytes of a whole batch."""
    return file.read(located.batch.size, located.position)


def inspect_partition(folder: str, *, deep: bool = True) -> Partition:
    """Inspects every file of a partition's folder, with ``deep`` also each record. Raises OSError."""
    names = sorted(os.listdir(folder))
    segments = [inspect_segment(os.path.join(folder, name), deep=deep) for name in names if is_log(name)]
    findings = [each for segment in segments for each in segment.findings]
    findings += overlaps(segments)
    for name in names:
        findings += inspect_small_file(os.path.join(folder, name))
    return Partition(folder, segments, findings)


def inspect_segment(path: str, *, deep: bool = True) -> Segment:
    """Inspects every batch of a ``.log``, and the indexes beside it. Raises OSError."""
    file = ReadOnly().open(path)
    segment = Segment(path, base_offset_of(path), file.size())
    segment.next_offset = segment.base_offset
    indexes = Indexes(os.path.dirname(path), segment.base_offset)
    try:
        for located in walk(file, 0, segment.size):
            _add(segment, located, batch_bytes(file, located), indexes.offsets, deep)
    except MalformedBatch as error:
        rest = segment.size - error.position
        reason = str(error).removesuffix(f" at position {error.position}")
        problem = f"{reason}: the rest of the file, {counted(rest, 'byte')}, is not inspected"
        segment.findings.append(Finding(path, f"position {error.position}", problem))
    segment.findings += indexes.compare(segment)
    return segment


def _add(segment: Segment, located: Located, data: bytes, indexed: Container[int], deep: bool) -> None:
    batch = located.batch
    segment.batches += 1
    segment.records += max(batch.count, 0) if batch.magic == 2 else 1
    segment.next_offset = batch.next_offset
    if batch.last_offset in indexed:
        segment.ends[batch.last_offset] = located.position, batch.max_timestamp
    if batch.is_control:
        segment.markers[batch.base_offset] = batch.producer_id
    problem = problem_of(segment, located, data, deep)
    if problem and len(segment.findings) < MOST_FINDINGS:
        segment.findings.append(Finding(segment.path, f"offset {batch.base_offset}", problem))


def problem_of(segment: Segment, located: Located, data: bytes, deep: bool) -> str:
    """Returns the fault of a batch, or nothing if it is sound."""
    batch = located.batch
    if not check_crc(data, 0, batch):
        return f"wrong CRC of the batch at position {located.position}"
    if batch.base_offset < segment.base_offset and batch.magic == 2:
        return f"lies below the segment's first offset {segment.base_offset}"
    if not deep:
        return ""
    try:
        count = sum(1 for _ in iterate(data, check_crcs=False))
    except (CorruptBatch, InvalidBatch, CompressionError) as error:
        return f"records cannot be read: {error}"
    if batch.magic == 2 and count != batch.count:
        return f"{counted(count, 'record')}, the header says {batch.count}"
    return ""


def overlaps(segments: list[Segment]) -> Iterator[Finding]:
    """Finds segments whose offsets reach into the next segment."""
    for one, other in pairwise(segments):
        if one.next_offset > other.base_offset:
            problem = f"ends behind offset {other.base_offset}, with which the next segment begins"
            yield Finding(one.path, f"offset {one.next_offset - 1}", problem)


class Indexes:
    """Compares the three indexes of a segment with its ``.log``. A missing index is not reported."""

    def __init__(self, folder: str, base_offset: int) -> None:
        parts = ReadOnly(), FileCache(3), folder, base_offset
        self._by_offset = OffsetIndex(*parts)
        self._by_time = TimeIndex(*parts)
        self._aborted = TransactionIndex(*parts)
        by_offset, by_time = offset_entries(self._by_offset), time_entries(self._by_time)
        #: The last offsets of the indexed batches, the only ones that ``Segment.ends`` has to keep.
        self.offsets = {each.offset for each in by_offset} | {each.offset for each in by_time}

    def compare(self, segment: Segment) -> list[Finding]:
        """Returns the index entries that do not match the batches."""
        found: list[Finding] = []
        for index, problems in (
            (self._by_offset, self._offsets(segment)),
            (self._by_time, self._times(segment)),
            (self._aborted, self._transactions(segment)),
        ):
            found += [Finding(index.path, *each) for each in islice(problems, MOST_FINDINGS)]
            odd = len(index.entries) % index.ENTRY_SIZE
            if odd:
                found.append(Finding(index.path, "", f"{odd} bytes follow the last whole entry"))
        return found

    def _offsets(self, segment: Segment) -> Iterator[tuple[str, str]]:
        before = -1
        for entry in offset_entries(self._by_offset):
            found = segment.ends.get(entry.offset)
            if found is None or found[0] != entry.position:
                there = "no batch ends there" if found is None else f"the batch begins at {found[0]}"
                yield f"offset {entry.offset}", f"position {entry.position}: {there}"
            if entry.offset <= before:
                yield f"offset {entry.offset}", f"follows offset {before}"
            before = entry.offset

    def _times(self, segment: Segment) -> Iterator[tuple[str, str]]:
        before = -1
        for entry in time_entries(self._by_time):
            found = segment.ends.get(entry.offset)
            if found is None or found[1] != entry.timestamp:
                there = "no batch ends there" if found is None else f"the batch's greatest is {found[1]}"
                yield f"offset {entry.offset}", f"timestamp {entry.timestamp}: {there}"
            if entry.timestamp <= before:
                yield f"offset {entry.offset}", f"timestamp {entry.timestamp} follows {before}"
            before = entry.timestamp

    def _transactions(self, segment: Segment) -> Iterator[tuple[str, str]]:
        for entry in self._aborted:
            if segment.markers.get(entry.last_offset) != entry.producer_id:
                yield f"offset {entry.last_offset}", f"there is no marker of producer {entry.producer_id}"


def offset_entries(index: OffsetIndex) -> Iterator[OffsetPosition]:
    """Yields the entries of an offset index, up to the zeros of a preallocated file."""
    for number in range(len(index)):
        entry = index.entry(number)
        if entry == (index.base_offset, 0):
            return
        yield entry


def time_entries(index: TimeIndex) -> Iterator[TimestampEntry]:
    """Yields the entries of a time index, as ``offset_entries`` does."""
    for number in range(len(index)):
        entry = index.entry(number)
        if entry == (0, index.base_offset):
            return
        yield entry


SMALL_FILES: tuple[tuple[str, Callable[[bytes], object]], ...] = (
    (producer_snapshot.SUFFIX, producer_snapshot.decode),
    (leader_epochs.FILE_NAME, leader_epochs.decode),
    (partition_metadata.FILE_NAME, partition_metadata.decode),
)


def inspect_small_file(path: str) -> Iterator[Finding]:
    """Checks that a snapshot, the epochs or ``partition.metadata`` can be read."""
    for suffix, decode in SMALL_FILES:
        if path.endswith(suffix):
            try:
                decode(ReadOnly().read(path))
            except ValueError as error:
                yield Finding(path, "", str(error))
