"""Leaders and controllers: S18, S92, S94, S95, S99."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path

from confluent_kafka.admin import AdminClient, ConfigResource

from conformance.conftest import Counted
from conformance.drivers.base import Place
from conformance.scenarios.by_spark import BySpark
from conformance.scenarios.cluster.brokers import OpenCluster
from conformance.scenarios.cluster.traffic import traffic, whole_log
from harness.clients.librdkafka import write
from harness.protocol.error_codes import (
    ELIGIBLE_LEADERS_NOT_AVAILABLE,
    NOT_CONTROLLER,
    PREFERRED_LEADER_NOT_AVAILABLE,
    TOPIC_ALREADY_EXISTS,
)
from harness.protocol.wire_client import Wire
from harness.servers.ensemble import Ensemble
from harness.waiting import until
from harness.witnesses import used

NOBODY = -1
ORDERS = {0: (1, 2, 3), 1: (2, 3, 1), 2: (3, 1, 2), 3: (1, 3, 2)}


def test_s18_s92_s99_the_next_replica_leads_and_the_preferred_leader_returns(
    cluster: OpenCluster, topic: str, by_spark: BySpark, counted: Counted
) -> None:
    """The first live in-sync replica of each list leads; ``leader.imbalance.check.interval.seconds`` is 1 here."""
    cluster.place_topic(topic, ORDERS, min_insync_replicas=2)
    with traffic(cluster, topic) as flowing, by_spark.reading(cluster, topic) as streamed:
        with cluster.down(1):
            until(lambda: _leaders(cluster, topic) == {0: 2, 1: 2, 2: 3, 3: 3}, "the next of each list")
            assert all(1 not in row.isr for row in cluster.partitions(topic, without=1).values())
            flowing.goes_on()
        cluster.await_sync(topic)
        preferred = {number: replicas[0] for number, replicas in ORDERS.items()}
        until(lambda: _leaders(cluster, topic) == preferred, "preferred leaders")
        flowing.goes_on()
        acked = flowing.finish()
        seen = streamed.await_rows(acked)
    assert seen == by_spark(cluster, topic)
    counted(f"{cluster.kind}, while the leaders moved", acked=acked, streamed_by_spark=len(seen))


def test_s99_leaders_return_if_more_than_ten_percent_of_a_brokers_are_elsewhere(tmp_path: Path) -> None:
    """Of 11 partitions that prefer broker 2, one has another leader; of broker 1's 11, two have, and must move back."""
    before = {number: (1, 2) if number < 10 else (2, 1) for number in range(20)}
    with OpenCluster(tmp_path / "balance", 2, None, leader_imbalance_check_interval_seconds=1) as cluster:
        cluster.place_topic("t", before)
        cluster.place_topic("canary", {0: (2, 1), 1: (2, 1)})
        _prefer(cluster, "t", {0: (2, 1)})
        _prefer(cluster, "canary", {0: (1, 2), 1: (1, 2)})
        until(lambda: _leaders(cluster, "canary") == {0: 1, 1: 1}, "leaders of which 18 % are away")
        assert cluster.leader("t", 0) == 1, "9 % are as good as none"
        _prefer(cluster, "t", {1: (2, 1)})
        until(lambda: cluster.leader("t", 0) == cluster.leader("t", 1) == 2, "preferred leaders")


def test_s99_leaders_stay_elsewhere_if_rebalancing_is_disabled(tmp_path: Path) -> None:
    """Another cluster with the same interval rebalances twice meanwhile."""
    often = {"leader_imbalance_check_interval_seconds": 1}
    with (
        OpenCluster(tmp_path / "off", 2, None, auto_leader_rebalance_enable="false", **often) as off,
        OpenCluster(tmp_path / "on", 2, None, **often) as on,
    ):
        for cluster in (off, on):
            cluster.place_topic("t", {0: (1, 2)})
            _prefer(cluster, "t", {0: (2, 1)})
        until(lambda: on.leader("t") == 2, "the preferred leader")
        _prefer(on, "t", {0: (1, 2)})
        until(lambda: on.leader("t") == 1, "the other one")
        assert off.leader("t") == 1


def _prefer(cluster: OpenCluster, topic: str, replicas: dict[int, tuple[int, ...]]) -> None:
    """Changes only the order of each partition's replicas."""
    cluster.reassign(topic, replicas)
    found = cluster.partitions
    until(lambda: {number: found(topic)[number].replicas for number in replicas} == replicas, "the new order")


def test_s99_the_defaults_are_those_of_the_documents(embedded: OpenCluster) -> None:
    used("librdkafka")
    asked = ConfigResource(ConfigResource.Type.BROKER, "1")
    admin = AdminClient({"bootstrap.servers": embedded.bootstrap})
    found = admin.describe_configs([asked])[asked].result(60)
    assert found["auto.leader.rebalance.enable"].value == "true"
    assert found["leader.imbalance.per.broker.percentage"].value == "10"
    synonyms = {row.name: row.value for row in found["leader.imbalance.check.interval.seconds"].synonyms.values()}
    assert "300" in synonyms.values(), synonyms


def _leaders(cluster: OpenCluster, topic: str) -> dict[int, int]:
    return {number: row.leader for number, row in cluster.partitions(topic).items()}


def test_s94_without_unclean_election_a_partition_is_offline_with_it_the_loss_is_counted(
    cluster: OpenCluster, topic: str, by_spark: BySpark, counted: Counted
) -> None:
    cluster.place_topic(topic, {0: (1, 2)})
    both, alone, after = ([b"%s %d" % (word, number) for number in range(20)] for word in (b"both", b"1", b"2"))
    write(cluster, topic, both)
    with ExitStack() as first, ExitStack() as second:
        second.enter_context(cluster.down(2))
        write(cluster, topic, alone)
        first.enter_context(cluster.down(1))
        second.close()
        assert cluster.at(topic) == (NOBODY, (1, 2), (1,))
        assert _elect(cluster, topic) in (PREFERRED_LEADER_NOT_AVAILABLE, ELIGIBLE_LEADERS_NOT_AVAILABLE)
        assert cluster.at(topic).leader == NOBODY
        cluster.alter_topic(topic, unclean_leader_election_enable="true")
        until(lambda: cluster.at(topic).leader == 2, "the replica that was not in sync to lead")
        write(cluster, topic, after)
    cluster.await_sync(topic)
    found = [value for _, value in whole_log(cluster, Place(topic, 0))]
    counted(f"unclean, {cluster.kind}", acked=40, lost=len(set(alone) - set(found)))
    assert found == by_spark.values(cluster, topic) == both + after
    cluster.await_alike(topic)


def _elect(cluster: OpenCluster, topic: str) -> int:
    """Asks for a clean election; returns the partition's error code."""
    with Wire(cluster.address(2)) as wire:
        asked = [{"topic": topic, "partitions": [0]}]
        reply = wire.ask("ElectLeaders", 1, election_type=0, topic_partitions=asked, timeout_ms=30_000)
    return int(reply.replica_election_results[0].partition_result[0].error_code)


def test_s95_a_killed_controller_is_replaced_in_the_next_epoch(cluster: OpenCluster, topic: str) -> None:
    cluster.place_topic(topic, ORDERS, min_insync_replicas=2)
    with traffic(cluster, topic, ("confluent", "pyclient")) as flowing:
        first, epoch = cluster.controller(), cluster.epoch()
        assert cluster.controller_node() == first
        with cluster.down(first):
            until(lambda: cluster.controller_node() not in (-1, first), "another controller")
            assert cluster.epoch() == epoch + 1
            until(lambda: cluster.controller() == cluster.controller_node(), "Metadata to name it")
            flowing.goes_on()
    assert cluster.epoch() == epoch + 1


def test_s95_the_first_broker_creates_the_controllers_node(zookeeper: Ensemble, tmp_path: Path) -> None:
    with OpenCluster(tmp_path / "first", 1, f"{zookeeper.hosts}/first") as alone:
        assert (alone.controller_node(), alone.epoch()) == (1, 1)
        with alone.another(2):
            alone.wait_for(1, 2)
            assert (alone.controller_node(), alone.epoch()) == (1, 1)
            assert alone.controller() == 1


def test_s95_commands_of_a_controller_with_an_old_epoch_are_refused(cluster: OpenCluster, topic: str) -> None:
    """The old controller halts before it executes a command, and resumes after a new one has done it differently."""
    old, epoch = cluster.controller(), cluster.epoch()
    asked = {"name": topic, "num_partitions": 5, "replication_factor": 1, "assignments": [], "configs": []}
    with Wire(cluster.address(old), 60) as wire:
        wire.versions()
        with cluster.halted(old):
            wire.post("CreateTopics", 5, topics=[asked], timeout_ms=30_000, validate_only=False)
            until(lambda: cluster.controller(without=old) != old, "another controller")
            assert cluster.epoch() == epoch + 1
            other = next(each for each in cluster.ids if each != old)
            with Wire(cluster.address(other)) as others:
                otherwise = {**asked, "num_partitions": 2}
                others.ask("CreateTopics", 5, topics=[otherwise], timeout_ms=30_000, validate_only=False)
                known = others.metadata(topic)
        error = wire.reply("CreateTopics", 5).topics[0].error_code
    assert error in (TOPIC_ALREADY_EXISTS, NOT_CONTROLLER)
    cluster.wait_for(*cluster.ids)
    for broker in cluster.ids:
        with Wire(cluster.address(broker)) as wire:
            found = wire.metadata(topic)
            assert (found.topic_id, len(found.partitions)) == (known.topic_id, 2)
    assert cluster.epoch() == epoch + 1
