"""Kills a broker under load again and again, then checks every history.

The load is idempotent producers (one compresses, one retries by hand) and a raw writer on four topics. One topic rolls
its segments all the time, and one syncs before each ack. A consumer group, a committer, and a client that creates and
deletes topics run too. The broker writes checkpoints all the time. The seed draws the moments. After one kill in three,
another follows during the start, which interrupts the recovery.
"""

from __future__ import annotations

import random
import time
from collections.abc import Iterator
from dataclasses import dataclass, field

from conformance.drivers.base import Place
from conformance.faults.checkers import history
from conformance.faults.checkers.history import Anomaly, PartitionHistory, TopicHistory, Watermark
from conformance.faults.loads.load import (
    Committer,
    GroupReader,
    IdempotentWriter,
    Load,
    RawWriter,
    Resender,
    TopicMaker,
    read_back,
    topics_of,
)
from harness.clients.members import committed
from harness.protocol.wire_client import Wire
from harness.servers.brokers import Broker

#: The broker writes everything beside records all the time.
EAGER = {
    "log.flush.offset.checkpoint.interval.ms": "20",
    "log.flush.start.offset.checkpoint.interval.ms": "20",
    "replica.high.watermark.checkpoint.interval.ms": "20",
    "log.retention.check.interval.ms": "50",
    "log.initial.task.delay.ms": "1",
    "log.segment.delete.delay.ms": "0",
    "log.flush.scheduler.interval.ms": "20",
    "offsets.topic.num.partitions": "3",
}
TOPICS: dict[str, dict[str, object]] = {
    "plain": {},
    "rolling": {"segment.index.bytes": 80, "index.interval.bytes": 0},
    "flushed": {"flush.messages": 50, "segment.bytes": 1 << 20},
    "synced": {"flush.acks": "true"},
}
PARTITIONS = {"plain": 3, "rolling": 2, "flushed": 2, "synced": 1}
#: Two writers share this topic's partitions; the others belong to one idempotent writer alone.
SHARED = 0


@dataclass
class Report:
    """The results of a campaign of kills."""

    seed: int
    kills: int = 0
    kills_in_start: int = 0
    records: int = 0
    done: dict[str, int] = field(default_factory=dict)
    anomalies: list[Anomaly] = field(default_factory=list)

    def __str__(self) -> str:
        work = ", ".join(f"{name} {count}" for name, count in sorted(self.done.items()))
        text = f"seed {self.seed}: {self.kills} kills ({self.kills_in_start} of them in a start), "
        text += f"{self.records} records read back; acked: {work}; {len(self.anomalies)} anomalies"
        return "\n".join([text, *map(str, self.anomalies[:20])])


class Campaign:
    """Sets up topics and load on a broker that is not started yet."""

    def __init__(self, broker: Broker, seed: int) -> None:
        self.broker = broker
        self.random = random.Random(seed)
        self.report = Report(seed)
        broker.config.update(EAGER)
        self.histories = {
            Place(topic, partition): PartitionHistory()
            for topic, count in PARTITIONS.items()
            for partition in range(count)
        }
        self.topics = TopicHistory()
        for topic, count in PARTITIONS.items():
            self.topics.creating(topic, count)
        self.marks = {
            (group, place): Watermark(f"{group}'s offset of {place.topic}-{place.partition}")
            for group in ("reader", "committer")
            for place in self.histories
        }
        self.load = self._make_load(seed)

    def _make_load(self, seed: int) -> list[Load]:
        broker, histories = self.broker, self.histories
        shared = {place: told for place, told in histories.items() if place.partition == SHARED}
        place = Place("plain", 0)
        reads = {place: self.marks["reader", place] for place in histories}
        return [
            IdempotentWriter(broker, "idempotent", seed, histories),
            IdempotentWriter(broker, "zstd", seed, shared, compression_type="zstd"),
            RawWriter(broker, "raw", seed, shared),
            Resender(broker, "resender", seed, Place("plain", 1), histories[Place("plain", 1)]),
            GroupReader(broker, "reader", seed, histories, reads),
            Committer(broker, "committer", seed, place, self.marks["committer", place]),
            TopicMaker(broker, "made", seed, self.topics),
        ]

    def run(self, kills: int) -> Report:
        """Kills the broker this many times, then checks everything."""
        self._begin()
        while self.report.kills < kills:
            time.sleep(self.random.choice((0.05, 0.3, 1.0)) * self.random.random())
            self._kill_and_start()
            self._check_offsets()
        self._end()
        return self.report

    def _begin(self) -> None:
        self.broker.start()
        with Wire(self.broker.address) as wire:
            for topic, count in PARTITIONS.items():
                wire.create_topic(topic, count, TOPICS[topic])
                self.topics.created(topic)
        for load in self.load:
            load.start()
        self._await_progress()

    def _await_progress(self) -> None:
        """Waits until each client has succeeded once more, which shows that the broker serves everything."""
        before = {load: load.done for load in self.load}
        for load in self.load:
            load.goes_on(before[load])

    def _kill_and_start(self) -> None:
        self.broker.kill()
        self.report.kills += 1
        if self.random.random() < 1 / 3:
            self.broker.start(wait=False)
            time.sleep(self.random.uniform(0.1, 0.6))
            self.broker.kill()
            self.report.kills += 1
            self.report.kills_in_start += 1
        self.broker.start()

    def _check_offsets(self) -> None:
        promised = {key: mark.acked for key, mark in self.marks.items()}
        with Wire(self.broker.address) as wire:
            for (group, place), mark in self.marks.items():
                found = committed(wire, group, *place)
                self.report.anomalies += mark.check(found, promised[group, place])

    def _end(self) -> None:
        self._await_progress()
        for load in self.load:
            load.stop()
            self.report.done[load.name] = load.done
        self.broker.crash()
        self._check_offsets()
        for place, told in self.histories.items():
            log = read_back(self.broker, place)
            self.report.records += len(log)
            self.report.anomalies += [
                Anomaly(kind, f"{place.topic}-{place.partition}: {text}") for kind, text in told.check(log)
            ]
        self.report.anomalies += self.topics.check(topics_of(self.broker))
        self.report.anomalies += self._check_folders()

    def _check_folders(self) -> Iterator[Anomaly]:
        """Checks that each partition has a folder, and that deleted topics have left none."""
        found = {path.name for path in self.broker.log_dir.iterdir() if path.is_dir()}
        topics = topics_of(self.broker).items()
        expected = {f"{name}-{index}" for name, count in topics for index in range(count)}
        for name in expected - found:
            yield Anomaly(history.LOST, f"folder {name}")
        for name in found - expected:
            if not name.startswith("__"):
                yield Anomaly(history.PHANTOM, f"folder {name}")
