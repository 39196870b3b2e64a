"""The load of transactions: writers and consume-transform-produce applications as processes, checked to the last row.

Writers send transactions over two topics. Applications read the committed records of one of them. They write each
record to their own topic, with the offsets in the same transaction. The campaign kills workers, which restart under
their transactional id; it freezes and replaces workers, and resumes them as zombies. At the end every transaction is
there entirely or not at all. Each application's output is its input, every record once, in order. The campaigns choose
the broker's faults (``exactly_once``, ``cluster``).
"""

from __future__ import annotations

import contextlib
import functools
import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from conformance.drivers.base import Place
from conformance.faults.checkers import transactions
from conformance.faults.checkers.committed import STALLED_S, CommittedReader, end_offset, read_committed
from conformance.faults.checkers.history import Anomaly, Row
from conformance.faults.checkers.transactions import Journal
from conformance.faults.loads.transaction_worker import Options
from conformance.faults.targets import Target
from harness.waiting import until

TOPICS = {"input": 4, "side": 2}
#: Brokers write everything beside records all the time; transactions time out soon.
EAGER = {
    "log.flush.offset.checkpoint.interval.ms": "50",
    "replica.high.watermark.checkpoint.interval.ms": "50",
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "500",
    "offsets.topic.num.partitions": "3",
    "transaction.state.log.num.partitions": "3",
}
STUCK = "stuck"
ENDED = "workers ended by themselves"
#: A worker notes this when its client is finished.
ENDS = ("fenced", "failed", "end")
#: Workers import the suite from here.
CHECKOUT = Path(__file__).resolve().parents[3]


@dataclass(frozen=True)
class Application:
    """A consume-transform-produce application, run by some workers."""

    driver: str
    group_protocol: str
    workers: int = 2

    @property
    def name(self) -> str:
        return f"{self.driver}-{self.group_protocol}"

    @property
    def target(self) -> str:
        return f"copy-{self.name}"


@dataclass(frozen=True)
class Plan:
    """How many transactions and faults a campaign has."""

    transactions: int
    faults: int
    writers: Sequence[str] = ("confluent", "confluent", "aiokafka")
    applications: Sequence[Application] = (
        Application("confluent", "classic"),
        Application("confluent", "consumer"),
        Application("aiokafka", "manual"),
    )
    session_timeout_ms: int = 10_000
    """The session time-out of members of a classic group."""
    most_records: int = 6
    """The most records of a writer's transaction."""


@dataclass
class Report:
    """The results of a campaign of transactions."""

    seed: int
    faults: Counter[str] = field(default_factory=Counter)
    words: Counter[str] = field(default_factory=Counter)
    told: Counter[str] = field(default_factory=Counter)
    """The reasons why clients were given up, by kind."""
    records: int = 0
    seen: int = 0
    anomalies: list[Anomaly] = field(default_factory=list)
    hung: list[str] = field(default_factory=list)
    """The stacks of zombies whose library did not return from a call."""

    def __str__(self) -> str:
        faults = ", ".join(f"{count} {name}" for name, count in sorted(self.faults.items()))
        words = ", ".join(f"{name} {count}" for name, count in sorted(self.words.items()))
        text = f"seed {self.seed}: {faults}; {words}; {self.records} committed records read back, {self.seen} seen "
        text += f"on the way; {len(self.anomalies)} anomalies; {len(self.hung)} zombies hung"
        return "\n".join([text, *map(str, self.anomalies[:20]), *self.hung])


class Process:
    """A worker's process and its journal, with everything needed to start it again."""

    def __init__(self, options: Options) -> None:
        self.options = options
        self.journal = Journal(Path(options.journal))
        with Path(options.journal + ".stderr").open("ab") as errors:
            self.process = subprocess.Popen(
                options.command(),
                stdin=subprocess.DEVNULL,
                stdout=errors,
                stderr=errors,
                cwd=CHECKOUT,
                start_new_session=True,
            )

    def signal(self, number: signal.Signals) -> None:
        """Signals the worker and its children."""
        if self.process.poll() is None:
            os.killpg(self.process.pid, number)

    def kill(self) -> None:
        self.signal(signal.SIGKILL)
        self.process.wait()

    @property
    def alive(self) -> bool:
        return self.process.poll() is None

    def count(self, word: str) -> int:
        """Counts an entry in the journal so far."""
        self.journal.refresh()
        return self.journal.counts[word]

    def trouble(self) -> str:
        """Returns the end of the worker's journal and of its output, for a report."""
        texts = [Path(self.options.journal + end) for end in ("", ".stderr")]
        return "\n".join(path.read_text(errors="replace")[-3000:] for path in texts if path.exists())


class Transactions:
    """Runs worker processes that write in transactions, on running brokers."""

    def __init__(self, target: Target, seed: int, plan: Plan, folder: Path) -> None:
        self.target = target
        self.plan = plan
        self.folder = folder
        self.random = random.Random(seed)
        self.report = Report(seed)
        self.workers: dict[str, Process] = {}
        self.past: list[Process] = []
        self.topics = TOPICS | {row.target: TOPICS["input"] for row in plan.applications}
        self.places = [Place(topic, index) for topic, count in self.topics.items() for index in range(count)]
        self.reader: CommittedReader | None = None

    def begin(self) -> None:
        """Creates the topics and starts all workers; returns when each has committed something."""
        for topic, count in self.topics.items():
            self.target.make_topic(topic, count, segment_bytes=1 << 20, retention_ms=-1)
        self.reader = CommittedReader(self.target, self.places)
        self.reader.start()
        for number, driver in enumerate(self.plan.writers):
            self._start(self._options(f"writer{number}", driver, topics=TOPICS))
        for application in self.plan.applications:
            for number in range(application.workers):
                self._start(self._transformer(application, number))
        self._await_progress()

    def close(self) -> None:
        """Ends every process."""
        for process in [*self.workers.values(), *self.past]:
            process.signal(signal.SIGCONT)
            process.kill()

    def _options(self, name: str, driver: str, **more: object) -> Options:
        common: dict[str, Any] = {"bootstrap": self.target.bootstrap, "seed": self.report.seed, "life_s": 7_200.0}
        common |= {"session_timeout_ms": self.plan.session_timeout_ms, "most_records": self.plan.most_records}
        return Options(name, str(self.folder / name), driver=driver, transactional_id=name, **common, **more)  # type: ignore[arg-type]

    def _transformer(self, application: Application, number: int) -> Options:
        name = f"{application.name}{number}"
        options = self._options(name, application.driver, source="input", target=application.target)
        if application.group_protocol != "manual":
            return replace(options, group=application.name, group_protocol=application.group_protocol)
        mine = list(range(TOPICS["input"]))[number :: application.workers]
        return replace(options, group=name, partitions=mine)

    def _start(self, options: Options) -> Process:
        """Starts a worker, or its successor, whose transactions have names of their own."""
        role = options.transactional_id
        if role in self.workers:
            self.past.append(self.workers[role])
            name = f"{role}-{sum(row.options.transactional_id == role for row in self.past)}"
            options = replace(options, name=name, journal=str(self.folder / name))
        self.workers[role] = Process(options)
        return self.workers[role]

    def _await(self, done: Callable[[], bool], what: str) -> None:
        try:
            until(done, what, STALLED_S)
        except AssertionError:
            for role, process in self.workers.items():
                print(f"--- {role} (alive: {process.alive})\n{process.trouble()}", file=sys.stderr)
            raise

    def await_transactions(self, count: int) -> None:
        """Waits until this many transactions are committed, without a time limit while the number rises."""
        while (now := self.committed()) < count:
            self.revive()
            self._await(lambda now=now: self.committed() > now, f"a transaction after {now}")  # type: ignore[misc]

    def committed(self) -> int:
        return sum(process.count("committed") for process in [*self.workers.values(), *self.past])

    def _await_progress(self) -> None:
        """Waits until each worker has committed something."""
        for role in self.workers:
            self._await(lambda role=role: self._has_committed(role), f"{role} commits")  # type: ignore[misc]

    def _has_committed(self, role: str) -> bool:
        self.revive()
        return self.workers[role].count("committed") > 0

    def revive(self) -> None:
        """Restarts a worker that ended by itself: librdkafka and aiokafka report a fence when a broker left a request
        unanswered.
        """
        for process in list(self.workers.values()):
            if not process.alive:
                self.report.faults[ENDED] += 1
                self._start(process.options)

    def kill_worker(self) -> None:
        """Kills one or two workers by kill -9; others replace them."""
        for role in self.random.sample(sorted(self.workers), self.random.randint(1, 2)):
            self.workers[role].kill()
            self.report.faults["kills of workers"] += 1
            self._start(self.workers[role].options)

    def make_zombie(self) -> None:
        """Freezes a worker in the middle of its work, starts a replacement, then resumes the zombie."""
        zombie = self._at_work(self.workers)
        zombie.signal(signal.SIGSTOP)
        self._replace(zombie)
        self.report.faults["zombies"] += 1

    def make_double(self) -> None:
        """Starts another worker under the transactional id of a worker that continues."""
        self._replace(self._at_work(self.workers))
        self.report.faults["doubles"] += 1

    def put_to_sleep(self) -> None:
        """Freezes a member of a group for longer than its session, while the others do its work. It resumes under a
        transactional id that nobody else uses.
        """
        groups = [row.name for row in self.plan.applications if row.group_protocol != "manual"]
        sleeper = self._at_work([role for role in self.workers if role[:-1] in groups])
        sleeper.signal(signal.SIGSTOP)
        time.sleep(1.5 * self.plan.session_timeout_ms / 1000)
        sleeper.signal(signal.SIGCONT)
        self.report.faults["members that came back"] += 1

    def _at_work(self, roles: Iterable[str]) -> Process:
        """Chooses a worker, and waits until it has committed something."""
        role = self.random.choice(sorted(roles))
        found = self.workers[role]
        self._await(lambda: found.count("committed") > 0 or not found.alive, f"{role} has ids")
        return found

    def _replace(self, zombie: Process) -> None:
        """Starts a halted worker's successor, resumes the worker, and waits until it learns of the fence."""
        role = zombie.options.transactional_id
        before = Counter({word: zombie.count(word) for word in ENDS})
        heir = self._start(zombie.options)
        self._await(lambda: heir.count("ready") > 0 or not heir.alive, f"{role}'s heir has its id")
        if heir.count("ready"):
            zombie.journal.fence()
        zombie.signal(signal.SIGCONT)
        self._see_off(zombie, lambda: not (zombie.alive and heir.alive) or _met_its_end(zombie, before))
        zombie.kill()

    def _see_off(self, zombie: Process, is_told: Callable[[], bool]) -> None:
        """Waits until the zombie learns that it was fenced. librdkafka may hang in one known call
        (``drivers.confluent``); this is reported with the stack.
        """
        role = zombie.options.transactional_id
        if zombie.options.driver != "confluent":
            try:
                self._await(is_told, f"{role}'s zombie is told")
            except AssertionError as error:
                zombie.signal(signal.SIGQUIT)
                until(lambda: "File " in zombie.trouble(), "its stack", STALLED_S)
                raise AssertionError(f"{error}\n{zombie.trouble()}") from None
            return
        with contextlib.suppress(AssertionError):
            until(is_told, f"{role}'s zombie is told", STALLED_S)
            return
        assert self._has_hung(zombie), f"{role}'s zombie is not told:\n{zombie.trouble()}"

    def _has_hung(self, process: Process) -> bool:
        """Returns whether a worker hangs in the call of librdkafka that is known to hang. Reports that with the stack.
        """
        if process.options.driver != "confluent":
            return False
        process.signal(signal.SIGQUIT)
        until(lambda: "File " in process.trouble(), "its stack", STALLED_S)
        if "in send_offsets" not in process.trouble():
            return False
        self.report.hung.append(f"{process.options.transactional_id}: {process.trouble()}")
        return True

    def end(self) -> None:
        """Lets the workers finish their work; waits until all have ended and no transaction is open."""
        for process in self._roles("writer"):
            self._finish(process)
        self._await(self._all_written, "no writer's transaction is left open")
        self._await_copies()
        for process in list(self.workers.values()):
            self._finish(process)
        self._await(self._all_stable, "no transaction is left open")

    def check(self) -> Report:
        """Reads everything back and returns all anomalies."""
        assert self.reader is not None
        self._await(self._all_stable, "no transaction is left open")
        logs = {place: read_committed(self.target, place) for place in self.places}
        self._await(lambda: self._caught_up(logs), "the reader on the way has read everything")
        self.reader.stopping.set()
        self.reader.join(STALLED_S)
        self._check(logs)
        return self.report

    def _end_hung(self, application: Application) -> bool:
        """Kills the hanging workers; returns False if none hangs."""
        workers = [self.workers[f"{application.name}{number}"] for number in range(application.workers)]
        hung = [worker for worker in workers if worker.alive and self._has_hung(worker)]
        for worker in hung:
            worker.kill()
        return bool(hung)

    def _roles(self, prefix: str) -> list[Process]:
        return [process for role, process in self.workers.items() if role.startswith(prefix)]

    def _finish(self, process: Process) -> None:
        process.process.terminate()  # Only the worker is killed; it ends its children itself.
        self._await(lambda: not process.alive, f"{process.options.name} ends")

    def _await_copies(self) -> None:
        """Waits until each application has copied the whole input; replaces a worker that hangs in librdkafka."""
        for partition in range(TOPICS["input"]):
            count = len(read_committed(self.target, Place("input", partition)))
            for application in self.plan.applications:
                place = Place(application.target, partition)
                copied = functools.partial(self._is_copied, place, count)
                what = f"{count} records in {place}"
                try:
                    self._await(copied, what)
                except AssertionError:
                    if not self._end_hung(application):
                        raise
                    self._await(copied, what)

    def _is_copied(self, place: Place, count: int) -> bool:
        """Returns whether the concurrent reader has seen this many records in the output."""
        assert self.reader is not None
        self._revive_transformers()
        return len(self.reader.seen[place]) >= count

    def _revive_transformers(self) -> None:
        for role, process in list(self.workers.items()):
            if not process.alive and not role.startswith("writer"):
                self._start(process.options)

    def _all_written(self) -> bool:
        return self._stable(place for place in self.places if place.topic in TOPICS)

    def _all_stable(self) -> bool:
        return self._stable(self.places)

    def _stable(self, places: Iterable[Place]) -> bool:
        """Returns whether no transaction is open: the last stable offset equals the high watermark."""
        return all(end_offset(self.target, place, 0) == end_offset(self.target, place, 1) for place in places)

    def _caught_up(self, logs: dict[Place, list[Row]]) -> bool:
        assert self.reader is not None
        return all(len(self.reader.seen[place]) >= len(rows) for place, rows in logs.items())

    def _check(self, logs: dict[Place, list[Row]]) -> None:
        assert self.reader is not None
        workers = [*self.past, *self.workers.values()]
        journals = [process.journal for process in workers]
        for worker, journal in zip(workers, journals, strict=True):
            journal.refresh()
            self.report.words.update(journal.counts)
            for text, count in journal.told.items():
                self.report.told[f"{worker.options.driver}: {text}"] += count
        told = [row for journal in journals for row in journal.transactions.values()]
        self.report.records = sum(map(len, logs.values()))
        self.report.seen = sum(map(len, self.reader.seen.values()))
        found = transactions.check(told, logs) + transactions.check_seen(self.reader.seen, logs, told)
        for application in self.plan.applications:
            for partition in range(TOPICS["input"]):
                source = [value for _, value in logs[Place("input", partition)]]
                place = Place(application.target, partition)
                rows = [(by, value) for by, _, value in (row.partition(b" ") for _, row in logs[place])]
                found += transactions.check_copy(source, rows, f"{application.target}-{partition}")
        if self.reader.failure:
            found.append(Anomaly(STUCK, self.reader.failure))
        self.report.anomalies += found


def _met_its_end(zombie: Process, before: Counter[str]) -> bool:
    """Returns whether the zombie has noticed its end. A client that lost its ids may report a fence, or just a failure.
    """
    return any(zombie.count(word) > before[word] for word in ENDS)
