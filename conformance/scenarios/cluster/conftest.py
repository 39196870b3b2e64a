"""Two clusters of three brokers that the tests of this folder share: one on the embedded store, one on a ZooKeeper.

A test may kill and halt their brokers; the next test finds all of them running. A test with the fixture ``cluster``
runs on both.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from pathlib import Path

import pytest

from conformance.scenarios.cluster.brokers import OpenCluster
from harness.servers.ensemble import Ensemble

LAG_MS = 3_000
#: A broker that hangs leaves the ISR by its lag, well before its session expires.
EMBEDDED_SESSION_MS = 8_000
ZOOKEEPER_SESSION_MS = 2_500
RACK_AWARE = "org.apache.kafka.common.replica.RackAwareReplicaSelector"
CONFIG = {
    "replica_lag_time_max_ms": LAG_MS,
    "leader_imbalance_check_interval_seconds": 1,
    "replica_high_watermark_checkpoint_interval_ms": 500,
    "log_flush_offset_checkpoint_interval_ms": 500,
    "group_initial_rebalance_delay_ms": 0,
    "group_consumer_min_heartbeat_interval_ms": 100,
    "group_consumer_heartbeat_interval_ms": 200,
    "offsets_topic_num_partitions": 6,
    "replica_selector_class": RACK_AWARE,
    "broker_rack": "a",
}
_number = itertools.count(1)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Deselects tests of clusters for Kafka, which does not run on our stores."""
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker(pytest.mark.ours)


@pytest.fixture(scope="session")
def embedded_cluster(data_root: Path) -> Iterator[OpenCluster]:
    """Starts three brokers on the embedded store."""
    config = {**CONFIG, "zookeeper_session_timeout_ms": EMBEDDED_SESSION_MS}
    with OpenCluster(data_root / "embedded-cluster", 3, None, **config) as running:
        yield running


@pytest.fixture(scope="session")
def zookeeper(data_root: Path) -> Iterator[Ensemble]:
    """Starts one ZooKeeper server."""
    with Ensemble(data_root / "ensemble") as running:
        yield running


@pytest.fixture(scope="session")
def zookeeper_cluster(data_root: Path, zookeeper: Ensemble) -> Iterator[OpenCluster]:
    """Starts three brokers on ZooKeeper."""
    config = {**CONFIG, "zookeeper_session_timeout_ms": ZOOKEEPER_SESSION_MS}
    with OpenCluster(data_root / "zookeeper-cluster", 3, f"{zookeeper.hosts}/kafka", **config) as running:
        yield running


@pytest.fixture
def embedded(embedded_cluster: OpenCluster) -> OpenCluster:
    """Returns the cluster on the embedded store, with all its brokers running."""
    embedded_cluster.wait_for(*embedded_cluster.ids)
    return embedded_cluster


@pytest.fixture
def on_zookeeper(zookeeper_cluster: OpenCluster) -> OpenCluster:
    """Returns the cluster on ZooKeeper, with all its brokers running."""
    zookeeper_cluster.wait_for(*zookeeper_cluster.ids)
    return zookeeper_cluster


@pytest.fixture(params=["embedded", "on_zookeeper"])
def cluster(request: pytest.FixtureRequest) -> OpenCluster:
    """Returns each of the two clusters."""
    running: OpenCluster = request.getfixturevalue(request.param)
    return running


@pytest.fixture
def topic() -> str:
    """Returns an unused topic name."""
    return f"scenario-{next(_number)}"
