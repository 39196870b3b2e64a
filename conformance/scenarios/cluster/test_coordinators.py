"""Kills the coordinator of groups: S60."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from conformance import drivers
from conformance.drivers import CLIENTS
from conformance.drivers.base import ClientError, CommitRefused, Consumer, Place
from conformance.scenarios.cluster.brokers import OpenCluster
from harness.clients.librdkafka import write
from harness.protocol import kinds
from harness.protocol.wire_client import Wire
from harness.waiting import until


def coordinator(cluster: OpenCluster, group: str) -> int:
    """Returns the coordinator of the group, or 0."""
    with Wire(cluster.address(cluster.alive())) as wire:
        reply = wire.ask("FindCoordinator", 3, key=group, key_type=kinds.GROUP)
    return int(reply.node_id) if reply.error_code == 0 else 0


def found(cluster: OpenCluster, group: str) -> int:
    """Waits for the group's coordinator and returns it."""
    return until(lambda: coordinator(cluster, group), "a coordinator")


def groups_of(cluster: OpenCluster, broker: int, prefix: str) -> Iterator[str]:
    """Returns names of groups that this broker coordinates."""
    for number in itertools.count():
        name = f"{prefix}-{number}"
        if found(cluster, name) == broker:
            yield name


class Reader:
    """A group's only member, which reads and commits one partition."""

    def __init__(self, cluster: OpenCluster, client: str, protocol: str, group: str, place: Place) -> None:
        settings = {"group_id": group, "group_protocol": protocol, "heartbeat_interval_ms": 200}
        self.group = group
        self.place = place
        self.read = 0
        self.member = drivers.opened(client).consumer(cluster.bootstrap, **settings)
        self.member.subscribe([place.topic])

    def has(self, count: int) -> bool:
        """Returns whether the reader has read this many records, each once, in order."""
        for record in self.member.poll(0.05):
            assert record.offset == self.read, f"{self.group}: {record} after {self.read} records"
            self.read += 1
        return self.read == count

    def holds(self, offset: int) -> bool:
        """Returns whether the broker accepts a commit; a member with a new coordinator may have to rejoin first."""
        self.has(offset)
        try:
            self.member.commit({self.place: offset})
        except CommitRefused:
            return False
        return self.member.committed([self.place]) == {self.place: offset}


def test_s60_committed_offsets_are_found_after_the_coordinator_has_moved(embedded: OpenCluster, topic: str) -> None:
    """Connections stay open, and no heartbeat tells clients: each one asks the old coordinator and learns of the new
    one.
    """
    cluster, place = embedded, Place(topic, 0)
    cluster.create_topic(topic, 1, 3, min_insync_replicas=2)
    write(cluster, topic, [b"%d" % number for number in range(20)])
    with ExitStack() as open_ones:
        consumers = {}
        for client in sorted({name for name, _ in CLIENTS}):
            group = f"{topic}-{client}"
            consumers[group] = drivers.opened(client).consumer(cluster.bootstrap, group_id=group)
            open_ones.callback(consumers[group].close)
            consumers[group].assign({place: 0})
            consumers[group].commit({place: 20})
        before = {group: found(cluster, group) for group in consumers}
        _move(cluster, "__consumer_offsets")
        assert all(found(cluster, group) != before[group] for group in consumers)
        for group, consumer in consumers.items():
            told = until(lambda consumer=consumer: _told(consumer, place), f"an answer to {group}")  # type: ignore[misc]
            assert told == {place: 20}, group


def _told(consumer: Consumer, place: Place) -> dict[Place, int]:
    """Returns the committed offsets; empty if the client leaves the retry to the application."""
    try:
        return consumer.committed([place])
    except ClientError:
        return {}


def _move(cluster: OpenCluster, topic: str) -> None:
    """Makes the next replica of each partition the leader."""
    led = {number: row.leader for number, row in cluster.partitions(topic).items()}
    order = {number: tuple(sorted((1, 2, 3), key=lambda id: (id - leader - 1) % 3)) for number, leader in led.items()}
    cluster.reassign(topic, order)
    with Wire(cluster.address(1)) as wire:
        asked = [{"topic": topic, "partitions": list(led)}]
        wire.ask("ElectLeaders", 1, election_type=0, topic_partitions=asked, timeout_ms=30_000)
    partitions = cluster.partitions
    until(lambda: all(partitions(topic)[number].leader == order[number][0] for number in led), "other leaders")


@pytest.mark.parametrize(
    "coordination", ["embedded", pytest.param("on_zookeeper", marks=[pytest.mark.campaign, pytest.mark.row])]
)
def test_s60_another_broker_coordinates_and_no_commit_is_lost(
    request: pytest.FixtureRequest, coordination: str, topic: str
) -> None:
    """Each client and protocol has a group; the test kills the broker that coordinates all of them."""
    cluster: OpenCluster = request.getfixturevalue(coordination)
    cluster.create_topic(topic, 1, 3, min_insync_replicas=2)
    write(cluster, topic, [b"%d" % number for number in range(20)])
    victim, place = found(cluster, topic), Place(topic, 0)
    names = groups_of(cluster, victim, topic)
    with ExitStack() as members:
        readers = [Reader(cluster, *client, next(names), place) for client in CLIENTS]
        for reader in readers:
            members.callback(reader.member.close)
        until(lambda: all([reader.has(20) for reader in readers]), "all records at all members")
        for reader in readers:
            reader.member.commit({place: 20})
        with cluster.down(victim):
            write(cluster, topic, [b"%d" % number for number in range(20, 30)])
            until(lambda: all([reader.has(30) for reader in readers]), "the records of afterwards at all members")
            until(lambda: all([reader.holds(30) for reader in readers]), "commits at the next coordinator")
            assert all(found(cluster, reader.group) != victim for reader in readers)
    for reader in readers:
        with drivers.opened("confluent").consumer(cluster.bootstrap, group_id=reader.group) as heir:
            assert heir.committed([place]) == {place: 30}
