"""One history: a cluster, its clients and its faults. At the end, the faults are repaired and everything is checked."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random
from typing import Any

from proofs.simulator.clients.client import Client
from proofs.simulator.clients.groups import Groups
from proofs.simulator.clients.guests import Guests
from proofs.simulator.clients.readers import Reader
from proofs.simulator.clients.transactions import TransactionalWriter
from proofs.simulator.clients.writers import Writer
from proofs.simulator.faults.administrator import CONFIGS, DOOMED, MOST_PARTITIONS
from proofs.simulator.faults.faults import Faults
from proofs.simulator.faults.stranger import VICTIM
from proofs.simulator.machines.cluster import Cluster
from proofs.simulator.machines.environment import Patch, environment, patched
from proofs.simulator.machines.network import Network, Pace
from proofs.simulator.machines.scheduler import ProcessLoop, Scheduler
from proofs.simulator.machines.store import SimulatedStore, Tree
from proofs.simulator.machines.threads import Threads
from proofs.simulator.oracle.chain import Chain
from proofs.simulator.oracle.history import SAFE, History
from proofs.simulator.oracle.incarnations import real
from proofs.simulator.oracle.oracle import Oracle, Violation
from proofs.simulator.oracle.restlessness import Restlessness
from proofs.simulator.records import Records
from proofs.simulator.settings import (
    GROUPS_CHANCE,
    GROUPS_IN,
    IN_USE,
    RIGHTS_CHANCE,
    RIGHTS_IN,
    ROOM_CHANCE,
    Settings,
)
from pybroker.cluster.decisions.plan import NewTopic
from pybroker.cluster.metadata.image import OFFSETS_TOPIC, TRANSACTIONS_TOPIC
from pybroker.log import truncation
from pybroker.log.dirs.log_dir import LogDir
from pybroker.log.log import Log
from pybroker.log.producers.producer_state import ProducerStates
from pybroker.replication.partition import Partition
from pybroker.replication.roles import Roles
from pybroker.topic_partition import TopicPartition
from pyclient.protocol.errors import KafkaStorageError

START_S = 20.0
STEP_S = 0.02
QUICK = Pace(slow_chance=0.0)
SETTLE_S = 60.0
LONGEST_START_S = 3.0
FACTOR = 3
ADRIFT_S = 3.0
STOP_S = 30.0
WEIGHT = 300
"""The size of records in bytes, if segments must stay short."""
FIRST_CLIENT = 100


@dataclass(slots=True)
class Outcome:
    """The outcome of a seed. ``invariant`` is "" if all held."""

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
    """The simulated world of one seed: cluster, clients and oracle."""

    def __init__(self, seed: int, settings: Settings | None = None, *, traced: bool = False) -> None:
        self.seed = seed
        self.settings = settings or drawn(seed)
        self.scheduler = Scheduler(self._rng("scheduler"))
        if self.settings.has_threads:
            self.scheduler.threads = Threads(self.scheduler, self._rng("threads"))
        network = Network(self.scheduler, self._rng("network"), QUICK)
        store = SimulatedStore(
            self.scheduler, network, Tree(), self.settings.session_timeout_s, knows_death=self.settings.knows_death
        )
        self.cluster = Cluster(self.scheduler, network, store, self._rng("disk"), self.settings.broker)
        self.cluster.trace = [] if traced else None
        self.oracle = Oracle(self.cluster)
        self.history = History(self.settings)
        self.history.is_over = self.oracle.keeping.is_hopeless
        self.faults = Faults(self.cluster, self.settings, self._rng("faults"))
        self.cluster.watcher = self.oracle
        self.restlessness = Restlessness(self.oracle)
        store.asked, store.replaced = self.restlessness.asked, self.restlessness.store_replaced
        store.on_write = self.oracle.store_changed
        self.scheduler.after_event = self.oracle.check
        self.scheduler.on_failure = self._on_failure
        self._work: list[asyncio.Task[None]] = []
        self._waiting = 0
        self._readers: list[Reader] = []
        self._groups = Groups(self.settings, self.oracle, lambda: self.faults.has_ended)
        self.groups = self._groups.oracle
        self.guests: Guests | None = None

    def _rng(self, purpose: str) -> Random:
        return Random(f"{purpose} {self.seed}")

    def _on_failure(self, loop: ProcessLoop | None, error: BaseException) -> None:
        if isinstance(error, Violation):
            raise error
        raise Violation("crash", f"{loop}: {type(error).__name__}: {error}") from error

    def run(self) -> Outcome:
        """Runs the history."""
        outcome = Outcome(self.seed)
        logging.disable(logging.CRITICAL)
        cut = truncation._ends_at
        oracle = self.oracle

        def ends_at(log: Log, offset: int, producers: ProducerStates | None) -> None:
            oracle.was_cut(log, offset)
            cut(log, offset, producers)

        fail = LogDir.fail

        def look_and_fail(log_dir: LogDir, error: OSError, doing: str) -> KafkaStorageError:
            oracle.dir_fails(log_dir)
            return fail(log_dir, error, doing)

        withdraw = Roles.withdraw

        def look_and_withdraw(roles: Roles, partition: Partition) -> None:
            loop = self.scheduler.current
            assert loop is not None
            oracle.look_before_end(loop.machine.process)
            withdraw(roles, partition)

        patches: list[Patch] = [
            (truncation, "_ends_at", ends_at),
            (LogDir, "fail", look_and_fail),
            (Roles, "withdraw", look_and_withdraw),
        ]
        try:
            with environment(self.scheduler, self.seed), patched(patches):
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
        self.faults.stranger.make_backup()
        self._create_topics()
        self._start_clients()
        self.cluster.network.pace = Pace(slow_chance=self.settings.slow_chance, slow_s=self.settings.slow_s)
        self.faults.begin()
        self.scheduler.run(self.scheduler.now + self.settings.duration_s)
        self.cluster.network.pace = QUICK
        self.faults.end()
        if self.settings.loses_store:
            self._restart()
        else:
            self._settle()
            self.oracle.check_end()
            self._check_factor()
            Records(self.history, self.oracle, self._readers).check()
            if self.settings.has_groups:
                self._audit()
        if self.settings.is_stopped:
            self._stop()
        self.oracle.check()
        self.oracle.keeping.check_end()
        self.scheduler.check_tasks()

    def _start(self) -> None:
        for node_id in range(1, self.settings.brokers + 1):
            self.oracle.keeping.watch(self.cluster.add_machine(node_id))
            if self.settings.room != "first start":
                self.cluster.start(node_id)
        if self.settings.room == "first start":
            self._start_in_a_crowd()
        everybody = self.settings.brokers

        def is_up() -> bool:
            brokers = list(self.cluster.brokers())
            return len(brokers) == everybody and all(len(b.metadata.image.brokers) == everybody for b in brokers)

        if not self._wait(START_S, is_up):
            raise Violation("settles", "the brokers do not start")

    def _start_in_a_crowd(self) -> None:
        """Starts one broker after the other, while clients already want a coordinator."""
        rng = self._rng("crowd")
        for node_id in self.cluster.machines:
            self.scheduler.after(rng.random() * LONGEST_START_S, self.cluster.start, node_id)
        for _ in range(50):
            self.scheduler.after(rng.random() * 2 * LONGEST_START_S, self._want_coordinator)

    def _want_coordinator(self) -> None:
        self.faults.ask_controller(lambda controller: controller.auto_creation.ensure_internal(TRANSACTIONS_TOPIC))

    def _check_factor(self) -> None:
        """Checks that the partitions of internal topics have at least ``FACTOR`` replicas."""
        for tp, state in self.oracle.authority.items():
            if tp.topic == TRANSACTIONS_TOPIC and len(state.replicas) < FACTOR:
                raise Violation("factor", f"{tp} has {len(state.replicas)} replicas")

    def _create_topics(self) -> None:
        settings = self.settings
        configs = tuple(settings.topic().items())
        factor = min(FACTOR, settings.brokers)
        topics = [NewTopic(SAFE, settings.partitions, factor, configs=configs)]
        if settings.room == "topic nodes":
            topics.append(NewTopic(VICTIM, 1, factor, configs=configs))
        if settings.room == "topics":
            topics.append(NewTopic(DOOMED, 1, factor, configs=CONFIGS))
        own = {SAFE: settings.least_min_isr, VICTIM: settings.least_min_isr, DOOMED: 1}
        self.oracle.min_isr = {**own, TRANSACTIONS_TOPIC: 2, OFFSETS_TOPIC: settings.least_offsets_min_isr}
        for broker in self.cluster.brokers():
            if broker.controller.is_controller:
                broker.process.loop.start(broker.controller.create_topics(topics))
                if settings.transactional:
                    broker.process.loop.start(broker.controller.auto_creation.ensure_internal(TRANSACTIONS_TOPIC))
                if settings.has_groups:
                    broker.process.loop.start(broker.controller.auto_creation.ensure_internal(OFFSETS_TOPIC))
        wanted = len(topics) + bool(settings.transactional) + settings.has_groups

        def are_there() -> bool:
            return all(len(broker.metadata.image.topics) == wanted for broker in self.cluster.brokers())

        if not self._wait(START_S, are_there):
            raise Violation("settles", "creating the topics took too long")

    def _others(self) -> list[TopicPartition]:
        """Returns the partitions of topics other than ``SAFE``, which may lose something."""
        if self.settings.room == "topics":
            return [TopicPartition(DOOMED, index) for index in range(MOST_PARTITIONS)]
        return [TopicPartition(VICTIM, 0)] if self.settings.room == "topic nodes" else []

    def _start_clients(self) -> None:
        settings, rng = self.settings, self._rng("clients")
        partitions = [TopicPartition(SAFE, index) for index in range(settings.partitions)]
        for number in range(settings.writers + settings.weak_writers):
            client = self._client(rng)
            acks = -1 if number < settings.writers else 1
            weight = WEIGHT if settings.room == "threads" else 0
            writer = Writer(client, self.history, rng.choice(partitions), f"w{number}", acks=acks, weight=weight)
            self._work.append(client.loop.start(writer.run(settings.batches, settings.pause_s)))
        for tp in self._others():
            client = self._client(rng)
            writer = Writer(client, self.history, tp, f"{tp}", weight=WEIGHT)
            self._work.append(client.loop.start(writer.run(settings.batches, settings.pause_s)))
        for number in range(settings.transactional):
            for owner in range(1 + settings.has_zombies):
                client = self._client(rng)
                name = f"x{number}.{owner}"
                begin = TransactionalWriter(client, self.history, partitions, f"id{number}", name)
                self.scheduler.after(owner * rng.random() * settings.duration_s, self._begin, client, begin)
                self._waiting += 1
        if settings.has_groups:
            self._work += self._groups.start(self._client, rng)
        if settings.guests:
            self.guests = Guests(self._client(rng), self._client(rng), self.history, rng.choice(partitions))
            self._work += self.guests.start(settings.guests, settings.pause_s)
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

    def _restart(self) -> None:
        """Kills and starts every broker after the store was replaced. Files that nobody needs would disappear then."""
        self.scheduler.run(self.scheduler.now + ADRIFT_S)
        for node_id in self.cluster.machines:
            self.cluster.kill(node_id)
            self.cluster.start(node_id)
        self.scheduler.run(self.scheduler.now + ADRIFT_S)

    def _stop(self) -> None:
        """Stops every running broker, and checks that it stops."""
        serving = [broker.node_id for broker in self.cluster.brokers()]
        for node_id in serving:
            self.cluster.stop(node_id)

        def have_stopped() -> bool:
            return not any(self.cluster.serving(node_id) for node_id in serving)

        if not self._wait(STOP_S, have_stopped, mends=False):
            left = [node_id for node_id in serving if self.cluster.machines[node_id].process is not None]
            raise Violation("stops", f"brokers {left} of {serving} do not stop")

    def _settle(self) -> None:
        """Waits at the end until all clients have ended and all replicas are in sync and complete."""
        if not self._wait(SETTLE_S, self._has_settled):
            raise Violation("settles", self._what_is_missing())
        for task in self._work:
            error = task.exception()
            if error is not None:
                raise error

    def _audit(self) -> None:
        """Reads the committed offsets of the groups."""
        audits = self._groups.audit(self._client, self._rng("audit"))
        if not self._wait(SETTLE_S, lambda: all(audit.done() for audit in audits)):
            raise Violation("settles", "no coordinator returns the commits")
        for audit in audits:
            audit.result()

    def _wait(self, timeout_s: float, holds: Callable[[], bool], *, mends: bool = True) -> bool:
        """Lets time pass until ``holds()``. Returns False if that takes too long. ``mends``: once faults have ended, it
        restarts stopped brokers.
        """
        until = self.scheduler.now + timeout_s
        while self.scheduler.now < until:
            self.scheduler.run(self.scheduler.now + STEP_S)
            if holds():
                return True
            if mends and self.faults.has_ended:
                self.faults.mend()
        return False

    def _has_settled(self) -> bool:
        if self._waiting or not all(task.done() for task in self._work) or self._lagging():
            return False
        if self.guests is not None and self.guests.undecided():
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
                    return [f"{tp}: broker {replica} does not have the newest metadata"]
                if not partition.log.log_end_offset == partition.log.high_watermark == committed:
                    return [f"{tp}: broker {replica} has {partition.log.high_watermark} of {committed}"]
                if partition.is_leader and partition.log.last_stable_offset < committed:
                    return [f"{tp}: a transaction is open from {partition.log.last_stable_offset} on"]
        return []

    def _partition(self, node_id: int, tp: TopicPartition) -> Any:
        process = self.cluster.serving(node_id)
        if process is None:
            return None
        name, index = real(tp)
        found = process.broker.replicas.partitions.topics.get(name, {}).get(index)
        return found if found is not None and found.topic_id == self.oracle.incarnations.id_of(tp) else None

    def _what_is_missing(self) -> str:
        clients = [str(number) for number, task in enumerate(self._work) if not task.done()]
        readers = [f"{each.tp} is read up to {each.position}" for each in self._readers]
        undecided = self.guests.undecided() if self.guests is not None else ""
        return f"clients {','.join(clients) or 'have ended'}; {'; '.join([*self._lagging(), *readers, undecided])}"


def drawn(seed: int, room: str | None = None) -> Settings:
    """Draws the settings of a seed. ``room``: one of ``ROOMS``, or "" for none; by default the seed draws it."""
    settings = Settings.draw(Random(f"settings {seed}"))
    rng = Random(f"room {seed}")
    is_drawn = room is None
    if room is None:
        room = rng.choice(IN_USE) if IN_USE and rng.random() < ROOM_CHANCE else ""
    settings = settings.in_room(room, rng) if room else settings
    rng = Random(f"groups {seed}")
    has_groups = is_drawn and room in GROUPS_IN and rng.random() < GROUPS_CHANCE
    settings = settings.with_groups(rng) if has_groups else settings
    rng = Random(f"rights {seed}")
    has_rights = is_drawn and room in RIGHTS_IN and rng.random() < RIGHTS_CHANCE
    return settings.with_rights(rng) if has_rights else settings


def run(seed: int, settings: Settings | None = None, *, traced: bool = False) -> Outcome:
    """Runs the history of one seed."""
    return World(seed, settings, traced=traced).run()


def run_in(room: str, seed: int) -> Outcome:
    """Runs one history with the faults of that room."""
    return run(seed, drawn(seed, room))
