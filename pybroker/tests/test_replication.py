"""Brokers of one cluster replicate: what is acknowledged survives the leader, and replicas end alike."""

from __future__ import annotations

from pathlib import Path

from pybroker.cluster.plan import NewTopic
from pybroker.replication.tests.harness import batch, values
from pybroker.server import Broker
from pybroker.tests.cluster import Cluster, in_loop
from pybroker.topic_partition import TopicPartition

ALL = -1
TP = TopicPartition("t", 0)


async def create(broker: Broker, *brokers: int, topic: str = "t", **configs: str) -> None:
    """A topic of one partition on these brokers, the first of them its leader."""
    overrides = {key.replace("_", "."): value for key, value in configs.items()}
    [outcome] = await broker.controller.create_topics([NewTopic(topic, assignments=((0, brokers),), configs=overrides)])
    assert not isinstance(outcome, Exception), outcome


async def append(broker: Broker, *what: bytes, acks: int = ALL, topic: str = "t") -> int:
    """Appends one batch as the leader; returns its first offset when acks is kept."""
    appended = broker.replicas.append(TopicPartition(topic, 0), batch(*what), acks, broker.clock.now_ms())
    if appended.done is not None:
        await appended.done
    return appended.info.first_offset


def read_all(broker: Broker, topic: str = "t") -> list[bytes | None]:
    """All values in the broker's replica."""
    log = broker.replicas.find(topic, 0).log
    found, offset = [], log.log_start_offset
    while offset < log.log_end_offset:
        part = log.read(offset, 1 << 20)
        found += values(part.read())
        offset = part.next_offset
    return found


def has_led(broker: Broker, topic: str = "t") -> bool:
    partition = broker.replicas.topics.get(topic, {}).get(0)
    return partition is not None and partition.is_leader


def follows(broker: Broker, leader: int, topic: str = "t") -> bool:
    partition = broker.replicas.topics.get(topic, {}).get(0)
    return partition is not None and partition.leader == leader


def test_what_all_has_acknowledged_is_on_the_follower_that_leads_next(tmp_path: Path) -> None:
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
