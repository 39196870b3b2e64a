"""A transactional client as a process of its own, to be killed, frozen and woken: ``python -m … '{options}'``.

It has two roles. A *writer* sends transactions of a few records over several topics and partitions, and commits most of
them. A *transformer* reads committed records and writes each one to the same partition of another topic. It commits its
offsets in the same transaction. Both write a journal, a line before and a line after each important step
(``transactions``).

It ends on SIGTERM after the current transaction, with its parent, when it is fenced, or after ``life_s``. After an
error that its client does not survive, it continues with a new client under the same transactional id. SIGQUIT prints
its stacks.
"""

from __future__ import annotations

import contextlib
import ctypes
import faulthandler
import json
import os
import random
import signal
import sys
import time
from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

from conformance.drivers import opened
from conformance.drivers.base import ClientError, Consumer, Fenced, MustAbort, Place, Producer, Record

PR_SET_PDEATHSIG = 1


@dataclass(frozen=True)
class Options:
    """A worker's orders, as JSON on the command line."""

    name: str
    journal: str
    bootstrap: str
    driver: str
    transactional_id: str
    seed: int
    #: A writer's topics with their numbers of partitions.
    topics: dict[str, int] | None = None
    #: The most records of a writer's transaction.
    most_records: int = 6
    #: A transformer's input, output, and group.
    source: str = ""
    target: str = ""
    group: str = ""
    group_protocol: str = "classic"
    #: The partitions that a transformer reads without a group; None: the group assigns them.
    partitions: list[int] | None = None
    life_s: float = 900
    transaction_timeout_ms: int = 60_000
    session_timeout_ms: int = 10_000

    def command(self) -> list[str]:
        """Returns the command line of the worker."""
        return [sys.executable, "-m", "conformance.faults.loads.transaction_worker", json.dumps(asdict(self))]


class Worker(ABC):
    """Runs transactions until it is asked to stop."""

    def __init__(self, options: Options) -> None:
        self.options = options
        self.random = random.Random(f"{options.seed} {options.name}")
        self.stopping = False
        self.number = 0
        self.deadline = time.monotonic() + options.life_s
        self._journal = os.open(options.journal, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)

    def note(self, *words: object) -> None:
        """Writes one line into the journal, by one write."""
        os.write(self._journal, json.dumps(words).encode() + b"\n")

    def run(self) -> None:
        """Works until the end."""
        while self.going:
            try:
                with self._producer() as producer:
                    producer.init_transactions()
                    self.note("ready")
                    self.work(producer)
            except Fenced as error:
                self.note("fenced", "", str(error))
                return
            except ClientError as error:
                self.note("failed", "", f"{type(error).__name__} {error}")
                time.sleep(0.1)
        self.note("end")

    @property
    def going(self) -> bool:
        return not self.stopping and time.monotonic() < self.deadline

    def _producer(self) -> Producer:
        return opened(self.options.driver).producer(
            self.options.bootstrap,
            transactional_id=self.options.transactional_id,
            transaction_timeout_ms=self.options.transaction_timeout_ms,
        )

    @abstractmethod
    def work(self, producer: Producer) -> None:
        """Runs transactions until the end, or until an error that requires a new client."""

    @contextlib.contextmanager
    def transaction(self, producer: Producer) -> Iterator[str]:
        """Notes begin and end of a transaction around a body; commits it, or aborts it when the body raises
        ``MustAbort``.
        """
        name = f"{self.options.name}.{self.number}"
        self.number += 1
        self.note("begin", name)
        producer.begin()
        try:
            yield name
            self.note("committing", name)
            producer.commit()
            self.note("committed", name)
        except MustAbort:
            self.note("aborting", name)
            producer.abort()
            self.note("aborted", name)
            raise

    def send(self, producer: Producer, name: str, place: Place, value: str) -> None:
        self.note("send", name, place.topic, place.partition, value)
        producer.send(place.topic, value.encode(), partition=place.partition)


class Writer(Worker):
    """Sends to several partitions in each transaction."""

    def work(self, producer: Producer) -> None:
        while self.going:
            with contextlib.suppress(MustAbort), self.transaction(producer) as name:
                self._fill(producer, name)

    def _fill(self, producer: Producer, name: str) -> None:
        assert self.options.topics is not None
        for turn in range(self.random.randint(1, self.options.most_records)):
            topic = self.random.choice(sorted(self.options.topics))
            place = Place(topic, self.random.randrange(self.options.topics[topic]))
            self.send(producer, name, place, f"{name}.{turn}")
        if self.random.random() < 0.3:
            producer.flush()
        if self.random.random() < 0.05:
            time.sleep(self.random.uniform(0, 0.05))
        if self.random.random() < 0.15:
            raise MustAbort("so it was drawn")


class Transformer(Worker):
    """Consumes, writes and commits its offsets, all in one transaction at a time."""

    def work(self, producer: Producer) -> None:
        with self._consumer() as consumer:
            self._begin(consumer)
            while self.going:
                records = consumer.poll(0.2, self.random.choice((1, 10, 100)))
                if records:
                    self._transform(producer, consumer, records)

    def _consumer(self) -> Consumer:
        return opened(self.options.driver).consumer(
            self.options.bootstrap,
            group_id=self.options.group,
            group_protocol=self.options.group_protocol,
            isolation_level="read_committed",
            session_timeout_ms=self.options.session_timeout_ms,
            heartbeat_interval_ms=500,
        )

    def _begin(self, consumer: Consumer) -> None:
        if self.options.partitions is None:
            consumer.subscribe([self.options.source])
            return
        places = [Place(self.options.source, partition) for partition in self.options.partitions]
        consumer.assign({place: max(0, offset) for place, offset in consumer.committed(places).items()})

    def _transform(self, producer: Producer, consumer: Consumer, records: list[Record]) -> None:
        starts: dict[Place, int] = {}
        ends: dict[Place, int] = {}
        for record in records:
            starts.setdefault(record.place, record.offset)
            ends[record.place] = record.offset + 1
        try:
            with self.transaction(producer) as name:
                for record in records:
                    value = f"{name} {(record.value or b'').decode()}"
                    self.send(producer, name, Place(self.options.target, record.place.partition), value)
                producer.send_offsets(consumer, ends)
                if self.random.random() < 0.1:
                    raise MustAbort("so it was drawn")
        except MustAbort:
            for place in starts.keys() & consumer.assignment():
                consumer.seek(place, starts[place])


def main(arguments: list[str]) -> None:
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    options = Options(**json.loads(arguments[0]))
    Path(options.journal).parent.mkdir(parents=True, exist_ok=True)
    worker = Writer(options) if options.topics else Transformer(options)

    def stop(*_: object) -> None:
        worker.stopping = True

    signal.signal(signal.SIGTERM, stop)
    faulthandler.register(signal.SIGQUIT)
    worker.run()
    os._exit(0)


if __name__ == "__main__":
    main(sys.argv[1:])
