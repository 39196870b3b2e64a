"""A topic that vanished from the store without a deletion is missing: no broker deletes its logs."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from pybroker.cluster.decisions.plan import NewPartitions, NewTopic, TopicName
from pybroker.cluster.metadata import znodes
from pybroker.cluster.metadata.image import MetadataImage, PartitionImage, ResourceType, TopicImage
from pybroker.cluster.tests.harness import Member, Members, assigned, membership_of, proposal, propose
from pybroker.store.interface import CoordinationStore, Create, Delete, Operation, Set
from pybroker.tests.waiting import PATIENCE_S
from pybroker.topic_partition import TopicPartition
from pyclient.protocol import errors


def run(file: Path, scenario: Callable[[Members], Awaitable[None]]) -> None:
    """Runs a scenario after which the brokers' images and the store may differ."""

    async def main() -> None:
        async with asyncio.timeout(PATIENCE_S), Members(file) as members:
            await scenario(members)

    asyncio.run(main())


async def by_hand(members: Members, *operations: Operation) -> None:
    store = await members.server.connect()
    await store.multi(operations)
    await store.close()


def nodes_of(name: str, partitions: int) -> list[Operation]:
    """Returns operations that delete the nodes of a topic, as ZooKeeper's `deleteall` does, and its configuration."""
    gone: list[Operation] = []
    for index in range(partitions):
        gone += [Delete(znodes.state_path(name, index)), Delete(f"{znodes.partitions_path(name)}/{index}")]
    config = Delete(znodes.config_path(ResourceType.TOPIC, name))
    return [*gone, Delete(znodes.partitions_path(name)), Delete(znodes.topic_path(name)), config]


def follower(members: Members) -> Member:
    return next(member for member in members.alive.values() if not member.is_controller)


def told(members: Members) -> tuple[set[str], set[str]]:
    """Returns the names of topics that any broker saw deleted, and of those that any broker saw missing."""
    deltas = [delta for member in members.alive.values() for delta in member.deltas]
    deleted = {topic.name for delta in deltas for topic in delta.deleted.values()}
    return deleted, {name for delta in deltas for name in delta.missing}


async def with_topics(members: Members) -> MetadataImage:
    await members.start(1, 2, 3)
    await members.controller.node.controller.create_topics([NewTopic("t", 2, 3), NewTopic("u", 2, 3)])
    return await members.settled()


def test_a_topic_that_vanished_from_the_store_is_missing_and_not_deleted(tmp_path: Path) -> None:
    async def scenario(members: Members) -> None:
        await with_topics(members)
        await by_hand(members, *nodes_of("t", 2))
        member = follower(members)
        await membership_of(member)._reload()
        assert member.image.topics.keys() == {"u"}
        assert told(members) == (set(), {"t"})

    run(tmp_path / "db", scenario)


def test_a_change_of_controller_deletes_nothing(tmp_path: Path) -> None:
    async def scenario(members: Members) -> None:
        await with_topics(members)
        await by_hand(members, *nodes_of("t", 2))
        await members.die(members.controller.id)
        await members.until(lambda: any(member.is_controller for member in members.alive.values()))
        await members.until(lambda: all(set(m.image.brokers) == set(members.alive) for m in members.alive.values()))
        assert told(members)[0] == set()

    run(tmp_path / "db", scenario)


def test_a_topic_created_under_the_name_of_a_missing_one_is_a_new_topic_on_every_broker(tmp_path: Path) -> None:
    async def scenario(members: Members) -> None:
        before = (await with_topics(members)).topics["t"]
        await by_hand(members, *nodes_of("t", 2))
        await membership_of(follower(members))._reload()
        while "t" in members.controller.image.topics:
            members.controller.node.controller.term.break_off()
            await members.until(lambda: any(member.is_controller for member in members.alive.values()))
        await members.controller.node.controller.create_topics([NewTopic("t", 1, 3)])
        image = await members.settled()
        assert image.topics["t"].id != before.id
        for member in members.alive.values():
            assert member.image.topic_by_id(before.id) is None
        assert told(members) == (set(), {"t"})

    run(tmp_path / "db", scenario)


def test_a_broker_that_was_away_deletes_a_topic_whose_deletion_is_noted(tmp_path: Path) -> None:
    async def scenario(members: Members) -> None:
        image = await with_topics(members)
        sleeper = follower(members)
        await membership_of(sleeper)._following.stop()
        await members.controller.node.controller.delete_topics([TopicName("t")])
        store = await members.server.connect()
        known = sorted(int(name) for name in await store.children(znodes.JOURNAL))
        await store.multi([Delete(znodes.journal_path(version)) for version in known[:-1]])
        await store.close()
        await membership_of(sleeper)._reload()
        assert [topic.id for delta in sleeper.deltas for topic in delta.deleted.values() if topic.partitions] == [
            image.topics["t"].id
        ]
        assert told(members)[1] == set()

    run(tmp_path / "db", scenario)


def test_a_broker_applies_deletions_in_journal_entries_that_it_missed(tmp_path: Path) -> None:
    """Journal entries are decisions. What a broker finds when it reads the whole store is not a decision."""

    async def scenario(members: Members) -> None:
        await with_topics(members)
        sleeper = follower(members)
        await membership_of(sleeper)._following.stop()
        await members.controller.node.controller.create_topics([NewTopic("v", 1, 3)])
        before = len(sleeper.deltas)
        await membership_of(sleeper)._follow()
        await members.until(lambda: "v" in sleeper.image.topics)
        assert [delta.reading for delta in sleeper.deltas[before:]] == [None]

    run(tmp_path / "db", scenario)


async def damage(members: Members, kind: str) -> None:
    """Garbles the nodes of topic t."""
    if kind == "all is gone":
        await by_hand(members, *nodes_of("t", 2))
    elif kind == "a state is gone":
        await by_hand(members, Delete(znodes.state_path("t", 1)))
    elif kind == "a state is no broker's":
        await by_hand(members, Set(znodes.state_path("t", 1), b"{"))
    else:
        await by_hand(members, Set(znodes.topic_path("t"), b"[]"), Set(znodes.state_path("t", 1), b"{"))


DAMAGES = ["all is gone", "a state is gone", "a state is no broker's", "the topic is no broker's"]


def leaders(members: Members, topic: str) -> list[int]:
    return [each.leader for each in members.controller.image.topics[topic].partitions]


@pytest.mark.parametrize("kind", DAMAGES)
def test_a_topic_that_cannot_be_changed_does_not_stop_elections_of_other_topics(tmp_path: Path, kind: str) -> None:
    async def scenario(members: Members) -> None:
        await members.start(1, 2, 3)
        service = members.controller.node.controller
        await service.create_topics([assigned("t", (2, 1), (3, 1)), assigned("u", (3, 1), (3, 2))])
        await members.settled()
        await damage(members, kind)
        await members.die(3)
        await members.until(lambda: leaders(members, "u") == [1, 2])
        await members.until(lambda: 3 not in members.controller.image.brokers)
        assert leaders(members, "t") == [2, 3]
        await members.start(3)
        await members.until(lambda: all(3 in member.image.brokers for member in members.alive.values()))
        assert members.controller.image.controller_epoch == 1

    run(tmp_path / "db", scenario)


@pytest.mark.parametrize("kind", DAMAGES)
def test_a_new_controller_elects_leaders_if_a_topic_is_incomplete(tmp_path: Path, kind: str) -> None:
    async def scenario(members: Members) -> None:
        await members.start(1, 2, 3)
        service = members.controller.node.controller
        await service.create_topics([assigned("t", (1, 2), (1, 3)), assigned("u", (1, 2), (1, 3))])
        await members.settled()
        await damage(members, kind)
        await members.die(1)
        await members.until(lambda: any(member.is_controller for member in members.alive.values()))
        await members.until(lambda: leaders(members, "u") == [2, 3])
        assert members.controller.image.controller_epoch == 2
        assert all("t" in member.image.topics for member in members.alive.values())

    run(tmp_path / "db", scenario)


def test_an_isr_change_succeeds_though_another_in_the_request_fails(tmp_path: Path) -> None:
    async def scenario(members: Members) -> None:
        await members.start(1, 2, 3)
        service = members.controller.node.controller
        await service.create_topics([assigned("t", (1, 2), (1, 2)), assigned("u", (1, 2))])
        image = await members.settled()
        await damage(members, "a state is gone")
        bad, good = await propose(members, 1, proposal(image, 1, index=1), proposal(image, 1, topic="u"))
        assert isinstance(bad, errors.UnknownServerError)
        assert isinstance(good, PartitionImage)
        assert good.isr == (1,)

    run(tmp_path / "db", scenario)


@pytest.mark.parametrize("kind", DAMAGES)
def test_a_topic_whose_nodes_are_incomplete_can_be_deleted(tmp_path: Path, kind: str) -> None:
    async def scenario(members: Members) -> None:
        await with_topics(members)
        await damage(members, kind)
        service = members.controller.node.controller
        [topic] = await service.delete_topics([TopicName("t")])
        assert isinstance(topic, TopicImage)
        await members.settled()
        await members.check_store()
        [made] = await service.create_topics([NewTopic("t", 3, 3)])
        assert isinstance(made, TopicImage)
        await members.settled()
        await service.create_partitions([NewPartitions("t", 4)])
        await members.settled()
        await members.check_store()

    run(tmp_path / "db", scenario)


def test_a_topic_continues_when_its_nodes_are_restored(tmp_path: Path) -> None:
    async def scenario(members: Members) -> None:
        await members.start(1, 2, 3)
        service = members.controller.node.controller
        await service.create_topics([assigned("t", (3, 2)), assigned("u", (3, 2))])
        path = znodes.state_path("t", 0)
        store = await members.server.connect()
        [state] = await store.get_many([path])
        await store.delete(path)
        await members.die(3)
        await members.until(lambda: leaders(members, "u") == [2])
        refused = await service.elect_leaders([TopicPartition("t", 0)], unclean=True)
        assert isinstance(refused[TopicPartition("t", 0)], errors.UnknownServerError)
        await store.create(path, state[0])
        await service.look_at_store()
        assert leaders(members, "t") == [2]
        await members.settled()
        await members.check_store()
        await store.close()

    run(tmp_path / "db", scenario)


async def nodes_as_they_are(store: CoordinationStore, name: str, partitions: int) -> list[Operation]:
    """Returns operations that create the present nodes of a topic again."""
    paths = [each.path for each in reversed(nodes_of(name, partitions)) if isinstance(each, Delete)]
    found = await store.get_many(paths)
    return [Create(path, node[0]) for path, node in zip(paths, found, strict=True) if node is not None]


@pytest.mark.parametrize("again", [[1], [2], [1, 2, 3]], ids=["the controller", "a follower", "all"])
def test_brokers_that_started_without_the_nodes_of_a_topic_learn_of_it_once_they_are_restored(
    tmp_path: Path, again: list[int]
) -> None:
    async def scenario(members: Members) -> None:
        before = await with_topics(members)
        backup = await nodes_as_they_are(members.controller.node.controller.store, "t", 2)
        await by_hand(members, *nodes_of("t", 2))
        for broker in again:
            await members.die(broker)
        for broker in again:
            await members.start(broker)
        await members.settled()
        assert all("t" not in members.alive[broker].image.topics for broker in again)
        await by_hand(members, *backup)
        for _ in range(2):  # a change that the controller makes may come between a follower's look and its reading
            for member in list(members.alive.values()):
                await membership_of(member).look_at_store()
            await members.settled()
        await members.until(lambda: all("t" in member.image.topics for member in members.alive.values()))
        assert {member.image.topics["t"].id for member in members.alive.values()} == {before.topics["t"].id}
        await members.check_store()

    run(tmp_path / "db", scenario)


def test_a_check_of_the_store_changes_nothing_if_the_metadata_are_current(tmp_path: Path) -> None:
    async def scenario(members: Members) -> None:
        await with_topics(members)
        seen = {member.id: len(member.deltas) for member in members.alive.values()}
        for member in members.alive.values():
            await membership_of(member).look_at_store()
        assert {member.id: len(member.deltas) for member in members.alive.values()} == seen

    run(tmp_path / "db", scenario)
