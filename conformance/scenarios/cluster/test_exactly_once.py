"""Applications consume, transform and produce exactly once while clients, leaders and coordinators are killed: S45."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from conformance.conftest import Counted
from conformance.drivers.base import Place
from conformance.faults.loads.cluster_target import ClusterTarget
from conformance.faults.loads.transaction_load import Application, Plan, Transactions
from conformance.faults.test_kill import seed
from conformance.scenarios.by_spark import BySpark
from conformance.scenarios.cluster.brokers import OpenCluster
from harness.waiting import until
from harness.witnesses import used

__all__ = ["seed"]
#: The number of transactions between two faults.
TURN = 40
APPLICATIONS = (Application("confluent", "classic", 1), Application("pyclient", "consumer", 1))


def test_s45_each_record_is_transformed_once_despite_kills_of_client_leader_and_coordinator(
    embedded: OpenCluster, tmp_path: Path, seed: int, by_spark: BySpark, counted: Counted
) -> None:
    """Each victim is a broker that the applications currently need. It is back when all replicas are in sync again."""
    several = ClusterTarget(embedded)
    plan = Plan(0, 0, ("confluent",), APPLICATIONS)
    load = Transactions(several, seed, plan, tmp_path)
    used("librdkafka")
    used("pyclient")
    roles = [f"{application.name}0" for application in APPLICATIONS]
    victims: dict[str, Callable[[], None]] = {
        "client": lambda: _kill_client(load, roles[0]),
        "leader of the input": lambda: _kill(embedded, several.leader_of(Place("input", 0))),
        "other client": lambda: _kill_client(load, roles[1]),
        "coordinator of the transactions": lambda: _kill(embedded, several.coordinator(roles[0], 1)),
        "coordinator of the group": lambda: _kill(embedded, several.coordinator(APPLICATIONS[1].name)),
        "leader of the output": lambda: _kill(embedded, several.leader_of(Place(APPLICATIONS[1].target, 0))),
    }
    try:
        load.begin()
        for kill in victims.values():
            kill()
            load.await_transactions(load.committed() + TURN)
            embedded.await_sync(*load.topics)
        load.end()
        report = load.check()
    finally:
        load.close()
    assert not report.anomalies, report
    source = _texts(by_spark, embedded, "input", 0)
    for application in APPLICATIONS:
        assert _texts(by_spark, embedded, application.target, 1) == source
    counted(
        ", ".join(victims),
        kills=len(victims),
        transactions=report.words["committed"],
        records=report.records,
        lost=0,
        doubled=0,
    )


def _kill_client(load: Transactions, role: str) -> None:
    """Kills a client by kill -9; another one takes its transactional id over."""
    load.workers[role].kill()
    load.revive()


def _kill(cluster: OpenCluster, address: tuple[str, int]) -> None:
    broker = next(each for each in cluster.ids if cluster.address(each) == address)
    before = cluster.pid(broker)
    cluster.kill(broker)
    until(lambda: cluster.pid(broker) not in (0, before), "another process")


def _texts(by_spark: BySpark, cluster: OpenCluster, topic: str, words: int) -> list[tuple[int, str]]:
    """Returns partitions and committed values; the applications put a word before each value."""
    rows = by_spark(cluster, topic, {"kafka.isolation.level": "read_committed"})
    return [(row.partition, (row.value or b"").decode().split(" ", words)[-1]) for row in rows]
