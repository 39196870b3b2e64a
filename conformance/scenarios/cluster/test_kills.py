"""Kills brokers again and again while every client writes and reads: S31."""

from __future__ import annotations

import random
import signal

import pytest

from conformance.conftest import Counted
from conformance.scenarios.by_spark import BySpark
from conformance.scenarios.cluster.brokers import OpenCluster
from conformance.scenarios.cluster.traffic import traffic
from harness.waiting import until

FEW, SOME, MANY = 2, 15, 100


LONG = [pytest.mark.campaign, pytest.mark.timeout(3_600)]
ROW = [*LONG, pytest.mark.row]


@pytest.mark.parametrize(
    ("coordination", "kills"),
    [
        ("embedded", FEW),
        pytest.param("embedded", SOME, marks=ROW),
        pytest.param("on_zookeeper", SOME, marks=ROW),
        pytest.param("embedded", MANY, marks=LONG),
        pytest.param("on_zookeeper", MANY, marks=LONG),
    ],
)
def test_s31_with_acks_all_and_two_in_sync_replicas_no_kill_loses_an_acknowledged_record(
    request: pytest.FixtureRequest, coordination: str, topic: str, kills: int, by_spark: BySpark, counted: Counted
) -> None:
    """Every few seconds the next broker dies, once all replicas are in sync and each client has progressed."""
    cluster: OpenCluster = request.getfixturevalue(coordination)
    replicas = {0: (1, 2, 3), 1: (2, 3, 1), 2: (3, 1, 2), 3: (1, 3, 2)}
    cluster.place_topic(topic, replicas, min_insync_replicas=2)
    dice = random.Random(kills)
    with traffic(cluster, topic) as flowing:
        for _ in range(kills):
            victim = dice.choice(cluster.ids)
            before = cluster.pid(victim)
            cluster.kill(victim, dice.choice([signal.SIGKILL, signal.SIGKILL, signal.SIGTERM]))
            flowing.goes_on()
            until(lambda: cluster.pid(victim) not in (0, before), "another process")  # noqa: B023
            cluster.await_sync(topic)
        acked = flowing.finish()
    rows = by_spark(cluster, topic)
    assert len({(row.partition, row.value) for row in rows}) == len(rows) == acked
    counted(cluster.kind, kills=kills, acked=acked, lost=0, read_by_spark=len(rows))
    cluster.await_alike(topic)
