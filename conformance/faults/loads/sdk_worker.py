"""Our SDK as an application uses it, in a process to be killed, frozen and woken: ``python -m … '{options}'``.

Writers send numbered streams to the end of their quota, whatever happens. They use threads that share a producer, whole
sequences, one record at a time, or asyncio tasks. Readers read everything from the beginning, or their group's share.
All write a journal (``streams``). Only this process imports the SDK.

A writer ends with its quota; a reader ends on SIGTERM, once it has read to the end; both end with their parent.
"""

from __future__ import annotations

import asyncio
import ctypes
import functools
import json
import os
import signal
import sys
import threading
import time
import zlib
from collections import deque
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from conformance.faults.checkers.streams import HEAD, make_value

PR_SET_PDEATHSIG = 1
TOPIC = "streams"
#: This many records of a stream may wait for their acks if no other limit applies.
AHEAD = 2_000
CHUNK = 500
#: At most this many records of a stream go to the journal at once.
RUN = 250
#: The SDK gives up nothing while faults last, but gives up a single request soon.
PATIENT = {
    "request_timeout_ms": 3_000,
    "default_api_timeout_ms": 120_000,
    "retry_backoff_ms": 20,
    "retry_backoff_max_ms": 300,
    "reconnect_backoff_ms": 20,
    "reconnect_backoff_max_ms": 300,
    "socket_connection_setup_timeout_ms": 3_000,
}
WRITER = {"delivery_timeout_ms": 1_800_000, "max_block_ms": 1_800_000, "linger_ms": 5}
READER = {"auto_offset_reset": "earliest", "enable_auto_commit": False}


@dataclass(frozen=True)
class Options:
    """A worker's orders, as JSON on the command line."""

    name: str
    journal: str
    role: str
    partitions: int
    #: A writer's streams, and the number of records of each.
    streams: list[int] = field(default_factory=list)
    records: int = 0
    #: This file says which share of the whole may be written by now, and which share the predecessors have written.
    permit: str = ""
    begun: float = 0.0
    #: A reader begins where its predecessor stopped: {partition: [next offset, CRC]}.
    state: dict[str, list[int]] = field(default_factory=dict)
    settings: dict[str, Any] = field(default_factory=dict)

    def command(self) -> list[str]:
        """Returns the command line of the worker."""
        return [sys.executable, "-m", "conformance.faults.loads.sdk_worker", json.dumps(asdict(self))]


class Log:
    """Writes the journal, each line by one write."""

    def __init__(self, path: str) -> None:
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)

    def note(self, *words: object) -> None:
        os.write(self._file, " ".join(map(str, words)).encode() + b"\n")

    def error(self, error: Exception, where: str) -> None:
        """Notes an error of the SDK, with its own statement whether a retry may help."""
        word = "hiccup" if getattr(error, "retriable", False) else "failed"
        self.note(word, where, type(error).__name__, *([] if word == "hiccup" else [error]))


class Ledger:
    """Tracks the outcomes of one stream's records, in the order of each partition."""

    def __init__(self, log: Log, stream: int, partitions: int, longest: int) -> None:
        """``longest``: the most records that go to the journal at once."""
        self.log = log
        self.stream = stream
        self.partitions = partitions
        self.longest = longest
        self.due = list(range(partitions))
        self.runs = [(0, 0, 0)] * partitions  # Number, offset, count.

    def told(self, number: int, metadata: Any, error: Exception | None) -> None:
        """Notes the outcome of a record that the SDK reports."""
        place = number % self.partitions
        if error is not None:
            self.log.note("failed", f"record {number} of stream {self.stream} was given up:", error)
            return
        if metadata.partition != place or number != self.due[place]:
            what = f"{self.due[place]} was due, {number} was told in partition {metadata.partition}"
            self.log.note("failed", f"stream {self.stream}:", what)
        self.due[place] = number + self.partitions
        self._extend(place, number, metadata.offset)

    def _extend(self, place: int, number: int, offset: int) -> None:
        first, start, count = self.runs[place]
        if count and offset == (start + count if start >= 0 else -1):
            self.runs[place] = first, start, count + 1
        else:
            self._flush(place)
            self.runs[place] = number, offset, 1
        if self.runs[place][2] >= self.longest:
            self._flush(place)

    def _flush(self, place: int) -> None:
        first, start, count = self.runs[place]
        if count:
            self.log.note("told", self.stream, place, first, start, count)
        self.runs[place] = 0, 0, 0

    def close(self, count: int) -> None:
        """Notes that all ``count`` records are answered."""
        for place in range(self.partitions):
            self._flush(place)
        self.log.note("end", self.stream, count)


class Gate:
    """Keeps a writer from finishing before the faults end: it may write as much as the campaign permits."""

    def __init__(self, options: Options) -> None:
        self.options = options
        self.open_until = 0

    def is_open(self, number: int) -> bool:
        """Returns whether this record may be sent by now."""
        if number >= self.open_until:
            part = (float(Path(self.options.permit).read_text()) - self.options.begun) / (1 - self.options.begun)
            self.open_until = round(self.options.records * part)
        return number < self.open_until

    def wait(self, number: int) -> None:
        """Waits until this record may be sent."""
        while not self.is_open(number):
            time.sleep(0.01)


class Writer:
    """Writes the streams of one producer."""

    def __init__(self, options: Options, log: Log) -> None:
        self.options = options
        self.gate = Gate(options)
        self.settings = {**PATIENT, **WRITER, **options.settings}
        longest = 1 if options.role == "one_by_one" else RUN
        self.ledgers = [Ledger(log, stream, options.partitions, longest) for stream in options.streams]

    def numbered(self, ledger: Ledger) -> Iterator[tuple[int, bytes, int]]:
        """Yields number, value and partition."""
        for number in range(self.options.records):
            yield number, make_value(ledger.stream, number), number % ledger.partitions

    def chunks(self) -> Iterator[range]:
        """Yields the numbers in chunks of one partition each."""
        step = self.options.partitions
        for first in range(0, self.options.records, CHUNK * step):
            last = min(self.options.records, first + CHUNK * step)
            for place in range(min(step, last - first)):
                yield range(first + place, last, step)


class BlockingWriter(Writer):
    """Runs a thread for each stream; the role says how it sends."""

    def run(self) -> None:
        from pyclient import Producer

        write = getattr(self, self.options.role)
        with Producer(**self.settings) as producer:
            threads = [threading.Thread(target=write, args=(producer, ledger)) for ledger in self.ledgers]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            producer.flush()
        for ledger in self.ledgers:
            ledger.close(self.options.records)

    def send(self, producer: Any, ledger: Ledger) -> None:
        """Sends with callbacks, and waits while buffer.memory is full."""
        for number, value, place in self.numbered(ledger):
            self.gate.wait(number)
            told = functools.partial(ledger.told, number)
            producer.send(TOPIC, value=value, partition=place, on_delivery=told)

    def send_many(self, producer: Any, ledger: Ledger) -> None:
        """Sends whole sequences, and awaits their deliveries one by one."""
        pending: deque[tuple[range, Any]] = deque()
        for numbers in self.chunks():
            self.gate.wait(numbers.start)
            values = [make_value(ledger.stream, number) for number in numbers]
            pending.append((numbers, producer.send_many(TOPIC, values, partition=numbers.start % ledger.partitions)))
            if len(pending) > AHEAD // CHUNK:
                self._told(ledger, *pending.popleft())
        for row in pending:
            self._told(ledger, *row)

    def _told(self, ledger: Ledger, numbers: range, deliveries: Any) -> None:
        deliveries.result()
        for turn, number in enumerate(numbers):
            ledger.told(number, deliveries[turn].metadata, deliveries[turn].error)

    def one_by_one(self, producer: Any, ledger: Ledger) -> None:
        """Sends the next record when the previous one is acked."""
        for number, value, place in self.numbered(ledger):
            self.gate.wait(number)
            ledger.told(number, producer.send(TOPIC, value=value, partition=place).result(), None)


class AsyncioWriter(Writer):
    """Runs a task for each stream; it awaits the oldest report when many are open."""

    def run(self) -> None:
        asyncio.run(self._run())

    async def _run(self) -> None:
        from pyclient.aio import Producer

        async with Producer(**self.settings) as producer:
            await asyncio.gather(*(self._write(producer, ledger) for ledger in self.ledgers))
        for ledger in self.ledgers:
            ledger.close(self.options.records)

    async def _write(self, producer: Any, ledger: Ledger) -> None:
        pending: deque[tuple[int, Any]] = deque()
        for number, value, place in self.numbered(ledger):
            while not self.gate.is_open(number):
                await asyncio.sleep(0.01)
            pending.append((number, await producer.send(TOPIC, value=value, partition=place)))
            if len(pending) > AHEAD:
                await self._told(ledger, *pending.popleft())
        for row in pending:
            await self._told(ledger, *row)

    async def _told(self, ledger: Ledger, number: int, report: Any) -> None:
        ledger.told(number, await report, None)


class Reader:
    """Reads all partitions from the beginning, offset by offset, with a CRC of the values."""

    def __init__(self, options: Options, log: Log) -> None:
        self.options = options
        self.settings = {**PATIENT, **READER, **options.settings}
        self.log = log
        self.stopping = False
        self.state = {place: [0, 0] for place in range(options.partitions)}
        self.state |= {int(place): row for place, row in options.state.items()}
        self.unsaved = 0

    def take(self, place: int, offset: int, value: bytes) -> None:
        """Takes the next record of a partition."""
        row = self.state[place]
        if offset != row[0]:
            self.log.note("failed", f"{self.options.name}: partition {place}: {offset} where {row[0]} was due")
        row[0], row[1] = offset + 1, zlib.crc32(value, row[1])
        self.unsaved += 1

    def save(self, least: int = 20_000) -> None:
        """Writes the positions of the streams into the journal."""
        if self.unsaved >= least:
            self.log.note("state", json.dumps(self.state))
            self.unsaved = 0

    def places(self) -> list[Any]:
        from pyclient import TopicPartition

        return [TopicPartition(TOPIC, place) for place in self.state]

    def is_at(self, ends: dict[Any, int]) -> bool:
        return all(self.state[place.partition][0] >= end for place, end in ends.items())

    def run(self) -> None:
        from pyclient import Consumer

        with Consumer(**self.settings) as consumer:
            consumer.assign(self.places())
            for place in self.places():
                consumer.seek(place, self.state[place.partition][0])
            while not (self.stopping and self.is_at(consumer.end_offsets(self.places()))):
                try:
                    records = consumer.poll(timeout=0.3)
                except Exception as error:
                    self.log.error(error, "poll")
                    continue
                for record in records:
                    self.take(record.partition, record.offset, bytes(record.value))
                self.save()
        self.save(0)


class ArrowReader(Reader):
    """Reads the same from asyncio, in Arrow batches."""

    def run(self) -> None:
        asyncio.run(self._run())

    async def _run(self) -> None:
        from pyclient.aio import Consumer

        async with Consumer(**self.settings) as consumer:
            await consumer.assign(self.places())
            for place in self.places():
                consumer.seek(place, self.state[place.partition][0])
            while not (self.stopping and self.is_at(await consumer.end_offsets(self.places()))):
                try:
                    batch = await consumer.poll_arrow(max_rows=10_000, timeout=0.3)
                except Exception as error:
                    self.log.error(error, "poll_arrow")
                    continue
                columns = (batch.column(name).to_pylist() for name in ("partition", "offset", "value"))
                for row in zip(*columns, strict=True):
                    self.take(*row)
                self.save()
        self.save(0)


class Member(Reader):
    """Reads as a member of a group, and commits what it has read."""

    def __init__(self, options: Options, log: Log) -> None:
        super().__init__(options, log)
        self.due: dict[int, int] = {}

    def run(self) -> None:
        from pyclient import Consumer

        settings = {**self.settings}
        with Consumer(topics=[TOPIC], listener=self, **settings) as consumer:
            while self._poll(consumer) or not (self.stopping and self._all_committed(consumer)):
                self._commit(consumer)

    def _poll(self, consumer: Any) -> bool:
        """Polls. Returns whether records came."""
        try:
            records = consumer.poll(timeout=0.3)
        except Exception as error:
            self.log.error(error, "poll")
            return False
        self._read(records)
        return bool(records)

    def on_partitions_assigned(self, partitions: Any) -> None:
        """Lets the next record have any offset."""
        for place in partitions:
            self.due.pop(place.partition, None)

    def on_partitions_revoked(self, partitions: Any) -> None:
        """Does nothing: the next owner reads uncommitted records again."""

    on_partitions_lost = on_partitions_revoked

    def _read(self, records: Any) -> None:
        first: dict[int, int] = {}
        for record in records:
            place, offset, value = record.partition, record.offset, bytes(record.value)
            first.setdefault(place, offset)
            if offset != self.due.get(place, offset):
                self.log.note("failed", f"{self.options.name}: {offset} where {self.due[place]} was due in {place}")
            self.due[place] = offset + 1
            if len(value) < HEAD.size or value != make_value(*HEAD.unpack_from(value)):
                self.log.note("failed", f"{self.options.name}: {value[:60]!r} at {offset} of {place}")
        for place, offset in first.items():
            self.log.note("seen", place, offset, self.due[place])

    def _commit(self, consumer: Any) -> None:
        try:
            consumer.commit(timeout=5)
        except Exception as error:
            kind = type(error).__name__  # Other members own these partitions now, and read the records again.
            expected = kind in ("CommitFailed", "RebalanceInProgress", "IllegalGeneration", "UnknownMemberId")
            if expected or kind in ("StaleMemberEpoch", "FencedMemberEpoch"):
                self.log.note("hiccup", "commit", kind)
            else:
                self.log.error(error, "commit")

    def _all_committed(self, consumer: Any) -> bool:
        """Returns whether the members of the group have read everything."""
        places = self.places()
        try:
            committed, ends = consumer.committed(places), consumer.end_offsets(places)
        except Exception as error:
            self.log.error(error, "committed")
            return False
        return all(committed[place] is not None and committed[place].offset >= ends[place] for place in places)


ROLES = {
    "send": BlockingWriter,
    "send_many": BlockingWriter,
    "one_by_one": BlockingWriter,
    "asyncio": AsyncioWriter,
    "reader": Reader,
    "arrow": ArrowReader,
    "member": Member,
}


def main(arguments: list[str]) -> None:
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    options = Options(**json.loads(arguments[0]))
    Path(options.journal).parent.mkdir(parents=True, exist_ok=True)
    log = Log(options.journal)
    worker: Any = ROLES[options.role](options, log)

    def stop(*_: object) -> None:
        worker.stopping = True

    signal.signal(signal.SIGTERM, stop)
    log.note("ready")
    try:
        worker.run()
    except Exception as error:
        log.note("failed", f"{options.name} ended:", type(error).__name__, error)
        raise


if __name__ == "__main__":
    main(sys.argv[1:])
