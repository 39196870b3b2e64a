"""The load of our SDK: its producers and consumers as processes, checked to the last record, on one broker or several.

Idempotent writers send numbered streams (``streams``) in each of the SDK's ways. Readers read everything, and members
of groups share it. A file limits the writers' progress, so that they do not finish before the faults. At the end
librdkafka reads the log. No record of an idempotent producer is lost, doubled or reordered. Every record got one
answer, with its place. Every reader got exactly the log, and every process has kept within its memory settings. The
campaigns choose the faults (``sdk``, ``cluster``).
"""

from __future__ import annotations

import random
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import confluent_kafka

from conformance.drivers import reaching
from conformance.faults.checkers import streams
from conformance.faults.checkers.history import Anomaly
from conformance.faults.checkers.streams import Journal, PartitionLog
from conformance.faults.loads.sdk_worker import TOPIC, Options
from conformance.faults.targets import Target
from harness import processes
from harness.clients import librdkafka
from harness.waiting import until

STALLED_S = 180.0
MEMORY = "memory"
MIB = 1 << 20
#: A client's process may hold this beside its buffers: the interpreter, the SDK, Arrow, journals.
BASE_MEMORY = 128 * MIB
BUFFER = 8 * MIB
#: Writers may at least be this many records ahead of the faults; the journals lag behind by a few thousand.
AHEAD = 50_000
#: Buffers count the bytes of their records; objects, responses and compression come on top.
MAX_MEMORY = BASE_MEMORY + 4 * BUFFER
CHECKOUT = Path(__file__).resolve().parents[3]
#: Groups evict silent members soon; a broker writes everything beside records all the time.
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


#: Each writer writes this many of every thousand records.
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
    """How much a campaign sends, and how many faults it causes."""

    records: int
    faults: int
    partitions: int = 4
    writers: dict[str, Worker] = field(default_factory=lambda: WRITERS)
    readers: dict[str, Worker] = field(default_factory=lambda: READERS)
    groups: dict[str, Worker] = field(default_factory=lambda: GROUPS)


@dataclass
class Report:
    """The results of a campaign with our own clients."""

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
    """A worker's process and its journal. A writer's streams are all known from the start."""

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
        """Takes in the process's journal, and the most memory that it has held."""
        self.journal.refresh()
        if not self.alive:
            return  # Another process may have its pid by now.
        try:
            self.most_memory = max(self.most_memory, processes.peak_rss_kib(self.process.pid) * 1024)
        except (ProcessLookupError, FileNotFoundError):
            return

    def trouble(self) -> str:
        """Returns the end of the process's journal and of its output."""
        texts = [Path(self.options.journal + end) for end in ("", ".stderr")]
        return "\n".join(path.read_text(errors="replace")[-1500:] for path in texts if path.exists())


class Streams:
    """Runs worker processes of our own client on running brokers."""

    def __init__(self, target: Target, bootstrap: str, seed: int, plan: Plan, folder: Path) -> None:
        """``bootstrap``: the address for the workers; it may be a proxy's."""
        self.target = target
        self.bootstrap = bootstrap
        self.plan = plan
        self.folder = folder
        self.random = random.Random(seed)
        self.report = Report(seed)
        self.roles = plan.writers | plan.readers
        self.roles |= {f"{group}{turn}": worker for group, worker in plan.groups.items() for turn in range(2)}
        self.workers: dict[str, Process] = {}
        self.past: list[Process] = []
        self.streams = 0
        #: Records of each stream, of a writer and its successors.
        self.quotas: dict[str, int] = {}

    def begin(self) -> None:
        """Creates the topic and starts all workers; returns when every writer has acks."""
        self.target.make_topic(TOPIC, self.plan.partitions, retention_ms=-1, segment_bytes=64 * MIB)
        self.permit(AHEAD)
        for name, worker in self.roles.items():
            self._start(name, self.plan.records * worker.share // 1000 // worker.streams)
        for name in self.plan.writers:
            self._await(lambda name=name: self._acked_by(self.workers[name]) > 0, f"{name} has acks")  # type: ignore[misc]

    def close(self) -> None:
        """Ends every process."""
        for process in self._all():
            process.signal(signal.SIGCONT)
            process.kill()

    def permit(self, records: float) -> None:
        """Permits writers to have written this many records by now."""
        fresh = self.folder / "permit.new"
        fresh.write_text(str(min(1.0, records / self.plan.records)))
        fresh.replace(self.folder / "permit")

    # -- workers ---------------------------------------------------------------------------------------

    def _start(self, name: str, records: int = 0) -> Process:
        """Starts a worker, or the next one in its place."""
        worker = self.roles[name]
        settings = reaching.pyclient(self.bootstrap) | worker.settings
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
        """Takes in the journals of all workers; no worker with work left may have ended."""
        for name, process in self.workers.items():
            process.look()
            ended = not process.alive and name not in self.plan.writers
            if process.journal.failed or ended or (process.process.poll() or 0) != 0:
                raise AssertionError(f"{name}: {process.journal.failed[:3]}\n{process.trouble()}")

    def _acked_by(self, process: Process) -> int:
        return sum(process.journal.acked.values())

    def acked(self) -> int:
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

    def await_acks(self, count: int) -> None:
        """Waits until this many records are acked, or all writers have finished."""
        while (now := self.acked()) < count and any(self.workers[name].alive for name in self.plan.writers):
            self._await(lambda now=now: self.acked() > now or self.all_written(), f"an ack after {now}")  # type: ignore[misc]

    def all_written(self) -> bool:
        """Returns whether every writer has finished."""
        return not any(self.workers[name].alive for name in self.plan.writers)

    def pids(self) -> list[int]:
        """Returns the pids of the running clients."""
        return [process.process.pid for _, process in sorted(self.workers.items()) if process.alive]

    def kill_one(self) -> None:
        """Kills a client by kill -9; its successor writes the rest of its records."""
        name = self.random.choice([name for name, process in sorted(self.workers.items()) if process.alive])
        process = self.workers[name]
        process.kill()
        acked = process.journal.acked
        done = min(acked[stream] for stream in process.options.streams) if process.options.streams else 0
        self._start(name, max(1, process.options.records - done) if name in self.plan.writers else 0)

    # -- the end ---------------------------------------------------------------------------------------

    def end(self) -> None:
        """Lets the writers write the rest and the readers read it; waits until all have ended."""
        self.permit(self.plan.records)
        while not self.all_written():
            now = self.acked()
            self._await(lambda now=now: self.acked() > now or self.all_written(), "the writers end")  # type: ignore[misc]
        readers = [process for name, process in self.workers.items() if name not in self.plan.writers]
        self._await(lambda: all(process.journal.is_ready for process in readers), "all readers have begun")
        for process in readers:
            process.process.terminate()
        for name in self.workers:
            self._finish(name)

    def _finish(self, name: str) -> None:
        """Waits for a reader, as long as it progresses; it ends when it has read to the end."""
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
        """Reads the partition from its first record to its last by librdkafka, which checks each CRC."""
        options = {**reaching.librdkafka(self.target.bootstrap), "group.id": "unused", "check.crcs": True}
        options |= {"enable.partition.eof": True, "enable.auto.commit": False}
        client = librdkafka.Consumer(options)
        client.assign([confluent_kafka.TopicPartition(TOPIC, place, 0)])
        log = PartitionLog(place, self.plan.partitions)
        deadline = time.monotonic() + STALLED_S
        try:
            while time.monotonic() < deadline:
                for message in client.consume(10_000, 0.2):
                    deadline = time.monotonic() + STALLED_S
                    error = message.error()
                    if error is None:
                        log.take(message.offset(), message.value() or b"")
                    elif error.code() == confluent_kafka.KafkaError._PARTITION_EOF:
                        return log
                    elif not error.retriable():
                        raise AssertionError(f"partition {place}: {error}")
        finally:
            client.close()
        raise AssertionError(f"partition {place} has no end after {log.end} records")

    def check(self) -> Report:
        """Reads everything back and returns all anomalies."""
        report = self.report
        logs = [self._log(place) for place in range(self.plan.partitions)]
        for process in self._all():
            process.journal.refresh()
            name = process.options.name.split(".")[0]
            report.hiccups.update(process.journal.hiccups)
            report.memory[name] = max(report.memory.get(name, 0), process.most_memory)
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
        return report
