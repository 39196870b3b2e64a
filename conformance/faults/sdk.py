"""The campaign of our SDK: its producers and consumers against a broker and a network that fail, to the last record.

All clients reach the broker through the fault proxy only. While they write and read millions of records the broker is
killed (also while it starts) and frozen, connections are reset, cut in the middle of a request or reply, half-closed,
slowed down, refused, and swallowed without a word; the clients themselves are frozen and killed. At the end the log is
read by librdkafka: idempotent sends give none lost, none doubled, none reordered; every record was answered once, where
it is; every reader was given exactly the log; and no process has held more memory than its settings allow.

What drives it is the number of records, not the time: a slow machine runs the same campaign slowly::

    python -m conformance.faults.sdk --records 10000000 --faults 400
"""

from __future__ import annotations

import argparse
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import confluent_kafka

from conformance import processes
from conformance.brokers import KINDS, Broker, free_port
from conformance.faults import streams
from conformance.faults.chaos import Chaos
from conformance.faults.history import Anomaly
from conformance.faults.proxy import FaultProxy
from conformance.faults.sdk_worker import TOPIC, Options
from conformance.faults.streams import Journal, PartitionLog
from conformance.scenarios.support import until
from conformance.wire_client import Wire

STALLED_S = 180.0
MEMORY = "memory"
MIB = 1 << 20
#: What a process of a client may hold beside its buffers: the interpreter, the SDK, Arrow, journals.
BASE_MEMORY = 128 * MIB
BUFFER = 8 * MIB
#: So many records writers may at least be ahead of the faults; the journals lag behind by a few thousand.
AHEAD = 50_000
#: Buffers are counted by the bytes of their records; objects, responses and compression come on top.
MAX_MEMORY = BASE_MEMORY + 4 * BUFFER
CHECKOUT = Path(__file__).resolve().parents[2]
#: Members that fell silent are out soon; what a broker writes beside records is written all the time.
EAGER = {
    "group.min.session.timeout.ms": "1000",
    "group.initial.rebalance.delay.ms": "0",
    "group.consumer.min.session.timeout.ms": "1000",
    "group.consumer.session.timeout.ms": "6000",
    "group.consumer.min.heartbeat.interval.ms": "100",
    "group.consumer.heartbeat.interval.ms": "300",
    "log.flush.offset.checkpoint.interval.ms": "100",
    "offsets.topic.num.partitions": "3",
}
READER = {"queued_max_bytes": BUFFER, "fetch_max_bytes": BUFFER}
CLASSIC = {"session_timeout_ms": 6_000, "heartbeat_interval_ms": 500}


@dataclass(frozen=True)
class Worker:
    """A process of the campaign: its role, its settings, and its share of the records (writers only)."""

    role: str
    share: int = 0
    streams: int = 1
    settings: dict[str, Any] = field(default_factory=dict)


#: Of each thousand records so many are written by each writer.
WRITERS = {
    "threads": Worker("send", 350, 3, {"compression_type": "lz4"}),
    "many": Worker("send_many", 350, 2, {"compression_type": "zstd", "batch_size": 65_536}),
    "tasks": Worker("asyncio", 299, 4),
    "patient": Worker("one_by_one", 1, 1, {"linger_ms": 0}),
}
READERS = {
    "reader": Worker("reader", settings=READER),
    "arrow": Worker("arrow", settings=READER),
}
#: The groups, each with two members.
GROUPS = {
    "classic": Worker("member", settings=READER | CLASSIC),
    "consumer": Worker("member", settings=READER | {"group_protocol": "consumer"}),
}


@dataclass(frozen=True)
class Plan:
    """What a campaign is made of."""

    records: int
    faults: int
    partitions: int = 4
    writers: dict[str, Worker] = field(default_factory=lambda: WRITERS)
    readers: dict[str, Worker] = field(default_factory=lambda: READERS)
    groups: dict[str, Worker] = field(default_factory=lambda: GROUPS)


@dataclass
class Report:
    """What a campaign has done and found."""

    seed: int
    faults: Counter[str] = field(default_factory=Counter)
    hiccups: Counter[str] = field(default_factory=Counter)
    memory: dict[str, int] = field(default_factory=dict)
    records: int = 0
    acked: int = 0
    anomalies: list[Anomaly] = field(default_factory=list)

    def __str__(self) -> str:
        lines = [
            f"seed {self.seed}: {self.records} records read back, {self.acked} acked, {len(self.anomalies)} anomalies",
            "faults: " + _counts(self.faults),
            "errors that clients were told: " + (_counts(self.hiccups) or "none"),
            "most memory, MiB: " + ", ".join(f"{name} {most // MIB}" for name, most in sorted(self.memory.items())),
        ]
        return "\n".join([*lines, *map(str, self.anomalies[:30])])


def _counts(found: Counter[str]) -> str:
    return ", ".join(f"{count} {name}" for name, count in sorted(found.items()))


class Process:
    """A worker's process and its journal. Of a writer all streams are known from the start."""

    def __init__(self, options: Options) -> None:
        self.options = options
        self.journal = Journal(Path(options.journal))
        self.most_memory = 0
        with Path(options.journal + ".stderr").open("ab") as errors:
            self.process = subprocess.Popen(
                options.command(), stdin=subprocess.DEVNULL, stdout=errors, stderr=errors, cwd=CHECKOUT
            )

    @property
    def alive(self) -> bool:
        return self.process.poll() is None

    def signal(self, number: signal.Signals) -> None:
        if self.alive:
            self.process.send_signal(number)

    def kill(self) -> None:
        self.look()
        self.signal(signal.SIGKILL)
        self.process.wait()
        self.journal.refresh()

    def look(self) -> None:
        """Takes in what it has written, and the most memory that it has held."""
        self.journal.refresh()
        try:
            self.most_memory = max(self.most_memory, processes.peak_rss_kib(self.process.pid) * 1024)
        except (ProcessLookupError, FileNotFoundError):
            return

    def trouble(self) -> str:
        """The end of its journal and of what it printed."""
        texts = [Path(self.options.journal + end) for end in ("", ".stderr")]
        return "\n".join(path.read_text(errors="replace")[-1500:] for path in texts if path.exists())


class Campaign:
    """Workers and faults on a broker that is not started yet."""

    def __init__(self, broker: Broker, seed: int, plan: Plan, folder: Path) -> None:
        broker.config.update(EAGER)
        broker.port = free_port()
        self.broker = broker
        self.plan = plan
        self.folder = folder
        self.random = random.Random(seed)
        self.report = Report(seed)
        self.proxy = FaultProxy(lambda: broker.address)
        self.chaos = Chaos(broker, self.proxy, self.random, self._pids, self._kill_one)
        self.roles = plan.writers | plan.readers
        self.roles |= {f"{group}{turn}": worker for group, worker in plan.groups.items() for turn in range(2)}
        self.workers: dict[str, Process] = {}
        self.past: list[Process] = []
        self.streams = 0
        #: Records of each stream of a writer and those that take its place.
        self.quotas: dict[str, int] = {}

    def run(self) -> Report:
        """Runs the plan, then checks everything. Ends all that it has started."""
        with self.proxy:
            self.broker.config["advertised.listeners"] = f"PLAINTEXT://{self.proxy.bootstrap}"
            try:
                self._begin()
                share = self.plan.records / (self.plan.faults + 2)
                for turn in range(self.plan.faults):
                    self._permit((turn + 1) * share + max(3 * share, AHEAD))
                    self._await_acks(round((turn + 1) * share))
                    self._strike()
                self._end()
            finally:
                for process in self._all():
                    process.signal(signal.SIGCONT)
                    process.kill()
        return self.report

    def _begin(self) -> None:
        self.broker.start()
        with Wire(self.broker.address) as wire:
            wire.create_topic(TOPIC, self.plan.partitions, {"retention.ms": -1, "segment.bytes": 64 * MIB})
        self._permit(AHEAD)
        for name, worker in self.roles.items():
            self._start(name, self.plan.records * worker.share // 1000 // worker.streams)
        for name in self.plan.writers:
            self._await(lambda name=name: self._acked_by(self.workers[name]) > 0, f"{name} has acks")  # type: ignore[misc]

    def _permit(self, records: float) -> None:
        """So many records may be written by now."""
        fresh = self.folder / "permit.new"
        fresh.write_text(str(min(1.0, records / self.plan.records)))
        fresh.replace(self.folder / "permit")

    def _strike(self) -> None:
        self.chaos.strike()

    # -- workers ---------------------------------------------------------------------------------------

    def _start(self, name: str, records: int = 0) -> Process:
        """Starts a worker, or the next one in its place."""
        worker = self.roles[name]
        settings = dict(worker.settings)
        if name in self.plan.writers:
            settings = {"buffer_memory": BUFFER, **settings}
        elif worker.role == "member":
            settings["group_id"] = name.rstrip("01")
        before = self.workers.get(name)
        if before is not None:
            self.past.append(before)
        turn = sum(process.options.name.split(".")[0] == name for process in self.past)
        options = Options(
            name=f"{name}.{turn}",
            journal=str(self.folder / f"{name}.{turn}"),
            bootstrap=self.proxy.bootstrap,
            role=worker.role,
            partitions=self.plan.partitions,
            streams=[self.streams + place for place in range(worker.streams if worker.share else 0)],
            records=records,
            permit=str(self.folder / "permit"),
            begun=1 - records / self.quotas.setdefault(name, records) if records else 0.0,
            settings=settings,
        )
        if before is not None and before.journal.state:
            options = replace(options, state={str(place): list(row) for place, row in before.journal.state.items()})
        self.streams += len(options.streams)
        self.workers[name] = Process(options)
        return self.workers[name]

    def _all(self) -> list[Process]:
        return [*self.workers.values(), *self.past]

    def _look(self) -> None:
        """Takes in what all have written; nobody may have ended who has something to do."""
        for name, process in self.workers.items():
            process.look()
            ended = not process.alive and name not in self.plan.writers
            if process.journal.failed or ended or (process.process.poll() or 0) != 0:
                raise AssertionError(f"{name}: {process.journal.failed[:3]}\n{process.trouble()}")

    def _acked_by(self, process: Process) -> int:
        return sum(process.journal.acked.values())

    def _acked(self) -> int:
        self._look()
        return sum(map(self._acked_by, self._all()))

    def _await(self, done: Callable[[], bool], what: str) -> None:
        def look() -> bool:
            self._look()
            return done()

        try:
            until(look, what, STALLED_S)
        except AssertionError:
            for name, process in self.workers.items():
                print(f"--- {name} (alive: {process.alive})\n{process.trouble()}", file=sys.stderr)
            raise

    def _await_acks(self, count: int) -> None:
        """So many records are acked, or all writers are through."""
        while (now := self._acked()) < count and any(self.workers[name].alive for name in self.plan.writers):
            self._await(lambda now=now: self._acked() > now or self._all_written(), f"an ack after {now}")  # type: ignore[misc]

    def _all_written(self) -> bool:
        return not any(self.workers[name].alive for name in self.plan.writers)

    def _pids(self) -> list[int]:
        """The clients that live."""
        return [process.process.pid for _, process in sorted(self.workers.items()) if process.alive]

    def _kill_one(self) -> None:
        """kill -9; the next one in its place has the rest of its records to write."""
        name = self.random.choice([name for name, process in sorted(self.workers.items()) if process.alive])
        process = self.workers[name]
        process.kill()
        acked = process.journal.acked
        done = min(acked[stream] for stream in process.options.streams) if process.options.streams else 0
        self._start(name, max(1, process.options.records - done) if name in self.plan.writers else 0)

    # -- the end ---------------------------------------------------------------------------------------

    def _end(self) -> None:
        self.proxy.heal()
        self._permit(self.plan.records)
        while not self._all_written():
            now = self._acked()
            self._await(lambda now=now: self._acked() > now or self._all_written(), "the writers end")  # type: ignore[misc]
        for name, process in self.workers.items():
            if name not in self.plan.writers:
                process.process.terminate()
        for name in self.workers:
            self._finish(name)
        self.broker.crash()
        logs = [self._log(place) for place in range(self.plan.partitions)]
        self._check(logs)

    def _finish(self, name: str) -> None:
        """A reader ends when it has read to the end: as long as it gets on it has time."""
        process = self.workers[name]
        while process.alive:
            read = self._progress(process)
            until(
                lambda read=read: not process.alive or self._progress(process) != read,  # type: ignore[misc]
                f"{name} gets on",
                STALLED_S,
            )
        process.journal.refresh()
        if process.process.returncode != 0:
            raise AssertionError(f"{name}\n{process.trouble()}")

    def _progress(self, process: Process) -> object:
        process.look()
        return dict(process.journal.state), len(process.journal.seen)

    def _log(self, place: int) -> PartitionLog:
        """The partition from its first record to its last, by librdkafka, which checks each CRC."""
        options = {"bootstrap.servers": self.broker.bootstrap, "group.id": "unused", "check.crcs": True}
        options |= {"enable.partition.eof": True, "enable.auto.commit": False}
        client = confluent_kafka.Consumer(options)
        client.assign([confluent_kafka.TopicPartition(TOPIC, place, 0)])
        log = PartitionLog(place, self.plan.partitions)
        deadline = time.monotonic() + STALLED_S
        try:
            while time.monotonic() < deadline:
                for message in client.consume(10_000, 0.2):
                    deadline = time.monotonic() + STALLED_S
                    error = message.error()
                    if error is None:
                        log.take(message.offset(), message.value())
                    elif error.code() == confluent_kafka.KafkaError._PARTITION_EOF:
                        return log
                    elif not error.retriable():
                        raise AssertionError(f"partition {place}: {error}")
        finally:
            client.close()
        raise AssertionError(f"partition {place} has no end after {log.end} records")

    def _check(self, logs: list[PartitionLog]) -> None:
        report = self.report
        for process in self._all():
            process.journal.refresh()
            name = process.options.name.split(".")[0]
            report.hiccups.update(process.journal.hiccups)
            report.memory[name] = max(report.memory.get(name, 0), process.most_memory)
        report.faults = self.chaos.counts
        report.records = sum(log.end for log in logs)
        report.acked = sum(map(self._acked_by, self._all()))
        groups = {
            group: [process.journal for process in self._all() if process.options.name.startswith(group)]
            for group in self.plan.groups
        }
        writers = [process for process in self._all() if process.options.streams]
        report.anomalies += streams.check(
            logs,
            [process.journal for process in writers],
            [self.workers[name].journal for name in self.plan.readers],
            groups,
            range(self.streams),
        )
        for name, most in report.memory.items():
            if most > MAX_MEMORY:
                report.anomalies.append(Anomaly(MEMORY, f"{name} held {most} bytes, more than {MAX_MEMORY}"))


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(description="our SDK under faults of broker, network and clients")
    parser.add_argument("--broker", choices=sorted(KINDS), default="ours")
    parser.add_argument("--records", type=int, default=10_000_000)
    parser.add_argument("--faults", type=int, default=400)
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(1_000_000))
    parser.add_argument("--folder", type=Path, help="keeps data and journals here")
    chosen = parser.parse_args(arguments)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    with tempfile.TemporaryDirectory() as temporary:
        folder = (chosen.folder or Path(temporary)).resolve()
        folder.mkdir(parents=True, exist_ok=True)
        broker = KINDS[chosen.broker](folder / "broker")
        begun = time.monotonic()
        try:
            report = Campaign(broker, chosen.seed, Plan(chosen.records, chosen.faults), folder).run()
        finally:
            broker.kill()
        print(f"{report}\nseconds: {time.monotonic() - begun:.0f}")
    return bool(report.anomalies)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
