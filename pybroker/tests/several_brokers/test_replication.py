"""Brokers of one cluster replicate: acknowledged records survive the leader, and all replicas become equal."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from pybroker.cluster.decisions.plan import NewTopic
from pybroker.log.log import Log
from pybroker.replication.partition import Partition
from pybroker.replication.tests.harness import batch, values
from pybroker.server import Broker
from pybroker.tests.cluster import Cluster, in_loop
from pybroker.topic_partition import TopicPartition
from pyclient.keywords import with_dots
from pyclient.protocol import Fetch, errors

ALL = -1
TP = TopicPartition("t", 0)


async def create(broker: Broker, *brokers: int, topic: str = "t", **configs: str) -> None:
    """Creates a topic of one partition on these brokers; the first of them leads."""
    overrides = tuple(with_dots(configs).items())
    [outcome] = await broker.controller.create_topics([NewTopic(topic, assignments=((0, brokers),), configs=overrides)])
    assert not isinstance(outcome, Exception), outcome


async def append(broker: Broker, *what: bytes, acks: int = ALL, topic: str = "t") -> int:
    """Appends one batch as the leader; returns its first offset when acks is kept."""
    now_ms = broker.clock.now_ms()
    appended = broker.replicas.append(TopicPartition(topic, 0), batch(*what, timestamp=now_ms), acks, now_ms)
    if appended.done is not None:
        await appended.done
    return appended.info.first_offset


def read_all(broker: Broker, topic: str = "t") -> list[bytes | None]:
    """Returns all values in the broker's replica."""
    log = broker.replicas.find(topic, 0).log
    found, offset = [], log.log_start_offset
    while offset < log.log_end_offset:
        part = log.read(offset, 1 << 20)
        found += values(part.read())
        offset = part.next_offset
    return found


def has_led(broker: Broker, topic: str = "t") -> bool:
    partition = broker.replicas.partitions.topics.get(topic, {}).get(0)
    return partition is not None and partition.is_leader


def follows(broker: Broker, leader: int, topic: str = "t") -> bool:
    partition = broker.replicas.partitions.topics.get(topic, {}).get(0)
    return partition is not None and partition.leader == leader


def test_records_acknowledged_by_acks_all_are_on_the_next_leader(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with Cluster(tmp_path) as cluster:
            first, second = await cluster.start(1), await cluster.start(2)
            await cluster.until(lambda: 2 in first.metadata.image.brokers)
            await create(first, 2, 1)
            await cluster.until(lambda: has_led(second))
            for number in range(20):
                await append(second, b"%d" % number)
            assert second.replicas.find("t", 0).high_watermark == 20
            await cluster.kill(2)
            await cluster.until(lambda: has_led(first))
            assert read_all(first) == [b"%d" % number for number in range(20)]
            await append(first, b"after")

    in_loop(scenario)


def partition(broker: Broker, topic: str = "t") -> Partition:
    return broker.replicas.partitions.topics[topic][0]


def members(broker: Broker, topic: str = "t") -> frozenset[int]:
    """Returns the in-sync replicas that the leader knows."""
    isr = partition(broker, topic).isr
    return isr.members if isr is not None else frozenset()


def raw(log: Log) -> bytes:
    """Returns the bytes of all records of the log."""
    found, offset = b"", log.log_start_offset
    while offset < log.log_end_offset:
        part = log.read(offset, 1 << 20)
        found += part.read()
        offset = part.next_offset
    return found


async def three(cluster: Cluster) -> list[Broker]:
    brokers = [await cluster.start(number) for number in (1, 2, 3)]
    await cluster.until(lambda: all(len(each.metadata.image.brokers) == 3 for each in brokers))
    return brokers


def test_a_broker_that_returns_catches_up_and_is_in_sync_again(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with Cluster(tmp_path) as cluster:
            first, second, third = await three(cluster)
            await create(first, 1, 2, 3)
            await cluster.until(lambda: has_led(first))
            await append(first, b"a")
            await cluster.kill(3)
            await cluster.until(lambda: members(first) == {1, 2})
            await append(first, b"b")
            third = await cluster.start(3)
            await cluster.until(lambda: members(first) == {1, 2, 3})
            await append(first, b"c")
            assert read_all(third) == [b"a", b"b", b"c"]
            await cluster.until(lambda: raw(partition(second).log) == raw(partition(third).log))
            assert raw(partition(first).log) == raw(partition(third).log)

    in_loop(scenario)


def test_case_15_a_follower_that_does_not_fetch_leaves_and_comes_back(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with Cluster(tmp_path, replica_lag_time_max_ms="200") as cluster:
            first, second, _ = await three(cluster)
            await create(first, 1, 2)
            await cluster.until(lambda: has_led(first) and follows(second, 1))
            await append(first, b"a")
            assert second.replicas.fetchers is not None
            second.replicas.fetchers.stop(partition(second))
            appended = asyncio.ensure_future(append(first, b"b"))
            await cluster.until(lambda: members(first) == {1})
            await appended
            second.replicas.fetchers.assign(partition(second))
            await cluster.until(lambda: members(first) == {1, 2})

    in_loop(scenario)


def test_case_16_too_few_in_sync_is_19_before_the_append_and_20_after(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with Cluster(tmp_path) as cluster:
            first, second, _ = await three(cluster)
            await create(first, 1, 2, min_insync_replicas="2")
            await cluster.until(lambda: has_led(first) and follows(second, 1))
            await append(first, b"a")
            assert second.replicas.fetchers is not None
            second.replicas.fetchers.stop(partition(second))
            late = asyncio.ensure_future(append(first, b"b"))
            await asyncio.sleep(0)
            await cluster.kill(2)
            with pytest.raises(errors.NotEnoughReplicasAfterAppend):
                await late
            with pytest.raises(errors.NotEnoughReplicas):
                await append(first, b"c")
            assert partition(first).high_watermark == 1
            await cluster.start(2)
            await cluster.until(lambda: members(first) == {1, 2})
            assert await append(first, b"d") == 2

    in_loop(scenario)


def test_s93_records_that_only_a_dead_leader_had_are_truncated_when_it_returns(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with Cluster(tmp_path) as cluster:
            first, second, third = await three(cluster)
            await create(third, 3, 1, 2) if third.controller.is_controller else await create(first, 3, 1, 2)
            await cluster.until(lambda: has_led(third) and follows(first, 3) and follows(second, 3))
            await append(third, b"a")
            for broker in (first, second):
                assert broker.replicas.fetchers is not None
                broker.replicas.fetchers.stop(partition(broker))
            third.replicas.append(TP, batch(b"alone"), 1, third.clock.now_ms())
            await cluster.kill(3)
            await cluster.until(lambda: has_led(first))
            await append(first, b"b")
            third = await cluster.start(3)
            await cluster.until(lambda: members(first) == {1, 2, 3})
            assert read_all(third) == [b"a", b"b"]
            assert raw(partition(third).log) == raw(partition(first).log)

    in_loop(scenario)


def test_s34_three_replicas_survive_the_failure_of_two(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with Cluster(tmp_path) as cluster:
            first, _, third = await three(cluster)
            await create(first, 1, 2, 3)
            await cluster.until(lambda: has_led(first))
            for number in range(10):
                await append(first, b"%d" % number)
            await cluster.kill(1)
            await cluster.until(lambda: has_led(cluster.brokers[2]))
            await cluster.kill(2)
            await cluster.until(lambda: has_led(third))
            assert read_all(third) == [b"%d" % number for number in range(10)]
            await append(third, b"after")

    in_loop(scenario)


def test_case_18_unclean_election_is_followed_by_truncation(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with Cluster(tmp_path) as cluster:
            first, second, third = await three(cluster)
            await create(first, 3, 2, unclean_leader_election_enable="true")
            await cluster.until(lambda: has_led(third) and follows(second, 3))
            await append(third, b"a")
            await cluster.kill(2)
            await cluster.until(lambda: members(third) == {3})
            await append(third, b"only on 3")
            await cluster.kill(3)
            second = await cluster.start(2)
            await cluster.until(lambda: has_led(second))
            await append(second, b"b")
            third = await cluster.start(3)
            await cluster.until(lambda: members(second) == {2, 3})
            assert read_all(third) == read_all(second) == [b"a", b"b"]

    in_loop(scenario)


def test_flush_acks_waits_for_the_disks_of_the_followers(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with Cluster(tmp_path) as cluster:
            first, second, _ = await three(cluster)
            await create(first, 1, 2, flush_acks="true")
            await cluster.until(lambda: has_led(first) and follows(second, 1))
            await append(first, b"a", b"b")
            assert partition(second).log.recovery_point == 2
            assert partition(first).log.recovery_point == 2

    in_loop(scenario)


def test_delete_records_waits_for_every_replica(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with Cluster(tmp_path) as cluster:
            first, second, _ = await three(cluster)
            await create(first, 1, 2)
            await cluster.until(lambda: has_led(first) and follows(second, 1))
            await append(first, b"a")
            await append(first, b"b")
            assert await first.replicas.delete_records(partition(first), 1, 60_000) == 1
            assert partition(second).log.kept_start_offset == 1

    in_loop(scenario)


def test_high_watermark_survives_the_stop_of_all(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with Cluster(tmp_path) as cluster:
            first, second = await cluster.start(1), await cluster.start(2)
            await cluster.until(lambda: 2 in first.metadata.image.brokers)
            await create(first, 1, 2)
            await cluster.until(lambda: has_led(first) and follows(second, 1))
            await append(first, b"a", b"b")
            await cluster.stop(2)
            await cluster.stop(1)
            first = await cluster.start(1)
            await cluster.until(lambda: has_led(first))
            assert partition(first).high_watermark == 2

    in_loop(scenario)


SELECTOR = "org.apache.kafka.common.replica.RackAwareReplicaSelector"


def test_s61_a_consumer_is_sent_to_the_follower_in_its_rack(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with Cluster(tmp_path, replica_selector_class=SELECTOR) as cluster:
            first = await cluster.start(1, broker_rack="a")
            second = await cluster.start(2, broker_rack="b", replica_fetch_wait_max_ms="30000")
            await cluster.until(lambda: 2 in first.metadata.image.brokers)
            await create(first, 1, 2)
            await cluster.until(lambda: has_led(first) and follows(second, 1))
            await append(first, b"a")
            assert await fetch_as_consumer(first, second, rack="a") == (-1, [b"a"])
            assert await fetch_as_consumer(first, second, rack="c") == (-1, [b"a"])
            assert await fetch_as_consumer(first, second, rack="b") == (2, [])
            # the follower soon learns the high watermark, though its fetch waits long
            await cluster.until(lambda: partition(second).high_watermark == 1)
            assert await fetch_as_consumer(second, first, rack="b") == (-1, [b"a"])

    in_loop(scenario)


async def fetch_as_consumer(broker: Broker, other: Broker, rack: str) -> tuple[int, list[bytes | None]]:
    """Returns the preferred replica and the values that a consumer in ``rack`` gets from ``broker``."""
    request, found = Fetch.Request, asyncio.get_running_loop().create_future()
    topic = request.FetchTopic(topic_id=partition(broker).topic_id)
    topic.partitions.append(request.FetchPartition(fetch_offset=0, partition_max_bytes=1 << 20))
    wanted = request(max_wait_ms=0, rack_id=rack, topics=[topic])

    def done(response: Fetch.Response, error: Exception | None) -> None:
        assert error is None
        answer = response.responses[0].partitions[0]
        assert answer.error_code == 0
        found.set_result((answer.preferred_read_replica, values(bytes(answer.records or b""))))

    other.peers.post(broker.node_id, wanted, done, purpose="test")
    return await found  # type: ignore[no-any-return]


def test_all_replicas_return_to_the_isr_without_writes(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with Cluster(tmp_path, replica_fetch_wait_max_ms="30000") as cluster:
            first, _, _ = await three(cluster)
            await create(first, 1, 2, 3)
            await cluster.until(lambda: has_led(first))
            await append(first, b"a")
            await cluster.kill(2)
            await cluster.kill(3)
            await cluster.until(lambda: members(first) == {1})
            await asyncio.gather(cluster.start(2), cluster.start(3))
            await cluster.until(lambda: members(first) == {1, 2, 3})

    in_loop(scenario)
