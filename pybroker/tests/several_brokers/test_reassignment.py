"""Partitions move between real brokers while they are written to."""

from __future__ import annotations

import asyncio
from pathlib import Path

from pybroker.cluster.metadata.image import PartitionImage
from pybroker.server import Broker
from pybroker.tests.cluster import Cluster, in_loop, pause
from pybroker.tests.several_brokers.test_forwarding import ask
from pybroker.tests.several_brokers.test_replication import append, create, has_led, read_all, three
from pyclient.protocol import (
    AlterPartitionReassignments,
    DeleteTopics,
    ListPartitionReassignments,
    errors,
)

Topic = AlterPartitionReassignments.Request.ReassignableTopic
Partition = AlterPartitionReassignments.Request.ReassignablePartition


async def reassign(broker: Broker, *replicas: int) -> None:
    wanted = Partition(partition_index=0, replicas=list(replicas))
    request = AlterPartitionReassignments.Request(topics=[Topic(name="t", partitions=[wanted])])
    response = await ask(broker, AlterPartitionReassignments, 1, request)
    assert response.error_code == 0
    assert response.responses[0].partitions[0].error_code == 0


def image_of(broker: Broker) -> PartitionImage:
    return broker.metadata.image.topics["t"].partitions[0]


def is_done(brokers: list[Broker], *replicas: int) -> bool:
    images = [image_of(broker) for broker in brokers]
    return all(i.replicas == replicas and not i.adding and not i.removing for i in images)


async def write(brokers: list[Broker], acked: list[bytes], stop: asyncio.Event) -> None:
    """Appends to the leader, and remembers the acknowledged values."""
    number = 0
    while not stop.is_set():
        leader = next((broker for broker in brokers if has_led(broker)), None)
        value = b"%d" % number
        try:
            if leader is not None:
                await append(leader, value)
                acked.append(value)
                number += 1
        except errors.KafkaError:
            number += 1
        await pause()


def test_s98_partitions_move_and_grow_under_load_and_lose_nothing(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with Cluster(tmp_path) as cluster:
            brokers = await three(cluster)
            await create(brokers[0], 1)
            acked: list[bytes] = []
            stop = asyncio.Event()
            writing = asyncio.ensure_future(write(brokers, acked, stop))
            await cluster.until(lambda: len(acked) > 50)
            await reassign(brokers[2], 2, 3)
            await cluster.until(lambda: is_done(brokers, 2, 3))
            await cluster.until(lambda: "t" not in brokers[0].replicas.partitions.topics)
            assert not list((tmp_path / "broker-1").glob("**/t-0"))
            seen = len(acked)
            await cluster.until(lambda: len(acked) > seen + 50)
            await reassign(brokers[1], 2, 3, 1)
            await cluster.until(lambda: is_done(brokers, 2, 3, 1))
            await reassign(brokers[1], 3)
            await cluster.until(lambda: is_done(brokers, 3) and has_led(brokers[2]))
            seen = len(acked)
            await cluster.until(lambda: len(acked) > seen + 10)
            stop.set()
            await writing
            stored = read_all(brokers[2])
            assert [value for value in stored if value in set(acked)] == acked

    in_loop(scenario)


def test_every_broker_lists_the_moving_partitions(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with Cluster(tmp_path) as cluster:
            brokers = await three(cluster)
            await create(brokers[0], 1)
            await cluster.until(lambda: all("t" in b.metadata.image.topics for b in brokers))
            await cluster.kill(3)
            await cluster.until(lambda: 3 not in brokers[1].metadata.image.brokers)
            request = Partition(partition_index=0, replicas=[3, 2])
            refused = await ask(
                brokers[1],
                AlterPartitionReassignments,
                0,
                AlterPartitionReassignments.Request(topics=[Topic(name="t", partitions=[request])]),
            )
            result = refused.responses[0].partitions[0]
            assert result.error_code == errors.InvalidReplicaAssignment.code
            listed = await ask(
                brokers[1], ListPartitionReassignments, 0, ListPartitionReassignments.Request()
            )
            assert listed.topics == []

    in_loop(scenario)


def test_logs_of_a_topic_deleted_meanwhile_go_when_their_broker_returns(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with Cluster(tmp_path) as cluster:
            brokers = await three(cluster)
            await create(brokers[0], 1, 3)
            await cluster.until(lambda: has_led(brokers[0]))
            await append(brokers[0], b"a")
            await cluster.until(lambda: "t" in brokers[2].replicas.partitions.topics)
            await cluster.kill(3)
            assert (tmp_path / "broker-3" / "broker-3" / "t-0").exists()
            request = DeleteTopics.Request(topic_names=["t"])
            response = await ask(brokers[1], DeleteTopics, 1, request)
            assert response.responses[0].error_code == 0
            await create(brokers[0], 1)
            await cluster.start(3)
            assert not (tmp_path / "broker-3" / "broker-3" / "t-0").exists()
            await reassign(brokers[1], 1, 3)
            await cluster.until(lambda: is_done(brokers[:2], 1, 3))
            await append(brokers[0], b"b")
            assert read_all(cluster.brokers[3]) == [b"b"]

    in_loop(scenario)
