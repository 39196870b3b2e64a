"""Case 28: a stopping broker hands over its partitions, and writers with acks=all continue without it."""

from __future__ import annotations

import asyncio
from pathlib import Path

from pybroker.cluster.decisions.plan import NewTopic
from pybroker.server import Broker
from pybroker.tests.cluster import Cluster, in_loop, pause
from pybroker.tests.several_brokers.test_replication import append, has_led, read_all, three
from pyclient.protocol import errors

REPLICAS = ((1, 2, 3), (2, 3, 1), (3, 1, 2), (1, 3, 2), (2, 1, 3), (3, 2, 1))
TOPICS = tuple(f"t{number}" for number in range(len(REPLICAS)))


class Writer:
    """Appends to the leader of its topic; ``acked`` has the acknowledged values, in order."""

    def __init__(self, brokers: dict[int, Broker], topic: str) -> None:
        self._brokers = brokers
        self.topic = topic
        self.acked: list[bytes] = []
        self.task = asyncio.ensure_future(self._run())

    async def _run(self) -> None:
        number = 0
        while True:
            leaders = [each for each in self._brokers.values() if has_led(each, self.topic)]
            value = b"%d" % number
            number += 1
            try:
                await append(leaders[0], value, topic=self.topic)
                self.acked.append(value)
            except (IndexError, errors.KafkaError):
                pass  # nobody leads at the moment
            await pause()


async def create(broker: Broker) -> None:
    configs = (("min.insync.replicas", "2"),)
    await broker.controller.create_topics(
        [
            NewTopic(topic, assignments=((0, replicas),), configs=configs)
            for topic, replicas in zip(TOPICS, REPLICAS, strict=True)
        ]
    )


def test_case_28_acks_all_continues_while_brokers_stop_one_by_one(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with Cluster(tmp_path) as cluster:
            brokers = await three(cluster)
            await create(brokers[0])
            writers = [Writer(cluster.brokers, topic) for topic in TOPICS]
            for node_id in (2, 1, 3):  # the first controller is stopped second
                await go_on(cluster, writers)
                await cluster.stop(node_id)
                await go_on(cluster, writers)
                await cluster.start(node_id)
                await cluster.until(lambda: all_in_sync(cluster))
            for writer in writers:
                writer.task.cancel()
                await asyncio.wait([writer.task])
                leader = next(b for b in cluster.brokers.values() if has_led(b, writer.topic))
                stored = read_all(leader, writer.topic)
                assert [value for value in stored if value in set(writer.acked)] == writer.acked

    in_loop(scenario)


async def go_on(cluster: Cluster, writers: list[Writer]) -> None:
    """Waits until every writer has more acknowledged values."""
    before = [len(writer.acked) for writer in writers]
    await cluster.until(
        lambda: all(len(w.acked) >= n + 20 for w, n in zip(writers, before, strict=True))
    )


def all_in_sync(cluster: Cluster) -> bool:
    images = [broker.metadata.image for broker in cluster.brokers.values()]
    return all(len(i.topics[topic].partitions[0].isr) == 3 for i in images for topic in TOPICS)
