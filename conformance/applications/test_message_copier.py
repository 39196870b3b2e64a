"""Kafka's own TransactionalMessageCopier, the worker of its system tests: consume, transform, produce, exactly once.

Two copiers share a group and abort one transaction in three at random. They and the broker are killed, and each is
started again, as by a supervisor.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from conformance.applications.committed import CommittedReader, read_all
from conformance.applications.process import Application
from conformance.conftest import NewBroker
from harness import peers
from harness.clients.librdkafka import present, write
from harness.protocol.wire_client import Wire
from harness.servers.brokers import Broker
from harness.waiting import until

MAIN = "org.apache.kafka.tools.TransactionalMessageCopier"
PARTITIONS = 2
WAIT_S = 180


class Copying:
    """Two copiers that copy topic ``in`` to topic ``out``, partition by partition."""

    def __init__(self, broker: Broker, folder: Path) -> None:
        self.broker = broker
        self.written: dict[int, list[bytes]] = {number: [] for number in range(PARTITIONS)}
        self.copiers = [self._copier(folder, name) for name in ("first", "second")]

    def _copier(self, folder: Path, name: str) -> Application:
        options = {
            "broker-list": self.broker.bootstrap,
            "input-topic": "in",
            "input-partition": "-1",
            "output-topic": "out",
            "consumer-group": "copiers",
            "transaction-size": "50",
            "transactional-id": name,
        }
        words = [word for key, value in options.items() for word in (f"--{key}", value)]
        flags = ("--group-mode", "--use-group-metadata", "--enable-random-aborts")
        return Application([*peers.jvm(), MAIN, *words, *flags], folder / f"{name}.log")

    def write(self, count: int) -> None:
        """Writes that many more records to each partition."""
        for partition, done in self.written.items():
            values = [b"%d-%d" % (partition, len(done) + number) for number in range(count)]
            write(self.broker, "in", values, partition=partition)
            done += values

    def await_copies(self, reader: CommittedReader, count: int) -> None:
        """Waits for that many records in committed transactions, and restarts copiers that have ended."""

        def come() -> bool:
            for copier in self.copiers:
                if not copier.alive:
                    copier.start()
            return reader.poll() >= count

        try:
            until(come, f"{count} records", WAIT_S)
        except AssertionError as error:
            told = [copier.logged()[-1500:] for copier in self.copiers]
            raise AssertionError(f"{error}: {len(reader.records)} came\n{told}") from error


@pytest.fixture
def copying(new_broker: NewBroker, tmp_path: Path) -> Iterator[Copying]:
    broker = new_broker()
    with Wire(broker.address) as wire:
        for topic in ("in", "out"):
            wire.create_topic(topic, PARTITIONS)
    made = Copying(broker, tmp_path)
    yield made
    for copier in made.copiers:
        copier.kill()


def copy_under_kills(copying: Copying, part: int, victims: Sequence[str]) -> None:
    """Kills a process during each part of the copy. At the end, every record must be there once and in order."""
    with CommittedReader(copying.broker, "out", PARTITIONS) as reader:
        for victim in victims:
            before = sum(map(len, copying.written.values()))
            copying.write(part)
            copying.await_copies(reader, before + 1)
            if victim == "broker":
                copying.broker.crash()
            else:
                copying.copiers[victim == "second"].kill()
        copying.await_copies(reader, sum(map(len, copying.written.values())))
    found: dict[int, list[bytes]] = {number: [] for number in range(PARTITIONS)}
    for message in read_all(copying.broker, "out", PARTITIONS):
        found[present(message.partition())].append(present(message.value()))
    assert found == copying.written


@pytest.mark.timeout(600)
def test_s45_every_record_is_copied_once_though_a_copier_and_the_broker_are_killed(copying: Copying) -> None:
    copy_under_kills(copying, 500, ["first", "broker"])


@pytest.mark.campaign
@pytest.mark.timeout(1_800)
def test_s45_every_record_is_copied_once_over_fifteen_kills(copying: Copying) -> None:
    copy_under_kills(copying, 2_000, ["first", "broker", "second", "broker", "broker"] * 3)
