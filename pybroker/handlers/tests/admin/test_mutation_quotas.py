"""Quotas of the topics and partitions that clients create and delete (KIP-599)."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from pybroker.handlers.tests.admin.administration import Administration, run
from pybroker.handlers.tests.harness import FakeConnection, OneItemTurns
from pybroker.quotas.client_quotas import ClientQuotas
from pybroker.quotas.keys import MUTATIONS, Entity
from pybroker.quotas.rate import Windows
from pybroker.security.acls import AccessControlEntry, ResourcePattern
from pybroker.security.authorizer import StandardAuthorizer
from pyclient.protocol import CreatePartitions, CreateTopics, DeleteTopics, Metadata
from pyclient.protocol.acls import AclOperation, AclPermissionType, AclResourceType

REFUSED, DENIED, UNKNOWN, NO_LEADER, INVALID = 89, 29, 3, 5, 42
Creatable = CreateTopics.Request.CreatableTopic
Growing = CreatePartitions.Request.CreatePartitionsTopic


def limit(ask: Administration, rate: float) -> None:
    """Sets a quota of ``rate`` partitions a second, with bursts of at most ten times as many."""
    ask.broker.quotas = ClientQuotas(Windows(), Windows(10, 1000))
    ask.broker.quotas.update({Entity("alice"): {MUTATIONS: rate}})


async def create(ask: Administration, version: int, connection: Any = None, **counts: int) -> tuple[int, list[int]]:
    topics = [Creatable(name=name, num_partitions=count, replication_factor=1) for name, count in counts.items()]
    request = CreateTopics.Request(topics=topics, timeout_ms=1000)
    response = await ask(CreateTopics, version, request, connection)
    return response.throttle_time_ms, [each.error_code for each in response.topics]


async def delete(ask: Administration, version: int, *names: str) -> tuple[int, list[int]]:
    request = DeleteTopics.Request(topic_names=list(names), timeout_ms=1000)
    if version >= 6:
        states = [DeleteTopics.Request.DeleteTopicState(name=name) for name in names]
        request = DeleteTopics.Request(topics=states, timeout_ms=1000)
    response = await ask(DeleteTopics, version, request)
    return response.throttle_time_ms, [each.error_code for each in response.responses]


async def grow(ask: Administration, version: int, **counts: int) -> tuple[int, list[int]]:
    topics = [Growing(name=name, count=count, assignments=None) for name, count in counts.items()]
    response = await ask(CreatePartitions, version, CreatePartitions.Request(topics=topics, timeout_ms=1000))
    return response.throttle_time_ms, [each.error_code for each in response.results]


async def ask_for(ask: Administration, *names: str, connection: Any = None) -> tuple[int, list[int]]:
    topics = [Metadata.Request.MetadataRequestTopic(name=name) for name in names]
    response = await ask(Metadata, 12, Metadata.Request(topics=topics), connection)
    return response.throttle_time_ms, [each.error_code for each in response.topics]


@pytest.mark.parametrize("version", [6, 7])
def test_a_client_over_its_mutation_quota_is_refused_until_it_recovers(version: int) -> None:
    async def scenario(ask: Administration) -> None:
        limit(ask, 1)
        assert await create(ask, version, a=4, b=11) == (0, [0, 0])
        assert await create(ask, version, c=1) == (5000, [REFUSED])
        assert "c" not in ask.broker.metadata.image.topics
        ask.broker.clock.advance(4999)
        assert await create(ask, version, c=1) == (1, [REFUSED])
        ask.broker.clock.advance(1)
        assert await create(ask, version, c=1) == (0, [0])

    run(scenario)


def test_topics_of_a_request_are_created_until_the_quota_is_exceeded() -> None:
    async def scenario(ask: Administration) -> None:
        limit(ask, 1)
        assert await create(ask, 7, a=10, b=1, c=1) == (1000, [0, 0, REFUSED])

    run(scenario)


def test_a_request_for_many_topics_over_quota_is_refused_in_several_turns() -> None:
    async def scenario(ask: Administration) -> None:
        limit(ask, 1)
        await create(ask, 7, a=11)
        many = {f"t{number}": 1 for number in range(2500)}
        ask.broker.turns = turns = OneItemTurns()
        assert (await create(ask, 7, **many))[1] == [REFUSED] * len(many)
        assert turns.count >= 2 * len(many)

    run(scenario)


def test_older_versions_of_topic_requests_over_quota_succeed_and_are_throttled() -> None:
    async def scenario(ask: Administration) -> None:
        limit(ask, 1)
        assert await create(ask, 5, a=10, b=2) == (2000, [0, 0])
        assert await create(ask, 5, c=1) == (3000, [0])
        assert await grow(ask, 2, c=3) == (5000, [0])
        assert await delete(ask, 4, "a") == (15_000, [0])

    run(scenario)


@pytest.mark.parametrize("version", [5, 6])
def test_a_deletion_of_a_topic_uses_quota_for_each_of_its_partitions(version: int) -> None:
    async def scenario(ask: Administration) -> None:
        await create(ask, 7, a=12, b=1)
        limit(ask, 1)
        assert await delete(ask, version, "a", "b") == (2000, [0, REFUSED])
        assert await delete(ask, version, "b", "none") == (2000, [3, REFUSED])

    run(scenario)


def test_create_partitions_uses_quota_for_the_new_partitions_only() -> None:
    async def scenario(ask: Administration) -> None:
        await create(ask, 7, a=5, b=1)
        limit(ask, 1)
        assert await grow(ask, 3, a=17, b=2) == (2000, [0, REFUSED])
        assert len(ask.broker.metadata.image.topics["b"].partitions) == 1

    run(scenario)


def test_a_topic_request_that_fails_uses_no_quota() -> None:
    async def scenario(ask: Administration) -> None:
        await create(ask, 7, a=1)
        limit(ask, 1)
        assert await create(ask, 7, a=500) == (0, [36])
        assert await create(ask, 7, b=2**31 - 1) == (0, [44])
        assert await grow(ask, 3, a=1, none=500) == (0, [37, 3])
        assert await delete(ask, 6, "none") == (0, [3])
        topic = Creatable(name="twice", num_partitions=50, replication_factor=1)
        twice = CreateTopics.Request(topics=[topic, topic], timeout_ms=1000)
        assert [each.error_code for each in (await ask(CreateTopics, 7, twice)).topics] == [42]
        assert await create(ask, 7, c=10) == (0, [0])

    run(scenario)


def test_requests_of_brokers_and_other_users_do_not_use_a_clients_mutation_quota() -> None:
    async def scenario(ask: Administration) -> None:
        limit(ask, 1)
        broker, bob = FakeConnection(), FakeConnection()
        broker.broker_id, bob.principal = 2, "User:bob"
        for connection in (broker, bob):
            connection.local_address = ("10.1.2.3", 9092)
        assert await create(ask, 7, broker, a=50) == (0, [0])
        assert await create(ask, 7, bob, b=50) == (0, [0])
        assert await create(ask, 7, c=10, d=1, e=1) == (1000, [0, 0, REFUSED])

    run(scenario)


def test_an_unauthorized_client_learns_nothing_about_topics_and_uses_no_quota() -> None:
    async def scenario(ask: Administration) -> None:
        await create(ask, 7, hidden=12)
        limit(ask, 1)
        assert await create(ask, 7, own=11) == (0, [0])
        ask.broker.authorizer = authorizer = StandardAuthorizer()
        missing, hidden = await create(ask, 7, missing=1), await create(ask, 7, hidden=1)
        assert missing == hidden == (0, [DENIED])
        assert await grow(ask, 3, hidden=20) == await grow(ask, 3, missing=20) == (0, [DENIED])
        assert await delete(ask, 5, "hidden") == await delete(ask, 5, "missing") == (0, [DENIED])
        topic = ask.broker.metadata.image.topics["hidden"]
        by_id = DeleteTopics.Request(topics=[DeleteTopics.Request.DeleteTopicState(name=None, topic_id=topic.id)])
        assert [each.error_code for each in (await ask(DeleteTopics, 6, by_id)).responses] == [DENIED]
        deletes = AccessControlEntry("User:alice", "*", AclOperation.DELETE, AclPermissionType.ALLOW)
        authorizer.update({ResourcePattern(AclResourceType.TOPIC, "hidden"): (deletes,)})
        assert await delete(ask, 6, "hidden") == (1000, [REFUSED])

    run(scenario)


def test_auto_created_topics_use_quota_and_stay_unknown_while_the_client_exceeds_it() -> None:
    async def scenario(ask: Administration) -> None:
        limit(ask, 1)
        assert await ask_for(ask, "a", "b", "c", "d") == (0, [0, 0, 0, UNKNOWN])
        assert ask.broker.metadata.image.topics.keys() == {"a", "b", "c"}
        assert await ask_for(ask, "a", "d") == (0, [0, UNKNOWN])
        assert await create(ask, 7, e=1) == (5000, [REFUSED])
        ask.broker.clock.advance(5000)
        assert await ask_for(ask, "d") == (0, [0])
        assert await create(ask, 7, e=1) == (5000, [REFUSED])

    run(scenario, {"num.partitions": "5"})


def test_an_internal_topic_uses_quota_for_its_configured_partitions() -> None:
    async def scenario(ask: Administration) -> None:
        limit(ask, 1)
        assert await ask_for(ask, "__consumer_offsets") == (0, [0])
        assert await create(ask, 7, a=1) == (40_000, [REFUSED])

    run(scenario, {"offsets.topic.num.partitions": "50"})


def test_topics_that_exist_or_cannot_be_created_use_no_quota() -> None:
    async def scenario(ask: Administration) -> None:
        limit(ask, 1)
        assert await ask_for(ask, "a", "b") == (0, [NO_LEADER, NO_LEADER])
        assert await create(ask, 7, a=10) == (0, [0])
        assert await ask_for(ask, "a") == (0, [0])
        ask.broker.clock.advance(10_000)
        assert await create(ask, 7, c=10) == (0, [0])

    run(scenario, {"default.replication.factor": "3", "num.partitions": "9"})


def test_concurrent_requests_that_auto_create_one_topic_use_quota_once() -> None:
    async def scenario(ask: Administration) -> None:
        limit(ask, 1)
        told = await asyncio.gather(*(ask_for(ask, "a") for _ in range(3)))
        assert told == [(0, [0])] * 3
        assert await create(ask, 7, b=8) == (0, [0])
        assert await create(ask, 7, c=1) == (0, [0])

    run(scenario, {"num.partitions": "2"})


@pytest.mark.parametrize("version", [1, 3, 4, 5, 6])
def test_a_deletion_that_names_a_topic_twice_is_refused_once_and_uses_no_quota(version: int) -> None:
    async def scenario(ask: Administration) -> None:
        await create(ask, 7, a=12, b=3)
        limit(ask, 1)
        assert await delete(ask, version, "a", "a", "none", "none", "a") == (0, [INVALID, INVALID])
        assert await delete(ask, version, "a", "b", "a") == (0, [INVALID, 0])
        assert await create(ask, 7, c=7) == (0, [0])
        assert await create(ask, 7, d=1, e=1) == (1000, [0, REFUSED])

    run(scenario)
