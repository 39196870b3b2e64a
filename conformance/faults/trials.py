"""Trials: short scripts on three brokers, each at the one moment at which a broken promise shows.

A trial writes, freezes and kills by hand, notes in a history what it was told, and returns what does not fit. A broker
that keeps its promises gives none; each mutant of ``mutants.planted`` is caught by the trial that it names. What takes
longer than ``STUCK_S`` counts as an anomaly, ``stuck``.
"""

from __future__ import annotations

import contextlib
import signal
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from conformance import batches
from conformance.clusters import Cluster
from conformance.drivers import opened
from conformance.drivers.base import ClientError, Place
from conformance.faults import replicas, transactions
from conformance.faults.committed import end_offset, read_committed
from conformance.faults.history import Anomaly, PartitionHistory, Watermark
from conformance.faults.load import make_value, name_of, read_back
from conformance.faults.several import EAGER, Several
from conformance.faults.transactions import COMMITTED, OPEN, Transaction
from conformance.scenarios.support import until
from conformance.wire_client import Wire

STUCK = "stuck"
STUCK_S = 45.0
TOPIC = "trial"
PLACE = Place(TOPIC, 0)
#: A halted broker keeps its session, and its place in the ISR, unless a trial is about just that.
CALM: dict[str, object] = {
    **EAGER,
    "zookeeper_session_timeout_ms": 20_000,
    "replica_lag_time_max_ms": 30_000,
    "replica_fetch_wait_max_ms": 100,
    "replica_high_watermark_checkpoint_interval_ms": 60_000,
}
QUICK_LAG: dict[str, object] = {**CALM, "replica_lag_time_max_ms": 1_000, "zookeeper_session_timeout_ms": 120_000}


class Stuck(Exception):
    """What had to happen has not."""


class Trial(ABC):
    """One script; ``config`` is the brokers'."""

    config = CALM

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self.target = Several(cluster)
        self.history = PartitionHistory()
        self.number = 0
        self.found: list[Anomaly] = []

    def run(self) -> list[Anomaly]:
        """What does not fit."""
        try:
            self.target.make_topic(TOPIC, 1)
            self.script()
            self.await_whole()
            self.look()
        except Stuck as error:
            self.found.append(Anomaly(STUCK, str(error)))
        return self.found

    @abstractmethod
    def script(self) -> None:
        """What happens."""

    def look(self) -> None:
        """Reads the log and compares it with what was told, and the replicas with each other."""
        self.found += self.history.check(read_back(self.target, PLACE))  # type: ignore[arg-type]
        self.cluster.stop()
        log_dirs = {broker: self.cluster.log_dir(broker) for broker in self.cluster.ids}
        self.found += replicas.check(log_dirs, f"{TOPIC}-0")

    # -- what scripts are made of --------------------------------------------------------------------------

    def until(self, holds: Callable[[], object], what: str) -> None:
        """Waits; raises Stuck."""
        try:
            until(holds, what, STUCK_S)
        except AssertionError as error:
            raise Stuck(str(error)) from error

    def await_whole(self) -> None:
        """Until every replica is in sync."""
        self.until(lambda: quietly(self.target.is_whole), "all replicas in sync")

    def leader(self) -> int:
        """The leader, once there is one."""
        self.until(lambda: quietly(lambda: self.cluster.partitions(TOPIC)[0].leader > 0), "a leader")
        return self.cluster.partitions(TOPIC)[0].leader

    def followers(self) -> tuple[int, ...]:
        leader = self.leader()
        return tuple(broker for broker in self.cluster.ids if broker != leader)

    def values(self, count: int) -> list[bytes]:
        """The next values, noted as sent."""
        found = [make_value("trial", self.number + turn, 20) for turn in range(count)]
        self.number += count
        for value in found:
            self.history.send("trial", name_of(value))
        return found

    def note(self, values: list[bytes], row: Any) -> bool:
        """Takes in an answer; whether it was an ack."""
        if row.error_code == 0:
            for turn, value in enumerate(values):
                self.history.ack(row.base_offset + turn, name_of(value))
        return bool(row.error_code == 0)

    def write(self, count: int, **identity: int) -> None:
        """One batch, acked; where it is refused or not answered, other values are tried, unless it has a sequence."""
        values = self.values(count)

        def send() -> bool:
            nonlocal values
            with Wire(self.target.leader_of(PLACE), 10.0) as wire:
                if self.note(values, wire.produce(TOPIC, batches.batch(values, **identity))):
                    return True
            values = values if identity else self.values(count)
            return False

        self.until(lambda: quietly(send), "an ack")

    def try_to_write(self, leader: int, count: int, patience_s: float) -> bool:
        """One batch, which may be acked within that time, or not; whether it was."""
        values = self.values(count)
        data = {"name": TOPIC, "partition_data": [{"index": 0, "records": batches.batch(values)}]}
        with Wire(self.cluster.address(leader), patience_s + 2.0) as wire:
            timeout_ms = round(patience_s * 1_000)
            try:
                reply = wire.ask(
                    "Produce", 9, transactional_id=None, acks=-1, timeout_ms=timeout_ms, topic_data=[data]
                )
            except OSError:
                return False
        return self.note(values, reply.responses[0].partition_responses[0])

    def try_in_vain(self, leader: int) -> None:
        """Batches that cannot be acked. The first goes out to requests that wait, and lies before those who sleep."""
        for _ in range(3):
            self.try_to_write(leader, 2, 0.3)

    def read(self, leader: int, offset: int) -> None:
        """What a consumer is given from there on."""
        with Wire(self.cluster.address(leader), STUCK_S) as wire:
            row = wire.fetch(TOPIC, offset, max_wait_ms=200, min_bytes=1)
        for found, _, value in batches.rows(bytes(row.records or b"")):
            self.history.see(found, name_of(value or b""))

    def crash(self, *victims: int) -> None:
        """kill -9 of them at once."""
        for victim in victims:
            self.cluster.kill(victim, signal.SIGKILL)

    @contextlib.contextmanager
    def halted(self, *victims: int) -> Iterator[None]:
        """They do nothing meanwhile."""
        for victim in victims:
            self.cluster.halt(victim)
        try:
            yield
        finally:
            for victim in victims:
                self.cluster.resume(victim)


def quietly(look: Callable[[], bool]) -> bool:
    """What it says; False where nobody answers."""
    try:
        return look()
    except (OSError, KeyError, IndexError, AssertionError):
        return False


class FrozenFollowers(Trial):
    """Nobody has the records but the leader, which dies: they must not have been acked, or shown."""

    def script(self) -> None:
        self.write(5)
        leader, followers = self.leader(), self.followers()
        with self.halted(*followers):
            self.try_in_vain(leader)
            self.read(leader, 5)
            self.crash(leader)
        self.until(lambda: self.leader() != leader, "another leader")
        self.write(4)
        self.await_whole()
        self.write(2)


class OneFrozenFollower(Trial):
    """One of two followers has the records; the other one leads next."""

    def script(self) -> None:
        self.write(5)
        leader, (first, second) = self.leader(), self.followers()
        with self.halted(first):
            self.try_in_vain(leader)
            self.crash(leader, second)
        self.until(lambda: self.leader() == first, "the one that was frozen to lead")
        self.write(4)


class TooFew(Trial):
    """The leader alone is in sync, and dies: fewer than min.insync.replicas have what comes then (case 16)."""

    config = QUICK_LAG

    def script(self) -> None:
        self.write(5)
        leader, followers = self.leader(), self.followers()
        with self.halted(*followers):
            self.until(lambda: len(self.in_sync(leader)) == 1, "the followers to leave the ISR")
            self.try_in_vain(leader)
            self.crash(leader)
        self.until(lambda: self.leader() != leader or self.cluster.pid(leader), "a leader")
        self.await_whole()
        self.write(4)

    def in_sync(self, leader: int) -> tuple[int, ...]:
        """The ISR, as the leader's own broker has it."""
        with Wire(self.cluster.address(leader)) as wire:
            return tuple(wire.metadata(TOPIC).partitions[0].isr_nodes)


class Laggard(TooFew):
    """A follower is out of sync; those that are in sync die, and it must not lead (cases 15 and 27)."""

    def script(self) -> None:
        self.write(5)
        leader, (laggard, other) = self.leader(), self.followers()
        with self.halted(laggard):
            self.until(lambda: laggard not in self.in_sync(leader), "the laggard to leave the ISR")
            self.write(20)
            self.cluster.halt(other)
            self.cluster.halt(leader)
            self.crash(leader, other)
        self.await_whole()
        self.write(4)


class NoPower(Trial):
    """All brokers are killed at once, before anybody has written down the high watermark."""

    def script(self) -> None:
        self.write(5)
        self.write(20)
        self.crash(*self.cluster.ids)
        self.await_whole()
        self.write(4)


class Retry(Trial):
    """A batch that was acked is sent again: to the same leader, and to the next one (cases 31 and 32)."""

    def script(self) -> None:
        with Wire(self.target.leader_of(PLACE)) as wire:
            identity = {"producer_id": wire.new_producer_id(), "producer_epoch": 0}
        self.write(3, **identity, base_sequence=0)
        values = self.values(4)
        last = batches.batch(values, **identity, base_sequence=3)
        leader = self.leader()
        for _ in range(2):
            self.send(values, last)
        self.crash(leader)
        self.until(lambda: self.leader() != leader, "another leader")
        self.send(values, last)
        self.write(2, **identity, base_sequence=7)

    def send(self, values: list[bytes], batch: bytes) -> None:
        with Wire(self.target.leader_of(PLACE), STUCK_S) as wire:
            row = wire.produce(TOPIC, bytes(batch))
        if not self.note(values, row):
            raise Stuck(f"a retry was refused with error {row.error_code}")


class Order(Trial):
    """Five requests of two records each are in flight, all the time."""

    def script(self) -> None:
        with Wire(self.target.leader_of(PLACE), STUCK_S) as wire:
            waiting = []
            for _ in range(40):
                values = self.values(2)
                data = {"name": TOPIC, "partition_data": [{"index": 0, "records": batches.batch(values)}]}
                posted = wire.post(
                    "Produce", 9, transactional_id=None, acks=-1, timeout_ms=30_000, topic_data=[data]
                )
                waiting.append((posted, values))
                if len(waiting) == 5:
                    self.take(wire, *waiting.pop(0))
            for row in waiting:
                self.take(wire, *row)

    def take(self, wire: Wire, posted: int, values: list[bytes]) -> None:
        self.note(values, wire.reply("Produce", 9, posted).responses[0].partition_responses[0])


class Coordinator(Trial):
    """Offsets are committed, the last while the followers sleep; their coordinator dies (case 42)."""

    def script(self) -> None:
        mark = Watermark("the offset of trial")
        self.until(self.coordinating, "a coordinator")
        where = self.coordinating()
        self.until(lambda: quietly(lambda: self.commit(where, mark, 0, 10.0)), "a first commit")
        for offset in range(1, 10):
            assert self.commit(where, mark, offset, 10.0)
        self.found += mark.check(self.committed())
        others = [broker for broker in self.cluster.ids if broker != where]
        with self.halted(*others):
            for offset in (10, 11, 12):  # the first goes out to requests that wait
                with contextlib.suppress(OSError):
                    self.commit(where, mark, offset, 0.3)
            self.crash(where)
        self.until(lambda: self.coordinating() != where, "another coordinator")
        self.found += mark.check(self.committed())

    def coordinating(self) -> int:
        """The broker that coordinates, 0 where nobody does."""
        try:
            address = self.target.coordinator("trial")
        except OSError:
            return 0
        return next(broker for broker in self.cluster.ids if self.cluster.address(broker) == address)

    def commit(self, where: int, mark: Watermark, offset: int, patience_s: float) -> bool:
        row = {"partition_index": 0, "committed_offset": offset, "committed_leader_epoch": -1, "committed_metadata": ""}
        member = {"generation_id_or_member_epoch": -1, "member_id": "", "group_instance_id": None}
        topics = [{"name": TOPIC, "partitions": [row]}]
        mark.trying(offset)
        with Wire(self.cluster.address(where), patience_s) as wire:
            reply = wire.ask("OffsetCommit", 8, group_id="trial", topics=topics, **member)
        if reply.topics[0].partitions[0].error_code:
            return False
        mark.ack(offset)
        return True

    def committed(self) -> int:
        """What the coordinator says, once it can."""
        told: list[int] = []

        def ask() -> bool:
            topics = [{"name": TOPIC, "partition_indexes": [0]}]
            with Wire(self.target.coordinator("trial"), 10.0) as wire:
                reply = wire.ask("OffsetFetch", 7, group_id="trial", topics=topics, require_stable=True)
            if reply.error_code == 0 and reply.topics[0].partitions[0].error_code == 0:
                told.append(int(reply.topics[0].partitions[0].committed_offset))
            return bool(told)

        self.until(lambda: quietly(ask), "the committed offset")
        return told[0]


class TransactionTrial(Trial):
    """Transactions over three partitions, by librdkafka; all that was committed is read back."""

    client = "confluent"
    places = tuple(Place("ledger", number) for number in range(3))

    def run(self) -> list[Anomaly]:
        self.target.make_topic("ledger", len(self.places))
        self.told: list[Transaction] = []
        return super().run()

    def producer(self) -> Any:
        """A new one, under the only transactional id."""
        made = opened(self.client).producer(self.cluster.bootstrap, transactional_id="trial")
        made.init_transactions()
        return made

    def begin(self, producer: Any) -> Transaction:
        """A transaction with a record in every partition, all of them written."""
        transaction = Transaction(f"trial.{len(self.told)}")
        self.told.append(transaction)
        producer.begin()
        for place in self.places:
            value = f"{transaction.name}.{place.partition}".encode()
            transaction.sent.append((place, value))
            producer.send(place.topic, value, partition=place.partition)
        producer.flush()
        return transaction

    def look(self) -> None:
        self.until(lambda: quietly(self.is_stable), "no transaction is open")
        logs = {place: read_committed(self.target, place) for place in self.places}
        self.found += transactions.check(self.told, logs)

    def is_stable(self) -> bool:
        """Whether the last stable offset of every partition is its high watermark."""
        return all(end_offset(self.target, each, 0) == end_offset(self.target, each, 1) for each in self.places)


class CommitAndAbort(TransactionTrial):
    """Some are committed, some aborted; a consumer of committed records looks on, and one transaction is open."""

    def script(self) -> None:
        with self.producer() as producer:
            for turn in range(6):
                transaction = self.begin(producer)
                if turn % 2:
                    producer.abort()
                    continue
                producer.commit()
                transaction.outcome = COMMITTED
            open_one = self.begin(producer)
            seen = {place: self.shown(place) for place in self.places}
            shown = {value for rows in seen.values() for _, value in rows}
            open_values = [row for row in open_one.sent if row[1] in shown]
            self.found += [Anomaly(transactions.ABORTED_READ, f"{row} of an open transaction") for row in open_values]
            producer.abort()
            assert open_one.outcome == OPEN

    def shown(self, place: Place) -> list[tuple[int, bytes]]:
        return read_committed(self.target, place)


class Offsets(TransactionTrial):
    """Offsets that are committed in a transaction are where the group goes on (case 43)."""

    def script(self) -> None:
        self.write(10)
        options = {"group_id": "copier", "isolation_level": "read_committed"}
        with self.producer() as producer, opened(self.client).consumer(self.cluster.bootstrap, **options) as consumer:
            consumer.assign({PLACE: 0})
            producer.begin()
            producer.send_offsets(consumer, {PLACE: 7})
            producer.commit()
            self.until(lambda: quietly(self.is_stable), "no transaction is open")
            found = consumer.committed([PLACE])[PLACE]
        if found != 7:
            self.found.append(Anomaly("went back", f"the group is at {found} after 7 was committed"))


class Zombie(TransactionTrial):
    """A producer sleeps, another takes its id; what the first one does then must never be seen (case 33)."""

    def script(self) -> None:
        with self.producer() as zombie:
            self.begin(zombie)
            zombie.commit()
            self.told[-1].outcome = COMMITTED
            with self.producer() as heir:
                self.begin(heir)
                heir.commit()
                self.told[-1].outcome = COMMITTED
                with contextlib.suppress(ClientError):
                    self.begin(zombie)
                    zombie.commit()


class Prepared(TransactionTrial):
    """The coordinator dies when the outcome is written, and before a broker that sleeps has its marker (case 36)."""

    config = QUICK_LAG

    def script(self) -> None:
        with self.producer() as producer:
            self.begin(producer)
            where = self.broker_at(self.target.coordinator("trial", 1))
            leaders = {row.leader for row in self.cluster.partitions("ledger").values()}
            sleeper = next(broker for broker in sorted(leaders) if broker != where)
            with self.halted(sleeper):
                producer.commit()
                self.told[-1].outcome = COMMITTED
                self.crash(where)
                time.sleep(0.1)

    def broker_at(self, address: tuple[str, int]) -> int:
        return next(broker for broker in self.cluster.ids if self.cluster.address(broker) == address)


TRIALS: dict[str, type[Trial]] = {
    "frozen followers": FrozenFollowers,
    "one frozen follower": OneFrozenFollower,
    "too few": TooFew,
    "laggard": Laggard,
    "no power": NoPower,
    "retry": Retry,
    "order": Order,
    "coordinator": Coordinator,
    "transactions": CommitAndAbort,
    "offsets": Offsets,
    "zombie": Zombie,
    "prepared": Prepared,
}


def run(name: str, folder: Path, environment: dict[str, str] | None = None) -> list[Anomaly]:
    """What a trial finds on brokers with these variables in their environment."""
    kind = TRIALS[name]
    cluster = Cluster(folder / "data", 3, **kind.config)
    cluster.environment = environment or {}
    with cluster:
        return kind(cluster).run()
