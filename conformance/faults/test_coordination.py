"""Kills and halts what holds brokers together: controllers, ZooKeeper servers, the brokers themselves.

They run cases 22, 23, 24 on processes under load. Acked records stay, once and in order.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from conformance.drivers.base import Place
from conformance.faults.checkers.history import PartitionHistory
from conformance.faults.loads.load import IdempotentWriter, read_back
from harness.servers.clusters import Cluster
from harness.servers.ensemble import Ensemble
from harness.waiting import until

pytestmark = [pytest.mark.ours, pytest.mark.nightly]

PARTITIONS = 4
SESSION_MS = 3_000
CONFIG = {
    "zookeeper_session_timeout_ms": SESSION_MS,
    "replica_lag_time_max_ms": 5_000,
    "group_initial_rebalance_delay_ms": 0,
}


class Loaded:
    """A cluster with a writer on a topic of three replicas."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self.topic = "t"
        cluster.create_topic(self.topic, PARTITIONS, 3, min_insync_replicas=2)
        self.places = {Place(self.topic, number): PartitionHistory() for number in range(PARTITIONS)}
        self.writer = IdempotentWriter(
            cluster, "writer", 1, self.places, socket_timeout_ms=2_000, linger_ms=2, max_in_flight=5
        )
        self.writer.start()
        self.goes_on()

    def goes_on(self, partitions: range = range(PARTITIONS)) -> None:
        """Waits until each of these partitions has acked another record."""
        histories = [self.places[Place(self.topic, number)] for number in partitions]
        before = [len(history.acked) for history in histories]
        until(
            lambda: all(len(each.acked) > count for each, count in zip(histories, before, strict=True)),
            "acks in every partition",
        )

    def halt(self, victim: int) -> None:
        """Halts a broker until others have taken over, then resumes it."""
        self.cluster.halt(victim)
        until(lambda: self.cluster.controller(without=victim) not in (victim, -1), "another controller")
        until(lambda: victim not in self._leaders(victim), "other leaders")
        self.goes_on()
        self.cluster.resume(victim)
        until(self.is_whole, "all replicas in sync")
        self.goes_on()

    def _leaders(self, without: int) -> set[int]:
        return {row.leader for row in self.cluster.partitions(self.topic, without).values()}

    def is_whole(self) -> bool:
        return self.cluster.is_in_sync(self.topic)

    def finish(self) -> None:
        """Stops the writer and checks the whole history of each partition."""
        self.writer.stop()
        until(self.is_whole, "all replicas in sync")
        for place, history in self.places.items():
            anomalies = history.check(read_back(self.cluster, place))
            assert not anomalies, anomalies[:10]


Start = Callable[..., Loaded]


@pytest.fixture
def zookeeper(tmp_path: Path) -> Iterator[Ensemble]:
    with Ensemble(tmp_path) as running:
        yield running


@pytest.fixture
def three_servers(tmp_path: Path) -> Iterator[Ensemble]:
    with Ensemble(tmp_path, 3) as running:
        yield running


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    """Starts three brokers and the load, on the embedded store or on the ensemble given."""
    with ExitStack() as running:

        def on(servers: Ensemble | None = None) -> Loaded:
            place = f"{servers.hosts}/kafka" if servers else None
            return Loaded(running.enter_context(Cluster(tmp_path / "data", 3, place, **CONFIG)))

        yield on


@pytest.mark.campaign
@pytest.mark.parametrize("place", ["embedded", "three_servers"])
def test_case_22_a_halted_broker_loses_its_session_and_returns_with_a_new_epoch(
    start: Start, place: str, request: pytest.FixtureRequest
) -> None:
    loaded = start(None if place == "embedded" else request.getfixturevalue(place))
    for _ in range(3):
        loaded.halt(until(lambda: max(loaded.cluster.controller(), 0), "a controller"))
    loaded.finish()


@pytest.mark.campaign
def test_case_23_leaders_serve_without_zookeeper_and_recover_when_it_returns(start: Start, zookeeper: Ensemble) -> None:
    loaded = start(zookeeper)
    before = loaded.cluster.partitions("t")
    zookeeper.stop()
    time.sleep(SESSION_MS / 1_000)
    loaded.goes_on()
    assert loaded.cluster.partitions("t") == before
    zookeeper.start()
    victim = before[0].leader
    loaded.cluster.kill(victim)
    loaded.goes_on()
    until(loaded.is_whole, "all replicas in sync")
    loaded.finish()


@pytest.mark.campaign
def test_case_24_a_controller_is_elected_although_zookeeper_restarts(start: Start, three_servers: Ensemble) -> None:
    loaded = start(three_servers)
    for _ in range(5):
        server = three_servers.leader()
        server.kill()
        loaded.cluster.kill(loaded.cluster.controller())
        loaded.goes_on()
        server.start()
        three_servers.wait_for(server)
        until(loaded.is_whole, "all replicas in sync")
    loaded.finish()
