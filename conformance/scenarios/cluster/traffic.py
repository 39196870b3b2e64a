"""Runs foreign clients and ours, which write and read without an error whatever happens.

Each client library has its own partition. A thread writes to it (idempotent, acks=all), and another reads the records
as they come. ``finish`` compares both histories with the log.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import confluent_kafka

from conformance import drivers
from conformance.drivers.base import Place
from conformance.faults.checkers.history import PartitionHistory
from harness.clients import librdkafka
from harness.servers.clusters import Brokers
from harness.waiting import until

LIBRARIES = ("confluent", "aiokafka", "java", "pyclient")
AT_ONCE, PAUSE_S = 20, 0.05
STOP_S = 120


class Worker:
    """Repeats its work in a thread. ``stop`` raises the errors of the work."""

    def __init__(self, name: str, work: Callable[[threading.Event], None]) -> None:
        self.name = name
        self.failure: BaseException | None = None
        self._work = work
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        try:
            self._work(self._stopping)
        except BaseException as error:
            self.failure = error

    def check(self) -> None:
        """Raises the work's error."""
        if self.failure is not None:
            raise AssertionError(f"{self.name}: {self.failure!r}") from self.failure

    def stop(self) -> None:
        """Ends the thread after its present turn."""
        self._stopping.set()
        self._thread.join(STOP_S)
        assert not self._thread.is_alive(), f"{self.name} hangs"
        self.check()


class Stream:
    """One library's partition: a writer, a reader, and their history."""

    def __init__(self, cluster: Brokers, place: Place, library: str) -> None:
        self.place = place
        self.library = library
        self.history = PartitionHistory()
        self._bootstrap = cluster.bootstrap
        self._number = 0
        self.writer = Worker(f"the writer of {library}", self._write)
        self.reader = Worker(f"the reader of {library}", self._read)

    def _write(self, stopping: threading.Event) -> None:
        with drivers.opened(self.library).producer(self._bootstrap, enable_idempotence=True) as producer:
            while not stopping.is_set():
                values = [b"%d" % number for number in range(self._number, self._number + AT_ONCE)]
                self._number += AT_ONCE
                for value in values:
                    self.history.send(self.library, value)
                    producer.send(self.place.topic, value, partition=self.place.partition)
                for sent, value in zip(producer.flush(), values, strict=True):
                    self.history.ack(sent.offset, value)
                stopping.wait(PAUSE_S)

    def _read(self, stopping: threading.Event) -> None:
        with drivers.opened(self.library).consumer(self._bootstrap) as consumer:
            consumer.assign({self.place: 0})
            while not stopping.is_set() or len(self.history.seen) < len(self.history.acked):
                for record in consumer.poll(0.1):
                    assert record.offset == len(self.history.seen), f"{record} after {len(self.history.seen)} records"
                    self.history.see(record.offset, record.value or b"")

    def counts(self) -> tuple[int, int]:
        """Returns the numbers of records acked and read."""
        self.writer.check()
        self.reader.check()
        return len(self.history.acked), len(self.history.seen)

    def finish(self, log: list[tuple[int, bytes]]) -> None:
        """Compares the reported results with the log."""
        anomalies = self.history.check(log)
        assert not anomalies, (self.library, anomalies[:10])
        assert len(self.history.seen) == len(log)


class Traffic:
    """Runs the streams of one topic; partition ``n`` belongs to the ``n``-th library."""

    def __init__(self, cluster: Brokers, topic: str, libraries: tuple[str, ...] = LIBRARIES) -> None:
        self.cluster = cluster
        places = [Place(topic, number) for number in range(len(libraries))]
        self.streams = [Stream(cluster, place, name) for place, name in zip(places, libraries, strict=True)]
        self._finished = False

    def goes_on(self) -> None:
        """Waits until every library has written and read new records."""
        before = [stream.counts() for stream in self.streams]

        def moved() -> bool:
            now = [stream.counts() for stream in self.streams]
            return all(new[0] > old[0] and new[1] > old[0] for new, old in zip(now, before, strict=True))

        until(moved, "every client to write and to read")

    def finish(self) -> int:
        """Stops, checks everything, and returns the number of acked records; a second call is harmless."""
        if not self._finished:
            self._finished = True
            self._finish()
        return sum(len(stream.history.acked) for stream in self.streams)

    def _finish(self) -> None:
        for stream in self.streams:
            stream.writer.stop()
        for stream in self.streams:
            stream.reader.stop()
            stream.finish(whole_log(self.cluster, stream.place))

    def abandon(self) -> None:
        """Abandons the threads of a failed test."""
        for stream in self.streams:
            for worker in (stream.writer, stream.reader):
                worker._stopping.set()


@contextmanager
def traffic(cluster: Brokers, topic: str, libraries: tuple[str, ...] = LIBRARIES) -> Iterator[Traffic]:
    """Starts traffic, and checks it at the end of the block."""
    running = Traffic(cluster, topic, libraries)
    try:
        running.goes_on()
        yield running
        running.finish()
    finally:
        running.abandon()


def whole_log(cluster: Brokers, place: Place) -> list[tuple[int, bytes]]:
    """Reads a partition from its first record to its last by librdkafka, which checks each CRC."""
    options = {"bootstrap.servers": cluster.bootstrap, "group.id": "unused", "check.crcs": True, "log_level": 0}
    consumer = librdkafka.Consumer({**options, "enable.partition.eof": True, "enable.auto.commit": False})
    consumer.assign([confluent_kafka.TopicPartition(*place, 0)])
    rows: list[tuple[int, bytes]] = []

    def ended() -> bool:
        for message in consumer.consume(10_000, 0.1):
            error = message.error()
            if error is None:
                rows.append((message.offset(), message.value()))
            elif error.code() == confluent_kafka.KafkaError._PARTITION_EOF:
                return True
            else:
                raise AssertionError(f"{place}: {error}")
        return False

    try:
        until(ended, f"the end of {place}")
    finally:
        consumer.close()
    return rows
