"""Brokers die and return at random while everything is written with acks=all: S31 in one process, by a seed."""

from __future__ import annotations

import asyncio
import random
from pathlib import Path

import pytest

from cy.batch import iterate
from pybroker.replication.fetch_session import Key
from pybroker.replication.leading.follower_session import FollowerSession
from pybroker.replication.partition import Partition
from pybroker.replication.tests.harness import batch
from pybroker.server import Broker
from pybroker.tests.cluster import Cluster, in_loop
from pybroker.tests.several_brokers.test_replication import create, members, partition, raw, three
from pybroker.topic_partition import TopicPartition
from pyclient.protocol import errors

pytestmark = pytest.mark.nightly

TOPICS = ("a", "b", "c")


class Workload:
    """Writers, one per topic; each sends the next value as soon as the last one is acknowledged."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self.acknowledged: dict[str, list[tuple[int, bytes]]] = {topic: [] for topic in TOPICS}
        self.is_over = False

    def leader(self, topic: str) -> Broker | None:
        """Returns the broker that says that it leads; if several do, the one with the newest epoch."""
        found = [
            broker
            for broker in self.cluster.brokers.values()
            if 0 in broker.replicas.partitions.topics.get(topic, {}) and partition(broker, topic).is_leader
        ]
        return max(found, key=lambda broker: partition(broker, topic).leader_epoch, default=None)

    async def write(self, topic: str) -> None:
        number = 0
        while not self.is_over:
            number += 1
            value = b"%d" % number
            try:
                await self._append(topic, value)
            except errors.KafkaError:
                await asyncio.sleep(0.005)

    async def _append(self, topic: str, value: bytes) -> None:
        broker = self.leader(topic)
        if broker is None:
            await asyncio.sleep(0.005)
            return
        now_ms = broker.clock.now_ms()
        what = batch(value, timestamp=now_ms)
        appended = broker.replicas.append(TopicPartition(topic, 0), what, -1, now_ms, timeout_ms=2_000)
        if appended.done is not None:
            try:
                await appended.done
            except asyncio.CancelledError:
                return  # that broker has gone
        self.acknowledged[topic].append((appended.info.first_offset, value))
        await asyncio.sleep(0)


async def live(cluster: Cluster, chance: random.Random, faults: int) -> None:
    """Usually two of the three brokers run, sometimes only one, or none. Connections among them break,
    and sessions of the coordination store expire.
    """
    for _ in range(faults):
        await asyncio.sleep(chance.uniform(0.01, 0.3))
        there, gone = sorted(cluster.brokers), sorted({1, 2, 3} - set(cluster.brokers))
        if gone and (chance.random() < 0.6 or len(gone) == 3):
            await cluster.start(chance.choice(gone))
            continue
        victim, fault = chance.choice(there), chance.random()
        if fault < 0.45:
            await cluster.kill(victim)
        elif fault < 0.6:
            await cluster.stop(victim)
        elif fault < 0.85:
            cut(cluster.brokers[victim])
        else:
            await cluster.store.expire(cluster.brokers[victim]._store.session.id)


def cut(broker: Broker) -> None:
    """Breaks all connections of the broker to others."""
    for peer in broker.peers._peers.values():
        peer.moved()


def check(workload: Workload, cluster: Cluster) -> None:
    """Checks that no acknowledged record is lost or moved, and that all replicas have the same bytes."""
    for topic in TOPICS:
        logs = [partition(broker, topic).log for broker in cluster.brokers.values()]
        assert len({raw(log) for log in logs}) == 1
        found = {record.offset: record.value for record in iterate(raw(logs[0]))}
        for offset, value in workload.acknowledged[topic]:
            assert found.get(offset) == value, f"{topic}: {value!r} was acknowledged at {offset}"


@pytest.mark.parametrize("seed", [1, 2])
def test_s31_nothing_acknowledged_is_lost_while_brokers_die_and_return(tmp_path: Path, seed: int) -> None:
    run(tmp_path, seed, faults=25)


@pytest.mark.campaign
@pytest.mark.parametrize("seed", range(100, 130))
def test_s31_nothing_acknowledged_is_lost_in_many_lives(tmp_path: Path, seed: int) -> None:
    run(tmp_path, seed, faults=60)


def run(root: Path, seed: int, faults: int) -> None:
    async def scenario() -> None:
        async with Cluster(root) as cluster:
            first = (await three(cluster))[0]
            for number, topic in enumerate(TOPICS):
                order = [(number + each) % 3 + 1 for each in range(3)]
                await create(first, *order, topic=topic, min_insync_replicas="2")
            workload = Workload(cluster)
            writers = [asyncio.ensure_future(workload.write(topic)) for topic in TOPICS]
            await live(cluster, random.Random(seed), faults)
            for gone in sorted({1, 2, 3} - set(cluster.brokers)):
                await cluster.start(gone)
            await cluster.until(lambda: all(is_whole(workload, topic) for topic in TOPICS))
            workload.is_over = True
            await asyncio.gather(*writers)
            await cluster.until(lambda: all(are_alike(cluster, topic) for topic in TOPICS))
            check(workload, cluster)
            assert sum(map(len, workload.acknowledged.values())) > faults

    in_loop(scenario)


def is_whole(workload: Workload, topic: str) -> bool:
    """Returns whether all replicas are in sync again."""
    leader = workload.leader(topic)
    return leader is not None and members(leader, topic) == {1, 2, 3}


def are_alike(cluster: Cluster, topic: str) -> bool:
    """Returns whether all replicas have the same end."""
    return len({partition(broker, topic).log.log_end_offset for broker in cluster.brokers.values()}) == 1


def test_the_checker_detects_a_leader_that_does_not_wait_for_its_followers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    woken = FollowerSession.woken

    def woken_late(session: FollowerSession, key: Key) -> None:
        asyncio.get_running_loop().call_later(0.05, woken, session, key)

    monkeypatch.setattr(FollowerSession, "woken", woken_late)
    monkeypatch.setattr(Partition, "is_replicated", lambda partition, last_offset: True)
    with pytest.raises(AssertionError, match="was acknowledged"):
        run(tmp_path, 3, faults=12)
