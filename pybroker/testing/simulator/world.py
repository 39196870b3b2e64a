"""One history: a cluster, its clients, its faults; then all is mended, and looked at."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random
from typing import Any

from pybroker.cluster.image import TRANSACTIONS_TOPIC
from pybroker.cluster.plan import NewTopic
from pybroker.log.log import Log
from pybroker.testing.simulator.chain import Chain
from pybroker.testing.simulator.client import Client
from pybroker.testing.simulator.cluster import Cluster
from pybroker.testing.simulator.environment import environment, patched
from pybroker.testing.simulator.faults import Faults
from pybroker.testing.simulator.history import History
from pybroker.testing.simulator.network import Network, Pace
from pybroker.testing.simulator.oracle import Oracle, Violation
from pybroker.testing.simulator.readers import Reader, visible
from pybroker.testing.simulator.scheduler import ProcessLoop, Scheduler
from pybroker.testing.simulator.settings import Settings
from pybroker.testing.simulator.store import SimulatedStore, Tree
from pybroker.testing.simulator.transactions import TransactionalWriter
from pybroker.testing.simulator.writers import Writer
from pybroker.topic_partition import TopicPartition

TOPIC = "t"
START_S = 20.0
STEP_S = 0.02
QUICK = Pace(slow_chance=0.0)
SETTLE_S = 60.0
FIRST_CLIENT = 100


@dataclass(slots=True)
class Outcome:
    """What became of a seed. ``invariant`` is "" where all held."""

    seed: int
    invariant: str = ""
    text: str = ""
    events: int = 0
    virtual_s: float = 0.0
    acked: int = 0
    given_up: int = 0
    faults: dict[str, int] = field(default_factory=dict)
    trace: list[str] = field(default_factory=list)


class World:
    """A history of one seed."""

    def __init__(self, seed: int, settings: Settings | None = None, *, traced: bool = False) -> None:
        self.seed = seed
        self.settings = settings or drawn(seed)
        self.scheduler = Scheduler(self._rng("scheduler"))
        network = Network(self.scheduler, self._rng("network"), QUICK)
        store = SimulatedStore(
            self.scheduler, network, Tree(), self.settings.session_timeout_s, knows_death=self.settings.knows_death
        )
        self.cluster = Cluster(self.scheduler, network, store, self._rng("disk"), self.settings.broker)
        self.cluster.trace = [] if traced else None
        self.oracle = Oracle(self.cluster)
        self.history = History(self.settings)
        self.faults = Faults(self.cluster, self.settings, self._rng("faults"))
        self.cluster.watcher = self.oracle
        store.on_write = self.oracle.store_changed
        self.scheduler.after_event = self.oracle.check
        self.scheduler.on_failure = self._on_failure
        self._work: list[asyncio.Task[None]] = []
        self._waiting = 0
        self._readers: list[Reader] = []

    def _rng(self, purpose: str) -> Random:
        return Random(f"{purpose} {self.seed}")

    def _on_failure(self, loop: ProcessLoop | None, error: BaseException) -> None:
        if isinstance(error, Violation):
            raise error
        raise Violation("crash", f"{loop}: {type(error).__name__}: {error}") from error

    def run(self) -> Outcome:
        """The history."""
        outcome = Outcome(self.seed)
        logging.disable(logging.CRITICAL)
        cut = Log._ends_at
        oracle = self.oracle

        def ends_at(log: Log, offset: int) -> None:
            oracle.was_cut(log, offset)
            cut(log, offset)

        try:
            with environment(self.scheduler, self.seed), patched([(Log, "_ends_at", ends_at)]):
                self._run()
        except Violation as violation:
            outcome.invariant, outcome.text = violation.invariant, str(violation)
            self.cluster.note(f"VIOLATION {violation}")
        finally:
            logging.disable(logging.NOTSET)
            self.scheduler.close()
            for machine in self.cluster.machines.values():
                if machine.process is not None:
                    machine.process.loop.kill()
        outcome.events, outcome.virtual_s = self.scheduler.events, self.scheduler.now
        outcome.acked, outcome.given_up = len(self.history.acks), len(self.history.given_up)
        outcome.faults = self.faults.counts
        outcome.trace = self.cluster.trace or []
        return outcome

    def _run(self) -> None:
        self._start()
        self._create_topics()
        self._start_clients()
        self.cluster.network.pace = Pace(slow_chance=self.settings.slow_chance, slow_s=self.settings.slow_s)
        self.faults.begin()
        self.scheduler.run(self.scheduler.now + self.settings.duration_s)
        self.cluster.network.pace = QUICK
        self.faults.end()
        self._settle()
        self.oracle.check_end()
        self._check_records()

    def _start(self) -> None:
        for node_id in range(1, self.settings.brokers + 1):
            self.cluster.add_machine(node_id)
            self.cluster.start(node_id)
        everybody = self.settings.brokers

        def is_up() -> bool:
            brokers = list(self.cluster.brokers())
            return len(brokers) == everybody and all(len(b.metadata.image.brokers) == everybody for b in brokers)

        if not self._wait(START_S, is_up):
            raise Violation("settles", "the brokers do not start")

    def _create_topics(self) -> None:
        settings = self.settings
        configs = tuple(settings.topic().items())
        topic = NewTopic(TOPIC, settings.partitions, min(3, settings.brokers), configs=configs)
        self.oracle.min_isr = {TOPIC: settings.least_min_isr, TRANSACTIONS_TOPIC: 2}
        for broker in self.cluster.brokers():
            if broker.controller.is_controller:
                broker.process.loop.start(broker.controller.create_topics([topic]))
                if settings.transactional:
                    broker.process.loop.start(broker.controller.ensure_internal_topic(TRANSACTIONS_TOPIC))
        wanted = 1 + bool(settings.transactional)

        def are_there() -> bool:
            return all(len(broker.metadata.image.topics) == wanted for broker in self.cluster.brokers())

        if not self._wait(START_S, are_there):
            raise Violation("settles", "the topics are not created")

    def _start_clients(self) -> None:
        settings, rng = self.settings, self._rng("clients")
        partitions = [TopicPartition(TOPIC, index) for index in range(settings.partitions)]
        for number in range(settings.writers + settings.weak_writers):
            client = self._client(rng)
            acks = -1 if number < settings.writers else 1
            writer = Writer(client, self.history, rng.choice(partitions), f"w{number}", acks=acks)
            self._work.append(client.loop.start(writer.run(settings.batches, settings.pause_s)))
        for number in range(settings.transactional):
            for owner in range(1 + settings.has_zombies):
                client = self._client(rng)
                begin = TransactionalWriter(
                    client,
                    self.history,
                    partitions,
                    f"id{number}",
                    f"x{number}.{owner}",
                    is_old=settings.has_old_clients,
                )
                self.scheduler.after(owner * rng.random() * settings.duration_s, self._begin, client, begin)
                self._waiting += 1
        if settings.readers or settings.transactional:
            for tp in partitions:
                client = self._client(rng)
                reader = Reader(client, tp)
                self._readers.append(reader)
                client.loop.start(reader.run())

    def _begin(self, client: Client, writer: TransactionalWriter) -> None:
        self._waiting -= 1
        self._work.append(client.loop.start(writer.run(self.settings.transactions, self.settings.pause_s)))

    def _client(self, rng: Random) -> Client:
        place = FIRST_CLIENT + len(self.faults.clients)
        self.faults.clients.append(place)
        return Client(self.cluster, place, Random(rng.random()))

    def _settle(self) -> None:
        """All faults are over: the clients end, everybody is in sync and has everything."""
        if not self._wait(SETTLE_S, self._has_settled):
            raise Violation("settles", self._what_is_missing())
        for task in self._work:
            error = task.exception()
            if error is not None:
                raise error

    def _wait(self, timeout_s: float, holds: Callable[[], bool]) -> bool:
        """Lets time pass until ``holds()``; False where that takes too long."""
        until = self.scheduler.now + timeout_s
        while self.scheduler.now < until:
            self.scheduler.run(self.scheduler.now + STEP_S)
            if holds():
                return True
            if self.faults.has_ended:
                self.faults.mend()
        return False

    def _has_settled(self) -> bool:
        if self._waiting or not all(task.done() for task in self._work) or self._lagging():
            return False
        return all(reader.position >= self._committed(reader.tp) for reader in self._readers)

    def _committed(self, tp: TopicPartition) -> int:
        return self.oracle.committed.get(tp, Chain()).end

    def _lagging(self) -> list[str]:
        for tp, state in self.oracle.authority.items():
            committed = self._committed(tp)
            if len(state.isr) < len(state.replicas) or state.adding or state.removing:
                return [f"{tp}: {state}"]
            for replica in state.replicas:
                partition = self._partition(replica, tp)
                if partition is None or partition.leader_epoch != state.leader_epoch:
                    return [f"{tp}: broker {replica} has not the newest metadata"]
                if not partition.log.log_end_offset == partition.log.high_watermark == committed:
                    return [f"{tp}: broker {replica} has {partition.log.high_watermark} of {committed}"]
                if partition.is_leader and partition.log.last_stable_offset < committed:
                    return [f"{tp}: a transaction is open from {partition.log.last_stable_offset} on"]
        return []

    def _partition(self, node_id: int, tp: TopicPartition) -> Any:
        process = self.cluster.serving(node_id)
        return None if process is None else process.broker.replicas.topics.get(tp.topic, {}).get(tp.partition)

    def _what_is_missing(self) -> str:
        clients = [str(number) for number, task in enumerate(self._work) if not task.done()]
        readers = [f"{each.tp} is read up to {each.position}" for each in self._readers]
        return f"clients {','.join(clients) or 'have ended'}; {'; '.join([*self._lagging(), *readers])}"

    def _check_records(self) -> None:
        """What was acknowledged is there, once, in order; transactions are there or not."""
        found: dict[TopicPartition, dict[bytes, int]] = {}
        for tp, chain in self.oracle.committed.items():
            if tp.topic != TOPIC:
                continue
            offsets = found[tp] = {}
            for offset, value in visible(chain.batches):
                if value in offsets:
                    raise Violation("duplicate", f"{tp}: {value!r} is there twice")
                offsets[value] = offset
        self._check_acks(found)
        self._check_order(found)
        seen = {value: tp for tp, offsets in found.items() for value in offsets}
        for transaction in self.history.transactions:
            transaction.check(seen)
        for reader in self._readers:
            self._check_reader(reader, found.get(reader.tp, {}))

    def _check_acks(self, found: dict[TopicPartition, dict[bytes, int]]) -> None:
        for tp, values, offset in self.history.acks:
            for number, value in enumerate(values):
                there = found.get(tp, {}).get(value)
                if there is None:
                    raise Violation("durability", f"{tp}: {value!r} was acknowledged at {offset} and is lost")
                if offset >= 0 and there != offset + number:
                    text = f"{tp}: {value!r} was acknowledged at {offset + number}, is at {there}"
                    raise Violation("durability", text)

    def _check_reader(self, reader: Reader, found: dict[bytes, int]) -> None:
        """A consumer got every committed record, and nothing else."""
        if reader.tp in self.oracle.trimmed:
            return
        got, there = [tuple(each) for each in reader.read], sorted((offset, value) for value, offset in found.items())
        if got != there:
            text = f"{reader.tp}: not in the log {set(got) - set(there)}, not read {set(there) - set(got)}"
            raise Violation("reading", text)

    def _check_order(self, found: dict[TopicPartition, dict[bytes, int]]) -> None:
        for tp, offsets in found.items():
            last: dict[bytes, int] = {}
            for value, _ in sorted(offsets.items(), key=lambda item: item[1]):
                name, _, number = value.partition(b":")
                if int(number) <= last.get(name, 0) and name.decode() not in self.history.given_up:
                    raise Violation("order", f"{tp}: {value!r} comes after {last[name]}")
                last[name] = int(number)


def drawn(seed: int) -> Settings:
    """The settings of a seed."""
    return Settings.draw(Random(f"settings {seed}"))


def run(seed: int, settings: Settings | None = None, *, traced: bool = False) -> Outcome:
    """One history."""
    return World(seed, settings, traced=traced).run()
