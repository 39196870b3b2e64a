"""The client's part of S61. The client sends ``client.rack``, reads the replica that the leader names, and leaves it
when it is lost. A group's leader looks at racks. Three brokers of ours, the third in another rack.
"""

from __future__ import annotations

from collections.abc import Iterator
from subprocess import Popen
from typing import Any, NamedTuple

import pytest

from conformance import drivers
from conformance.drivers.base import Consumer, Place
from harness.faults.hanging import hanging
from harness.servers.clusters import Cluster
from harness.waiting import until

pytestmark = pytest.mark.nightly
RACK_AWARE = "org.apache.kafka.common.replica.RackAwareReplicaSelector"
LEADER, FOLLOWER = 1, 3
COUNT = 400
#: No other broker replaces a hanging leader before the test is over.
PATIENT: dict[str, Any] = {"zookeeper_session_timeout_ms": 600_000, "replica_lag_time_max_ms": 600_000}
QUICK: dict[str, Any] = {"group_initial_rebalance_delay_ms": 0}
#: The consumer fetches so little ahead that most records are still unfetched when the test looks.
LITTLE = {"max_partition_fetch_bytes": 4_000, "queued_max_bytes": 8_000}


class Racks(NamedTuple):
    cluster: Cluster
    follower: Popen[bytes]


@pytest.fixture(scope="module")
def racks(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Racks]:
    """Starts brokers 1 and 2 in rack a, and 3 in rack b, until a test kills it."""
    folder = tmp_path_factory.mktemp("racks")
    settings = {**PATIENT, **QUICK, "broker_rack": "a", "replica_selector_class": RACK_AWARE}
    with (
        Cluster(folder / "data", 2, **settings) as cluster,
        cluster.joined(FOLLOWER, broker_rack="b") as follower,
    ):
        until(lambda: cluster.brokers() == [1, 2, 3], "the third broker")
        yield Racks(cluster, follower)


def fill(cluster: Cluster, name: str) -> None:
    """Writes ``COUNT`` records to a partition."""
    with drivers.opened("pyclient").producer(cluster.bootstrap) as producer:
        for number in range(COUNT):
            producer.send(name, b"%d" % number * 300)
            if number % 10 == 9:  # Batches are small, because a fetch returns whole ones.
                producer.flush()


def consumer(cluster: Cluster, rack: str, **settings: object) -> Consumer:
    return drivers.opened("pyclient").consumer(cluster.bootstrap, client_rack=rack, **LITTLE, **settings)


def read(reader: Consumer, count: int) -> int:
    """Reads until this many records have come, and returns their number."""
    found = 0

    def enough() -> bool:
        nonlocal found
        found += len(reader.poll(0.2, 5))
        return found >= count

    until(enough, f"{count} records")
    return found


@pytest.mark.parametrize("strategy", ["range", "sticky", "cooperative-sticky"])
def test_members_of_a_group_get_the_partitions_in_their_racks(racks: Racks, strategy: str) -> None:
    """KIP-881: without racks, the first member would get partition 0."""
    topic = f"shared-{strategy}"
    racks.cluster.place_topic(topic, {0: [FOLLOWER], 1: [LEADER]})
    group = {"group_id": topic, "partition_assignment_strategy": strategy, "heartbeat_interval_ms": 200}
    with consumer(racks.cluster, "a", **group) as one, consumer(racks.cluster, "b", **group) as other:
        for member in (one, other):
            member.subscribe([topic])

        def shared() -> bool:
            for member in (one, other):
                member.poll(0.05)
            return [one.assignment(), other.assignment()] == [{Place(topic, 1)}, {Place(topic, 0)}]

        until(shared, "shares by racks")


def test_s61_a_consumer_reads_from_the_follower_in_its_rack_until_that_is_lost(racks: Racks) -> None:
    cluster = racks.cluster
    cluster.place_topic("t", {0: [LEADER, FOLLOWER]})
    fill(cluster, "t")
    place = Place("t", 0)
    with consumer(cluster, "b") as whole:
        whole.assign({place: 0})
        assert read(whole, COUNT) == COUNT  # The follower knows now that all records are committed.
    with consumer(cluster, "b") as near, consumer(cluster, "a") as far:
        for reader in (near, far):
            reader.assign({place: 0})
            assert read(reader, 5) == 5
        with hanging(cluster.pid(LEADER)):
            count = 5 + read(near, COUNT // 2)
            until(lambda: not far.poll(0.5, 5), "the end of what was fetched ahead")
            assert far.position(place) < COUNT // 2, "nobody else serves the other rack"
        racks.follower.kill()
        assert count + read(near, COUNT - count) == COUNT
