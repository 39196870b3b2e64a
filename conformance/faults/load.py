"""Load that never gives up: producers and a committer that go on over any number of crashes, and remember what they were told."""

from __future__ import annotations

import contextlib
import itertools
import struct
import threading
import time
from abc import ABC, abstractmethod
from types import TracebackType
from typing import Self

import confluent_kafka

from conformance import batches
from conformance.brokers import Broker
from conformance.faults.history import History
from conformance.members import NOT_YET
from conformance.wire_client import ConnectionClosed, Wire

PAUSE_S = 0.02


class Load(ABC):
    """A thread that writes to one partition until it is told to finish, and then until all it sent is acked."""

    def __init__(self, broker: Broker, history: History, topic: str, partition: int) -> None:
        self.broker = broker
        self.history = history
        self.place = (topic, partition)
        self.finishing = threading.Event()
        self.failure: BaseException | None = None
        self.thread = threading.Thread(target=self._guarded, daemon=True)

    def _guarded(self) -> None:
        try:
            self.run()
        except BaseException as error:
            self.failure = error

    @abstractmethod
    def run(self) -> None:
        """Writes; returns when finishing and everything is acked."""

    def __enter__(self) -> Self:
        self.thread.start()
        return self

    def __exit__(self, kind: type | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.finishing.set()
        self.thread.join(120)
        if error is None:
            assert not self.thread.is_alive(), f"{type(self).__name__} is not done"
            assert self.failure is None, f"{type(self).__name__}: {self.failure!r}"


class LibrdkafkaLoad(Load):
    """confluent-kafka's idempotent producer."""

    def run(self) -> None:
        topic, partition = self.place
        client = confluent_kafka.Producer(
            {
                "bootstrap.servers": self.broker.bootstrap,
                "enable.idempotence": True,
                "linger.ms": 1,
                "message.timeout.ms": 120_000,
                "socket.timeout.ms": 5_000,
                "reconnect.backoff.ms": 5,
                "reconnect.backoff.max.ms": 50,
                "retry.backoff.ms": 5,
                "log_level": 0,
            }
        )
        failures: list[str] = []

        def done(error: confluent_kafka.KafkaError | None, message: confluent_kafka.Message) -> None:
            if error is None:
                self.history.acked[self.place].append((message.value() or b"", message.offset() or 0))
            else:
                failures.append(str(error))

        for number in itertools.count():
            if self.finishing.is_set():
                break
            value = b"librdkafka-%d-%d" % (partition, number)
            self.history.sent[self.place].append(value)
            client.produce(topic, value, partition=partition, on_delivery=done)
            client.poll(0)
            if number % 50 == 49:
                time.sleep(0.002)
        assert client.flush(60) == 0
        assert not failures, failures[:3]


class RawLoad(Load):
    """Idempotent batches by hand: a batch whose ack did not come is sent again as it was, until one comes."""

    def run(self) -> None:
        producer_id = -1
        sequence = 0
        while not self.finishing.is_set():
            with contextlib.suppress(OSError, ConnectionClosed), Wire(self.broker.address, 5) as wire:
                if producer_id < 0:
                    producer_id = wire.new_producer_id()
                while not self.finishing.is_set():
                    sequence = self._write(producer_id, sequence)
            time.sleep(PAUSE_S)

    def _write(self, producer_id: int, sequence: int) -> int:
        values = [b"raw-%d-%d" % (self.place[1], sequence + step) for step in range(3)]
        self.history.sent[self.place] += values
        data = batches.batch(
            values, producer_id=producer_id, producer_epoch=0, base_sequence=sequence
        )
        offset = self._until_acked(data)
        self.history.acked[self.place] += [(value, offset + step) for step, value in enumerate(values)]
        return sequence + 3

    def _until_acked(self, data: bytes) -> int:
        topic, partition = self.place
        deadline = time.monotonic() + 60
        while True:
            with contextlib.suppress(OSError, ConnectionClosed), Wire(self.broker.address, 5) as wire:
                row = wire.produce(topic, data, partition)
                if row.error_code == 0:
                    return int(row.base_offset)
                assert row.error_code in (3, 5, 6), f"refused with {row.error_code}"
            assert time.monotonic() < deadline, "no ack for a minute"
            time.sleep(PAUSE_S)


class CommitLoad(Load):
    """Commits growing offsets for a group without members; remembers the last that was acknowledged."""

    committed = -1

    def run(self) -> None:
        offset = 0
        while not self.finishing.is_set():
            with contextlib.suppress(OSError, ConnectionClosed, struct.error):
                with Wire(self.broker.address, 5) as wire:
                    while not self.finishing.is_set():
                        offset += self._commit(wire, offset)
            time.sleep(PAUSE_S)

    def _commit(self, wire: Wire, offset: int) -> int:
        topic, partition = self.place
        row = {"partition_index": partition, "committed_offset": offset, "committed_metadata": ""}
        reply = wire.ask(
            "OffsetCommit",
            8,
            group_id="committer",
            generation_id_or_member_epoch=-1,
            member_id="",
            group_instance_id=None,
            topics=[{"name": topic, "partitions": [row]}],
        )
        error = reply.topics[0].partitions[0].error_code
        if error in (*NOT_YET, 3):
            time.sleep(PAUSE_S)
            return 0
        assert error == 0, f"commit refused with {error}"
        self.committed = offset
        return 1
