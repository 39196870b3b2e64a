"""The parts of a trial (``trials``): three brokers, a topic, a history, and the means to freeze and kill."""

from __future__ import annotations

import contextlib
import signal
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from typing import Any, Unpack

from conformance.data import batches
from conformance.drivers.base import Place
from conformance.faults.checkers import replicas
from conformance.faults.checkers.history import Anomaly, PartitionHistory
from conformance.faults.loads.cluster_target import EAGER, ClusterTarget
from conformance.faults.loads.load import make_value, name_of, read_back
from harness.faults.hanging import hanging
from harness.protocol.wire_client import Wire
from harness.servers.clusters import Cluster
from harness.waiting import until

STUCK = "stuck"
STUCK_S = 45.0
TOPIC = "trial"
PLACE = Place(TOPIC, 0)
#: A halted broker keeps its session and its place in the ISR, except in trials about these.
CALM: dict[str, object] = {
    **EAGER,
    "zookeeper_session_timeout_ms": 20_000,
    "replica_lag_time_max_ms": 30_000,
    "replica_fetch_wait_max_ms": 100,
    "replica_high_watermark_checkpoint_interval_ms": 60_000,
}
QUICK_LAG: dict[str, object] = {**CALM, "replica_lag_time_max_ms": 1_000, "zookeeper_session_timeout_ms": 120_000}


class Stuck(Exception):
    """Raised if an event that a trial requires has not happened in time."""


class Trial(ABC):
    """A script; ``config`` configures the brokers."""

    config = CALM

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self.target = ClusterTarget(cluster)
        self.history = PartitionHistory()
        self.number = 0
        self.found: list[Anomaly] = []

    def run(self) -> list[Anomaly]:
        """Runs the script and returns the anomalies."""
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
        """Does the actions of the trial."""

    def look(self) -> None:
        """Compares the log with the history, and the replicas with each other."""
        self.found += self.history.check(read_back(self.target, PLACE))
        self.cluster.stop()
        log_dirs = {broker: self.cluster.log_dir(broker) for broker in self.cluster.ids}
        self.found += replicas.check(log_dirs, f"{TOPIC}-0")

    # -- what scripts are made of --------------------------------------------------------------------------

    def until(self, holds: Callable[[], object], what: str) -> None:
        """Waits for a condition; raises Stuck."""
        try:
            until(holds, what, STUCK_S)
        except AssertionError as error:
            raise Stuck(str(error)) from error

    def await_whole(self) -> None:
        """Waits until every replica is in sync."""
        self.until(lambda: quietly(self.target.is_whole), "all replicas in sync")

    def leader(self) -> int:
        """Waits for a leader and returns it."""
        self.until(lambda: quietly(lambda: self.cluster.partitions(TOPIC)[0].leader > 0), "a leader")
        return self.cluster.partitions(TOPIC)[0].leader

    def followers(self) -> tuple[int, ...]:
        leader = self.leader()
        return tuple(broker for broker in self.cluster.ids if broker != leader)

    def values(self, count: int) -> list[bytes]:
        """Returns the next values, noted as sent."""
        found = [make_value("trial", self.number + turn, 20) for turn in range(count)]
        self.number += count
        for value in found:
            self.history.send("trial", name_of(value))
        return found

    def note(self, values: list[bytes], row: Any) -> bool:
        """Notes an answer. Returns whether it was an ack."""
        if row.error_code == 0:
            for turn, value in enumerate(values):
                self.history.ack(row.base_offset + turn, name_of(value))
        return bool(row.error_code == 0)

    def write(self, count: int, /, **identity: Unpack[batches.Fields]) -> None:
        """Writes one batch until it is acked; after a failure it tries other values, except for a batch with a
        sequence.
        """
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
        """Writes one batch within a time limit. Returns whether it was acked."""
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
        """Writes batches that cannot be acked. Waiting fetches take the first one, which the halted brokers read when
        they resume.
        """
        for _ in range(3):
            self.try_to_write(leader, 2, 0.3)

    def read(self, leader: int, offset: int) -> None:
        """Notes what a consumer gets from that offset."""
        with Wire(self.cluster.address(leader), STUCK_S) as wire:
            row = wire.fetch(TOPIC, offset, max_wait_ms=200, min_bytes=1)
        for found, _, value in batches.rows(bytes(row.records or b"")):
            self.history.see(found, name_of(value or b""))

    def crash(self, *victims: int) -> None:
        """Kills brokers at once by kill -9."""
        for victim in victims:
            self.cluster.kill(victim, signal.SIGKILL)

    @contextlib.contextmanager
    def halted(self, *victims: int) -> Iterator[None]:
        """Halts the brokers inside the block."""
        for victim in victims:
            self.cluster.halt(victim)
        try:
            yield
        finally:
            for victim in victims:
                self.cluster.resume(victim)

    @contextlib.contextmanager
    def hung(self, *victims: int) -> Iterator[None]:
        """Halts brokers without anyone noticing, unlike SIGSTOP, which the supervisor detects soon."""
        with contextlib.ExitStack() as held:
            for victim in victims:
                held.enter_context(hanging(self.cluster.pid(victim)))
            yield


def quietly(look: Callable[[], bool]) -> bool:
    """Returns an answer, or False if there is none."""
    try:
        return look()
    except (OSError, KeyError, IndexError, AssertionError):
        return False
