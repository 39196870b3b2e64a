"""Adds and removes brokers and moves partitions while clients write and read: S97, S98."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient, ConfigResource, ConfigSource

from conformance.conftest import Counted
from conformance.scenarios.by_spark import BySpark
from conformance.scenarios.cluster.brokers import OpenCluster
from conformance.scenarios.cluster.traffic import LIBRARIES, traffic
from harness.clients import command_line
from harness.peers import Java
from harness.waiting import until
from harness.witnesses import used

REASSIGN = "org.apache.kafka.tools.reassign.ReassignPartitionsCommand"
Replicas = dict[int, tuple[int, ...]]


def test_s97_a_broker_joins_takes_partitions_and_leaves_under_load(
    cluster: OpenCluster, topic: str, by_spark: BySpark, counted: Counted
) -> None:
    before: Replicas = dict.fromkeys(range(len(LIBRARIES)), (1, 2, 3))
    cluster.place_topic(topic, before, min_insync_replicas=2)
    with traffic(cluster, topic) as flowing:
        with cluster.another(4) as fourth:
            cluster.wait_for(1, 2, 3, 4)
            cluster.reassign(topic, {0: (4, 1, 2), 1: (1, 4, 3), 2: (2, 3, 4), 3: (4, 2, 3)})
            until(lambda: cluster.leader(topic, 0) == cluster.leader(topic, 3) == 4, "the new broker to lead")
            flowing.goes_on()
            cluster.reassign(topic, before)
            flowing.goes_on()
            fourth.terminate()
            assert fourth.wait(60) == 0
        flowing.goes_on()
        acked = flowing.finish()
    assert cluster.brokers() == [1, 2, 3]
    cluster.await_alike(topic)
    rows = by_spark(cluster, topic)
    assert len({(row.partition, row.value) for row in rows}) == len(rows) == acked
    counted(cluster.kind, acked=acked, lost=0, read_by_spark=len(rows))


def test_s97_a_leader_shuts_down_cleanly_and_comes_back(embedded: OpenCluster, topic: str) -> None:
    """In a controlled stop, the broker hands its leadership over; clients learn of the next leader and see no failure.
    """
    embedded.place_topic(topic, {0: (2, 1), 1: (2, 3)}, min_insync_replicas=1)
    with traffic(embedded, topic, LIBRARIES[:2]) as flowing:
        process = embedded.pid(2)
        embedded.terminate(2)
        until(lambda: embedded.pid(2) not in (0, process), "another process")
        flowing.goes_on()
        embedded.await_sync(topic)


@pytest.mark.parametrize("tool", ["java", "ours"])
def test_s98_partitions_move_and_get_more_replicas_under_load(
    embedded: OpenCluster,
    on_zookeeper: OpenCluster,
    topic: str,
    tool: str,
    java: Java,
    tmp_path: Path,
    by_spark: BySpark,
) -> None:
    """kafka-reassign-partitions moves them: Kafka's own tool on the embedded store, ours on ZooKeeper."""
    cluster = embedded if tool == "java" else on_zookeeper
    after: Replicas = {0: (3, 2), 1: (2, 3, 1), 2: (1, 2, 3), 3: (3,)}
    cluster.place_topic(topic, dict.fromkeys(after, (1, 2)), min_insync_replicas=1)
    with traffic(cluster, topic) as flowing:
        rows = [{"topic": topic, "partition": number, "replicas": ids} for number, ids in after.items()]
        plan = tmp_path / "plan.json"
        plan.write_text(json.dumps({"version": 1, "partitions": rows}))
        words = ("--bootstrap-server", cluster.bootstrap, "--reassignment-json-file", str(plan))
        begun = _run(tool, java, *words, "--execute", "--throttle", "50000000")
        assert "throttle limit was set to 50000000 B/s" in begun
        assert "Successfully started" in begun
        until(lambda: all(_is_throttled(cluster, topic)), "the throttle")
        until(lambda: _is_complete(_run(tool, java, *words, "--verify")), "the end of the reassignment")
        until(lambda: not any(_is_throttled(cluster, topic)), "no throttle")
        until(lambda: _places(cluster, topic) == after, "the new replicas")
        cluster.await_sync(topic)
        flowing.goes_on()
        acked = flowing.finish()
    cluster.await_alike(topic)
    records = by_spark(cluster, topic)
    assert len({(row.partition, row.value) for row in records}) == len(records) == acked
    gone = cluster.partition_dir(1, topic, 0)
    until(lambda: not gone.exists(), "the files of a replica that has moved to be gone")


def _places(cluster: OpenCluster, topic: str) -> Replicas:
    return {number: row.replicas for number, row in cluster.partitions(topic).items()}


def _is_throttled(cluster: OpenCluster, topic: str) -> list[bool]:
    """Returns whether broker 2 has a throttle rate as leader, and the topic a list of throttled followers."""
    used("librdkafka")
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
    asked = {
        ConfigResource(ConfigResource.Type.BROKER, "2"): "leader.replication.throttled.rate",
        ConfigResource(ConfigResource.Type.TOPIC, topic): "follower.replication.throttled.replicas",
    }
    rows = [admin.describe_configs([each])[each].result(60).get(key) for each, key in asked.items()]
    own = (ConfigSource.DYNAMIC_BROKER_CONFIG.value, ConfigSource.DYNAMIC_TOPIC_CONFIG.value)
    return [row is not None and row.source in own for row in rows]


def _is_complete(output: str) -> bool:
    return "still in progress" not in output and output.count(" is completed") == len(LIBRARIES)


def _run(tool: str, java: Java, *words: str) -> str:
    return java(REASSIGN, *words) if tool == "java" else command_line.run("kafka-reassign-partitions", *words)
