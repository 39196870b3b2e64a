"""Clients that continue whatever happens to the broker, and note in histories what they were told.

Each client runs in a thread. A lost connection is no failure: the client reconnects and continues. A client library
that gives up is one, and so is a senseless answer; ``stop`` raises it.

A value names its writer, its number and its own length, so that a history keeps only the name::

    writer.number.size filler          raw-0.17.5 xxxxx
"""

from __future__ import annotations

import random
import threading
import time
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Mapping
from typing import Any

import confluent_kafka

from conformance.data import batches
from conformance.drivers import reaching
from conformance.drivers.base import Place
from conformance.faults.checkers.history import PartitionHistory, Row, TopicHistory, Watermark
from harness.clients import librdkafka
from harness.clients.librdkafka import Served, present
from harness.clients.members import find_coordinator
from harness.protocol.wire_client import Wire
from harness.servers.brokers import Broker
from harness.waiting import until
from pyclient.keywords import with_dots

STALLED_S = 60
PATIENCE_S = 180
#: librdkafka reconnects at once and never gives a record up.
PATIENT = {
    "reconnect.backoff.ms": 5,
    "reconnect.backoff.max.ms": 50,
    "retry.backoff.ms": 5,
    "retry.backoff.max.ms": 50,
    "topic.metadata.refresh.fast.interval.ms": 20,
    "log_level": 0,
}


def make_value(writer: str, number: int, size: int) -> bytes:
    """Makes a value that tells its own name, with ``size`` bytes of filler."""
    return b"%s.%d.%d " % (writer.encode(), number, size) + b"x" * size


def name_of(value: bytes) -> bytes:
    """Returns the name of an intact value, or the first bytes of any other."""
    name, _, filler = value.partition(b" ")
    _, _, size = name.rpartition(b".")
    whole = size.isdigit() and filler == b"x" * int(size)
    return name if whole else b"broken " + value[:60]


class Load(ABC):
    """Runs a client in a thread of its own."""

    def __init__(self, broker: Served, name: str, seed: int) -> None:
        self.broker = broker
        self.name = name
        self.random = random.Random(f"{seed} {name}")
        self.done = 0
        self.stopping = threading.Event()
        self.failure: BaseException | None = None
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """Ends the work; raises the error that made it fail."""
        self.stopping.set()
        self._thread.join(STALLED_S)
        assert not self._thread.is_alive(), f"{self.name} hangs"
        self.look()

    def _run(self) -> None:
        while not self.stopping.is_set() and self.failure is None:
            try:
                self.work()
            except OSError:
                self.stopping.wait(0.01)
            except BaseException as error:
                self.failure = error

    def goes_on(self, done: int) -> None:
        """Waits until the client has done more than that; raises the error that made it fail."""
        until(lambda: self.done > done or self.failure, f"{self.name} goes on", PATIENCE_S)
        self.look()

    def look(self) -> None:
        """Raises AssertionError if the client has failed."""
        if self.failure is not None:
            raise AssertionError(f"{self.name} failed") from self.failure

    @abstractmethod
    def work(self) -> None:
        """Works until ``stopping``, and begins again after a lost connection. Each success raises ``done``."""


class IdempotentWriter(Load):
    """Produces by librdkafka's idempotent producer, which retries a batch until it is acked."""

    MAX_WAITING = 600

    def __init__(
        self,
        broker: Served,
        name: str,
        seed: int,
        places: Mapping[Place, PartitionHistory],
        **settings: object,
    ) -> None:
        super().__init__(broker, name, seed)
        self.places = places
        self.number = 0
        self.settings = with_dots(settings)

    def work(self) -> None:
        options = {
            **reaching.librdkafka(self.broker.bootstrap),
            "enable.idempotence": True,
            "acks": "all",
            "linger.ms": 1,
            "batch.num.messages": 30,
            "message.timeout.ms": 0,
        }
        producer = confluent_kafka.Producer({**options, **PATIENT, **self.settings})
        while not self.stopping.is_set():
            if len(producer) < self.MAX_WAITING:
                for place, history in self.places.items():
                    self._send(producer, place, history)
            producer.poll(0.001)
        left = producer.flush(STALLED_S)
        assert left == 0, f"{left} records were never acked"

    def _send(self, producer: Any, place: Place, history: PartitionHistory) -> None:
        value = make_value(self.name, self.number, self.random.choice((0, 10, 200)))
        self.number += 1
        history.send(self.name, name_of(value))
        producer.produce(place.topic, value, partition=place.partition, on_delivery=self._on_delivery)

    def _on_delivery(self, error: Any, message: Any) -> None:
        if error is not None:
            self.failure = AssertionError(f"librdkafka gave up: {error}")
            return
        history = self.places[Place(message.topic(), message.partition())]
        history.ack(message.offset(), name_of(message.value()))
        self.done += 1


class RawWriter(Load):
    """Produces plainly with acks=all and several requests in flight, sometimes large ones; retries nothing."""

    broker: Broker
    IN_FLIGHT = 5

    def __init__(self, broker: Broker, name: str, seed: int, places: Mapping[Place, PartitionHistory]) -> None:
        super().__init__(broker, name, seed)
        self.places = places
        self.number = 0
        self.refused: list[int] = []

    def work(self) -> None:
        waiting: deque[tuple[int, Place, list[bytes]]] = deque()
        with Wire(self.broker.address) as wire:
            while not self.stopping.is_set() or waiting:
                if not self.stopping.is_set() and len(waiting) < self.IN_FLIGHT:
                    waiting.append(self._post(wire))
                else:
                    self._take(wire, *waiting.popleft())

    def _post(self, wire: Wire) -> tuple[int, Place, list[bytes]]:
        place = self.random.choice(list(self.places))
        count = self.random.randint(1, 10)
        sizes = [self.random.choice((0, 20, 300)) for _ in range(count)]
        if self.random.random() < 0.02:
            sizes[-1] = self.random.randint(10_000, 700_000)
        values = [make_value(self.name, self.number + turn, size) for turn, size in enumerate(sizes)]
        self.number += count
        names = [name_of(value) for value in values]
        for name in names:
            self.places[place].send(self.name, name)
        data = {"index": place.partition, "records": batches.batch(values)}
        topics = [{"name": place.topic, "partition_data": [data]}]
        posted = wire.post("Produce", 9, transactional_id=None, acks=-1, timeout_ms=30_000, topic_data=topics)
        return posted, place, names

    def _take(self, wire: Wire, posted: int, place: Place, names: list[bytes]) -> None:
        row = wire.reply("Produce", 9, posted).responses[0].partition_responses[0]
        if row.error_code != 0:
            self.refused.append(row.error_code)
            return
        for turn, name in enumerate(names):
            self.places[place].ack(row.base_offset + turn, name)
        self.done += len(names)


class Resender(Load):
    """Sends idempotent batches by hand, and repeats an unacked batch unchanged until an ack comes."""

    broker: Broker

    def __init__(self, broker: Broker, name: str, seed: int, place: Place, history: PartitionHistory) -> None:
        super().__init__(broker, name, seed)
        self.place = place
        self.history = history
        self.producer_id = -1
        self.number = 0
        self.pending: list[bytes] = []

    def work(self) -> None:
        with Wire(self.broker.address) as wire:
            if self.producer_id < 0:
                self.producer_id = wire.new_producer_id()
            while self.pending or not self.stopping.is_set():
                self._send(wire)

    def _send(self, wire: Wire) -> None:
        if not self.pending:
            count = self.random.randint(1, 5)
            self.pending = [make_value(self.name, self.number + turn, 20) for turn in range(count)]
            for value in self.pending:
                self.history.send(self.name, name_of(value))
        data = batches.batch(
            self.pending, producer_id=self.producer_id, producer_epoch=0, base_sequence=self.number
        )
        row = wire.produce(self.place.topic, data, self.place.partition)
        assert row.error_code == 0, row
        for turn, value in enumerate(self.pending):
            self.history.ack(row.base_offset + turn, name_of(value))
        self.number += len(self.pending)
        self.done += len(self.pending)
        self.pending = []


class Committer(Load):
    """Commits 0, 1, 2, … for one partition without a generation, and waits for each answer."""

    broker: Broker

    def __init__(self, broker: Broker, name: str, seed: int, place: Place, mark: Watermark) -> None:
        super().__init__(broker, name, seed)
        self.place = place
        self.mark = mark

    def work(self) -> None:
        with Wire(self.broker.address) as wire:
            find_coordinator(wire, self.name)
            while not self.stopping.is_set():
                self._commit(wire, self.mark.tried + 1)

    def _commit(self, wire: Wire, offset: int) -> None:
        self.mark.trying(offset)
        row: dict[str, object] = {"partition_index": self.place.partition, "committed_offset": offset}
        row |= {"committed_leader_epoch": -1, "committed_metadata": ""}
        reply = wire.ask(
            "OffsetCommit",
            8,
            group_id=self.name,
            generation_id_or_member_epoch=-1,
            member_id="",
            group_instance_id=None,
            topics=[{"name": self.place.topic, "partitions": [row]}],
        )
        assert reply.topics[0].partitions[0].error_code == 0, reply
        self.mark.ack(offset)
        self.done += 1


class GroupReader(Load):
    """Reads everything by librdkafka's consumer as a group's only member, and commits what it has read."""

    def __init__(
        self,
        broker: Served,
        name: str,
        seed: int,
        places: Mapping[Place, PartitionHistory],
        marks: Mapping[Place, Watermark],
        **settings: object,
    ) -> None:
        super().__init__(broker, name, seed)
        self.places = places
        self.marks = marks
        self.settings = with_dots(settings)

    def work(self) -> None:
        options = {
            **reaching.librdkafka(self.broker.bootstrap),
            "group.id": self.name,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "check.crcs": True,
            "fetch.wait.max.ms": 20,
        }
        consumer = librdkafka.Consumer({**options, **PATIENT, **self.settings})
        consumer.subscribe(sorted({place.topic for place in self.places}))
        try:
            while not self.stopping.is_set():
                self._read(consumer)
        finally:
            consumer.close()

    def _read(self, consumer: Any) -> None:
        ends: dict[Place, int] = {}
        for message in consumer.consume(1_000, 0.05):
            if message.error() is not None:
                self._hear(message.error())
                continue
            place = Place(message.topic(), message.partition())
            offset, committed = message.offset(), self.marks[place].acked
            assert offset >= committed, f"{place}: read {offset} after {committed} was committed"
            self.places[place].see(offset, name_of(message.value()))
            ends[place] = offset + 1
        if ends:
            self._commit(consumer, ends)

    def _hear(self, error: confluent_kafka.KafkaError) -> None:
        assert error.retriable() or error.code() < 0, error

    def _commit(self, consumer: Any, ends: Mapping[Place, int]) -> None:
        offsets = [confluent_kafka.TopicPartition(*place, end) for place, end in ends.items()]
        for place, end in ends.items():
            self.marks[place].trying(end)
        try:
            rows = consumer.commit(offsets=offsets, asynchronous=False)
        except confluent_kafka.KafkaException:
            return
        for row in rows:
            if row.error is None:
                self.marks[Place(row.topic, row.partition)].ack(row.offset)
                self.done += 1


class TopicMaker(Load):
    """Creates topics again and again, and deletes some of them."""

    broker: Broker

    def __init__(self, broker: Broker, name: str, seed: int, history: TopicHistory) -> None:
        super().__init__(broker, name, seed)
        self.history = history
        self.number = 0

    def work(self) -> None:
        with Wire(self.broker.address) as wire:
            while not self.stopping.is_set():
                self._create(wire)
                own = sorted(name for name in self.history.existing if name.startswith(self.name))
                if len(own) > 5:
                    self._delete(wire, self.random.choice(own))

    def _create(self, wire: Wire) -> None:
        self.number += 1
        name, partitions = f"{self.name}-{self.number}", self.random.randint(1, 3)
        self.history.creating(name, partitions)
        topic = {"name": name, "num_partitions": partitions, "replication_factor": 1}
        topic |= {"assignments": [], "configs": []}
        reply = wire.ask("CreateTopics", 4, topics=[topic], timeout_ms=30_000, validate_only=False)
        assert reply.topics[0].error_code == 0, reply
        self.history.created(name)
        self.done += 1

    def _delete(self, wire: Wire, name: str) -> None:
        self.history.deleting(name)
        reply = wire.ask("DeleteTopics", 4, topic_names=[name], timeout_ms=30_000)
        assert reply.responses[0].error_code == 0, reply
        self.history.deleted(name)
        self.done += 1


def read_back(broker: Served, place: Place) -> list[Row]:
    """Reads a partition from its first offset to its last by librdkafka, which checks each CRC."""
    options = {**reaching.librdkafka(broker.bootstrap), "group.id": "unused", "check.crcs": True}
    options |= {"enable.partition.eof": True, "enable.auto.commit": False}
    consumer = librdkafka.Consumer(options)
    consumer.assign([confluent_kafka.TopicPartition(*place, confluent_kafka.OFFSET_BEGINNING)])
    found: list[Row] = []
    deadline = time.monotonic() + STALLED_S
    try:
        while time.monotonic() < deadline:
            for message in consumer.consume(10_000, 0.1):
                error = message.error()
                if error is None:
                    found.append((present(message.offset()), name_of(present(message.value()))))
                elif error.code() == confluent_kafka.KafkaError._PARTITION_EOF:
                    return found
                else:
                    raise AssertionError(f"{place}: {error}")
    finally:
        consumer.close()
    raise AssertionError(f"{place} has no end after {len(found)} records")


def topics_of(broker: Broker) -> dict[str, int]:
    """Returns the number of partitions of each topic that is not internal."""
    with Wire(broker.address) as wire:
        reply = wire.ask("Metadata", 9, topics=None)
    return {topic.name: len(topic.partitions) for topic in reply.topics if not topic.is_internal}
