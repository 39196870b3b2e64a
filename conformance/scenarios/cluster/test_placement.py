"""Replica placement (S90), and the replica that consumers read from (S61)."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import confluent_kafka
import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from conformance.conftest import Counted, NewBroker
from conformance.scenarios.by_spark import BySpark
from conformance.scenarios.cluster.brokers import OpenCluster
from harness.clients import librdkafka
from harness.clients.librdkafka import take, write
from harness.protocol.error_codes import INVALID_REPLICA_ASSIGNMENT, INVALID_REPLICATION_FACTOR
from harness.protocol.wire_client import Wire
from harness.waiting import until
from harness.witnesses import used


def test_s90_more_replicas_than_brokers_are_refused_with_both_numbers(cluster: OpenCluster, topic: str) -> None:
    used("librdkafka")
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
    created = admin.create_topics([NewTopic(topic, 1, 4)])[topic]
    too_few = r"factor of 4 cannot be reached because only 3 broker"
    with pytest.raises(confluent_kafka.KafkaException, match=too_few) as raised:
        created.result(60)
    assert raised.value.args[0].code() == INVALID_REPLICATION_FACTOR
    assert topic not in admin.list_topics(timeout=60).topics


def test_s90_two_replicas_are_never_on_one_broker(cluster: OpenCluster, topic: str) -> None:
    refused = cluster.try_to_create(topic, -1, -1, [{"partition_index": 0, "broker_ids": [1, 1]}])
    assert refused.error_code == INVALID_REPLICA_ASSIGNMENT
    cluster.create_topic(topic, 12, 2)
    rows = cluster.partitions(topic).values()
    assert all(len(set(row.replicas)) == 2 for row in rows)
    assert Counter(row.leader for row in rows) == dict.fromkeys(cluster.ids, 4)
    assert Counter(broker for row in rows for broker in row.replicas) == dict.fromkeys(cluster.ids, 8)


@pytest.fixture(scope="module", params=["embedded_cluster", "zookeeper_cluster"], ids=["embedded", "on_zookeeper"])
def two_racks(request: pytest.FixtureRequest) -> Iterator[OpenCluster]:
    """Starts brokers 1, 2 and 3 in rack a, and 4 in rack b."""
    running: OpenCluster = request.getfixturevalue(request.param)
    running.wait_for(*running.ids)
    with running.another(4, broker_rack="b"):
        running.wait_for(4)
        yield running


def test_s90_replicas_are_spread_over_racks_first(two_racks: OpenCluster, topic: str) -> None:
    two_racks.create_topic(topic, 12, 2)
    rows = two_racks.partitions(topic).values()
    assert all(4 in row.replicas for row in rows)
    assert Counter(row.leader for row in rows) == dict.fromkeys((1, 2, 3, 4), 3)
    others = Counter(broker for row in rows for broker in row.replicas if broker != 4)
    assert others == dict.fromkeys((1, 2, 3), 4)


@pytest.mark.ours
def test_s90_a_broker_reports_only_its_configured_rack(new_broker: NewBroker) -> None:
    """Placement also spreads replicas over hosts, but brokers do not show clients a host as a rack."""
    for settings, rack in (({}, None), ({"broker_rack": "b"}, "b")):
        with Wire(new_broker(**settings).address) as wire:
            assert [row.rack for row in wire.ask("Metadata", 9, topics=[]).brokers] == [rack]


def test_s61_a_consumer_reads_from_the_follower_in_its_rack(
    two_racks: OpenCluster, topic: str, by_spark: BySpark, counted: Counted
) -> None:
    """librdkafka counts the bytes from each broker; for Spark, the bytes that the brokers have written count."""
    two_racks.place_topic(topic, {0: (1, 4)})
    write(two_racks, topic, [b"x" * 1_000] * 2_000)
    assert _received(two_racks, topic, "b")[4] > 2_000_000
    assert _received(two_racks, topic, "b")[1] < 200_000
    assert _received(two_racks, topic, "a")[1] > 2_000_000
    assert _received(two_racks, topic, "a")[4] < 200_000
    for rack, nearest, other in (("b", 4, 1), ("a", 1, 4)):
        before = {broker: _written(two_racks, broker) for broker in (1, 4)}
        assert len(by_spark(two_racks, topic, {"kafka.client.rack": rack})) == 2_000
        sent = {broker: _written(two_racks, broker) - before[broker] for broker in (1, 4)}
        counted(f"Spark in rack {rack}, {two_racks.kind}", bytes_from_there=sent[nearest], from_elsewhere=sent[other])
        assert sent[nearest] > 2_000_000
        assert sent[other] < 1_000_000


def _written(cluster: OpenCluster, broker: int) -> int:
    """Counts the bytes that a broker's process has written to files and sockets, sendfile included."""
    lines = Path(f"/proc/{cluster.pid(broker)}/io").read_text().splitlines()
    return int(dict(line.split(": ") for line in lines)["wchar"])


def _received(cluster: OpenCluster, topic: str, rack: str) -> dict[int, int]:
    """Reads everything by a consumer in that rack; returns the bytes that each broker has sent to it."""
    told: list[str] = []
    settings = {"bootstrap.servers": cluster.bootstrap, "group.id": "unused", "client.rack": rack}
    client = librdkafka.Consumer({**settings, "statistics.interval.ms": 100, "stats_cb": told.append})
    try:
        client.assign([confluent_kafka.TopicPartition(topic, 0, 0)])
        take(client, 2_000)
        told.clear()
        until(lambda: client.poll(0.05) or told, "librdkafka's figures")
    finally:
        client.close()
    received: Counter[int] = Counter()
    for row in json.loads(told[-1])["brokers"].values():
        received[row["nodeid"]] += row["rxbytes"]
    return received
