"""Streams of numbered records: a history that costs as little for ten million records as for ten.

A *stream* is the records of one thread or task of a writer: 0, 1, 2 … Record n goes to partition n % partitions. So a
partition's log must hold the numbers p, p + partitions, p + 2 * partitions … of each stream. An unexpected number shows
a loss, a duplicate or a wrong order; the checker needs no memory of values. A value names its stream and number, from
which its size and filler follow, so that the checker recognises a broken one.

Writers and readers are processes that may be killed. They write what they learn into journals, a line for many records
that lie side by side::

    told STREAM PARTITION NUMBER OFFSET COUNT   COUNT records of a stream, from NUMBER on, were acked at OFFSET …; -1:
                                                the broker knew them already and did not say where they are
    end STREAM COUNT                            the stream is over: everything was sent and is answered
    failed TEXT                                 what must not happen: a record given up, an answer out of order
    ready                                       a signal ends it in order from now on
    hiccup TEXT                                 a retriable error
    state JSON                                  a reader of everything: {partition: [next offset, CRC of all values]}
    seen PARTITION OFFSET END                   a member of a group was given these records, one by one

The anomalies have the names of ``history``, and ``unanswered``: the writer sent a record, and never learned its result.
"""

from __future__ import annotations

import json
import struct
import zlib
from array import array
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from conformance.faults.checkers.history import (
    DUPLICATE,
    HOLE,
    INCONSISTENT,
    LOST,
    PHANTOM,
    REORDERED,
    UNSEEN,
    Anomaly,
)
from conformance.faults.checkers.lines import Lines

UNANSWERED, FAILED = "unanswered", "failed"
HEAD = struct.Struct(">IQ")
LARGE = 40_000
_FILLER = bytes(range(256)) * (LARGE // 256 + 2)
#: Further anomalies of one kind and partition show nothing new.
ENOUGH = 20


def make_value(stream: int, number: int) -> bytes:
    """Makes a value of 20 to 180 bytes; now and then one larger than a batch."""
    size = LARGE if number % 5_003 == 5_002 else 8 + (number * 7_919 + stream) % 161
    start = number & 0xFF
    return HEAD.pack(stream, number) + _FILLER[start : start + size]


class Told(NamedTuple):
    """The acks of this many ``records`` of a stream that lie side by side."""

    stream: int
    partition: int
    number: int
    offset: int
    records: int


class PartitionLog:
    """One partition, read record by record at the end; keeps each record's offset, but no value."""

    def __init__(self, partition: int, partitions: int) -> None:
        self.partition = partition
        self.partitions = partitions
        self.end = 0
        self.crc = 0
        self.offsets: dict[int, array[int]] = {}
        self.counts: Counter[str] = Counter()
        self._anomalies: list[Anomaly] = []
        self._missing: dict[int, set[int]] = defaultdict(set)

    def take(self, offset: int, value: bytes) -> None:
        """Takes the next record."""
        if offset != self.end:
            self._note(HOLE, f"{offset} follows {self.end - 1}")
        self.end = offset + 1
        self.crc = zlib.crc32(value, self.crc)
        stream, number = HEAD.unpack_from(value) if len(value) >= HEAD.size else (-1, -1)
        if number % self.partitions != self.partition or value != make_value(stream, number):
            self._note(PHANTOM, f"{value[:60]!r} at {offset}")
        else:
            self._place(stream, number // self.partitions, offset)

    def _place(self, stream: int, turn: int, offset: int) -> None:
        """Notes that the stream's record number ``turn`` of this partition is at this offset."""
        offsets = self.offsets.setdefault(stream, array("q"))
        due, missing = len(offsets), self._missing[stream]
        if turn >= due:
            missing.update(range(due, turn))
            offsets.extend([-1] * (turn - due))
            offsets.append(offset)
        elif turn in missing:
            missing.discard(turn)
            offsets[turn] = offset
            self._note(REORDERED, f"{self._name(stream, turn)} at {offset} is behind later ones")
        else:
            self._note(DUPLICATE, f"{self._name(stream, turn)} at {offsets[turn]} and {offset}")

    def _name(self, stream: int, turn: int) -> str:
        return f"record {turn * self.partitions + self.partition} of stream {stream}"

    def _note(self, kind: str, text: str) -> None:
        self.counts[kind] += 1
        if self.counts[kind] <= ENOUGH:
            self._anomalies.append(Anomaly(kind, f"partition {self.partition}: {text}"))

    def check(self, told: Iterable[Told], ends: Mapping[int, int], streams: Iterable[int]) -> list[Anomaly]:
        """Returns all anomalies. ``ends``: the number of records of each finished stream. The writers of all other
        ``streams`` were killed, so their last records must have no gap.
        """
        for stream in self.offsets.keys() - set(streams):
            self._note(PHANTOM, f"stream {stream} has no writer")
        for stream, missing in self._missing.items():
            for turn in sorted(missing):
                self._note(LOST, f"{self._name(stream, turn)}, though later ones are there")
        for stream, count in ends.items():
            due = len(range(self.partition, count, self.partitions))
            found = len(self.offsets.get(stream, ()))
            if found != due:
                self._note(LOST if found < due else PHANTOM, f"stream {stream} has {found} records here, not {due}")
        for row in told:
            self._check_told(row)
        return self._anomalies

    def _check_told(self, row: Told) -> None:
        first = row.number // self.partitions
        found = self.offsets.get(row.stream, array("q"))[first : first + row.records]
        if len(found) < row.records or -1 in found:
            self._note(LOST, f"{self._name(row.stream, first)} and {row.records - 1} more were acked")
        elif row.offset >= 0 and found != array("q", range(row.offset, row.offset + row.records)):
            self._note(INCONSISTENT, f"{self._name(row.stream, first)} was acked at {row.offset}, is at {found[0]}")


class Journal:
    """Reads the lines of one process while it writes them."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.told: list[Told] = []
        self.acked: Counter[int] = Counter()
        self.ends: dict[int, int] = {}
        self.failed: list[str] = []
        self.hiccups: Counter[str] = Counter()
        self.state: dict[int, tuple[int, int]] = {}
        self.seen: list[tuple[int, int, int]] = []
        self.is_ready = False
        self._lines = Lines(path)

    def refresh(self) -> None:
        """Takes in the complete new lines."""
        for line in self._lines.new():
            word, _, rest = line.decode().rstrip("\n").partition(" ")
            self._take(word, rest)

    def _take(self, word: str, rest: str) -> None:
        if word == "told":
            row = Told(*map(int, rest.split()))
            self.told.append(row)
            self.acked[row.stream] += row.records
        elif word == "end":
            stream, count = map(int, rest.split())
            self.ends[stream] = count
        elif word == "state":
            self.state = {int(place): (row[0], row[1]) for place, row in json.loads(rest).items()}
        elif word == "seen":
            place, offset, end = map(int, rest.split())
            self.seen.append((place, offset, end))
        elif word == "ready":
            self.is_ready = True
        elif word == "hiccup":
            self.hiccups[rest] += 1
        else:
            self.failed.append(rest)


def check(
    logs: Sequence[PartitionLog],
    writers: Sequence[Journal],
    readers: Sequence[Journal],
    groups: Mapping[str, Sequence[Journal]],
    streams: Iterable[int],
) -> list[Anomaly]:
    """Returns all anomalies. ``readers`` have read everything; ``groups``: the members of each."""
    told: dict[int, list[Told]] = defaultdict(list)
    ends: dict[int, int] = {}
    for journal in writers:
        ends |= journal.ends
        for row in journal.told:
            told[row.partition].append(row)
    found = [anomaly for log in logs for anomaly in log.check(told[log.partition], ends, streams)]
    found += _unanswered(writers)
    found += [anomaly for reader in readers for anomaly in _read_everything(reader, logs)]
    found += [anomaly for name, members in groups.items() for anomaly in _gave_everything(name, members, logs)]
    members = [journal for group in groups.values() for journal in group]
    return found + [Anomaly(FAILED, text) for journal in (*writers, *readers, *members) for text in journal.failed]


def _unanswered(writers: Iterable[Journal]) -> Iterator[Anomaly]:
    """Checks that a finished writer got one answer for each record."""
    for journal in writers:
        for stream, count in journal.ends.items():
            if journal.acked[stream] != count:
                yield Anomaly(UNANSWERED, f"stream {stream} was told of {journal.acked[stream]} of {count} records")


def _read_everything(reader: Journal, logs: Iterable[PartitionLog]) -> Iterator[Anomaly]:
    for log in logs:
        offset, crc = reader.state.get(log.partition, (0, 0))
        if offset != log.end:
            kind = UNSEEN if offset > log.end else LOST
            yield Anomaly(kind, f"{reader.path.name} has read partition {log.partition} up to {offset} of {log.end}")
        elif crc != log.crc:
            yield Anomaly(INCONSISTENT, f"{reader.path.name} was given other values of partition {log.partition}")


def _gave_everything(group: str, members: Iterable[Journal], logs: Iterable[PartitionLog]) -> Iterator[Anomaly]:
    """Checks that a member got each record at least once, and no record that the log lacks."""
    ranges: dict[int, list[tuple[int, int]]] = defaultdict(list)
    for journal in members:
        for partition, offset, end in journal.seen:
            ranges[partition].append((offset, end))
    for log in logs:
        reached = 0
        for offset, end in sorted(ranges[log.partition]):
            if offset > reached:
                yield Anomaly(LOST, f"{group} was not given {reached} to {offset - 1} of partition {log.partition}")
            reached = max(reached, end)
        if reached != log.end:
            kind = UNSEEN if reached > log.end else LOST
            yield Anomaly(kind, f"{group} was given partition {log.partition} up to {reached} of {log.end}")
