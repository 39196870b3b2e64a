"""Metadata and its relatives: DescribeTopicPartitions, DescribeCluster."""

from __future__ import annotations

import asyncio
import logging
from types import SimpleNamespace

import pytest

from pybroker.cluster.decisions.plan import NewPartitions, NewTopic
from pybroker.cluster.metadata.image import (
    METADATA_TOPIC,
    OFFSETS_TOPIC,
    TRANSACTIONS_TOPIC,
    BrokerRegistration,
    MetadataDelta,
)
from pybroker.config import Endpoint
from pybroker.handlers.common.described import DescribedTopics, Form
from pybroker.handlers.tests.admin.administration import LOCAL, Administration, run
from pybroker.handlers.tests.harness import OneItemTurns
from pybroker.security.authorizer import StandardAuthorizer
from pyclient.protocol import (
    ZERO_UUID,
    DeleteTopics,
    DescribeCluster,
    DescribeTopicPartitions,
    Metadata,
    errors,
)

Wanted = Metadata.Request.MetadataRequestTopic


def asking(*names: str) -> Metadata.Request:
    return Metadata.Request(topics=[Wanted(name=name) for name in names])


async def with_topics(ask: Administration, **partitions: int) -> None:
    await ask.node.controller.create_topics(
        [NewTopic(name, count, 1) for name, count in partitions.items()]
    )


def test_a_null_topic_list_means_all_topics_and_an_empty_list_none_except_in_version_0() -> None:
    async def scenario(ask: Administration) -> None:
        await with_topics(ask, a=1, b=2)
        for version in range(1, 14):
            everything = await ask(Metadata, version, Metadata.Request(topics=None))
            assert [topic.name for topic in everything.topics] == ["a", "b"]
            assert (await ask(Metadata, version, Metadata.Request(topics=[]))).topics == []
        assert len((await ask(Metadata, 0, Metadata.Request(topics=[]))).topics) == 2

    run(scenario)


def test_a_topic_is_described_with_leaders_epochs_and_replicas() -> None:
    async def scenario(ask: Administration) -> None:
        await with_topics(ask, a=2)
        response = await ask(Metadata, 12, asking("a"))
        [topic] = response.topics
        assert topic.topic_id == ask.node.metadata.image.topics["a"].id
        assert [p.partition_index for p in topic.partitions] == [0, 1]
        first = topic.partitions[0]
        assert (first.leader_id, first.leader_epoch, first.error_code) == (1, 0, 0)
        assert (first.replica_nodes, first.isr_nodes, first.offline_replicas) == ([1], [1], [])
        assert response.controller_id == 1
        assert response.cluster_id == ask.node.cluster_id
        assert topic.topic_authorized_operations == -(1 << 31)

    run(scenario)


def test_only_a_client_that_may_describe_a_topic_waits_for_its_suspected_leader() -> None:
    async def scenario(ask: Administration) -> None:
        await with_topics(ask, a=1)
        waits = 0

        async def settled() -> None:
            nonlocal waits
            waits += 1

        ask.broker.suspects = SimpleNamespace(lead=any, departed=list, settled=settled)
        for request in (asking("a"), Metadata.Request(topics=None)):
            ask.broker.authorizer = StandardAuthorizer()
            await ask(Metadata, 12, request)
            assert waits == 0
            ask.broker.authorizer = None
            await ask(Metadata, 12, request)
            assert waits == 1
            waits = 0

    run(scenario)


def test_clients_get_the_address_that_they_connected_to() -> None:
    async def scenario(ask: Administration) -> None:
        [broker] = (await ask(Metadata, 12, asking())).brokers
        assert (broker.node_id, broker.host, broker.port) == (1, *LOCAL)

    run(scenario)


def test_a_metadata_request_creates_a_missing_topic_before_the_answer() -> None:
    async def scenario(ask: Administration) -> None:
        [topic] = (await ask(Metadata, 9, asking("new"))).topics
        assert (topic.error_code, len(topic.partitions)) == (0, 3)
        assert topic.partitions[0].leader_id == 1
        [offsets] = (await ask(Metadata, 9, asking(OFFSETS_TOPIC))).topics
        assert (offsets.is_internal, len(offsets.partitions)) == (True, 50)

    run(scenario, {"num.partitions": "3"})


def test_an_auto_created_topic_is_logged_once_with_its_client(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def scenario(ask: Administration) -> None:
        for _ in range(2):
            await ask(Metadata, 9, asking("flihgts", "a/b"))

    with caplog.at_level(logging.INFO, "pybroker.handlers.metadata"):
        run(scenario)
    [told] = [each.getMessage() for each in caplog.records if "created automatically" in each.getMessage()]
    assert told.startswith("topics are created automatically, because client ")
    assert told.endswith(" requested them: flihgts")


def test_a_topic_is_not_auto_created_if_the_client_or_the_broker_forbids_it() -> None:
    async def scenario(ask: Administration) -> None:
        request = asking("new")
        request.allow_auto_topic_creation = False
        [topic] = (await ask(Metadata, 9, request)).topics
        assert topic.error_code == errors.UnknownTopicOrPartition.code
        assert ask.node.metadata.image.topics == {}

    run(scenario)

    async def forbidden(ask: Administration) -> None:
        [topic] = (await ask(Metadata, 9, asking("new"))).topics
        assert topic.error_code == errors.UnknownTopicOrPartition.code

    run(forbidden, {"auto.create.topics.enable": "false"})


def test_a_failed_auto_creation_returns_the_reason() -> None:
    async def scenario(ask: Administration) -> None:
        topics = (await ask(Metadata, 9, asking("a/b", METADATA_TOPIC))).topics
        assert [topic.error_code for topic in topics] == [
            errors.InvalidTopicException.code,
            errors.InvalidRequest.code,
        ]

    run(scenario)


def test_auto_creation_with_too_few_brokers_returns_leader_not_available(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def scenario(ask: Administration) -> None:
        for _ in range(2):
            topics = (await ask(Metadata, 9, asking("x", "y", OFFSETS_TOPIC, TRANSACTIONS_TOPIC))).topics
            assert {topic.error_code for topic in topics} == {errors.LeaderNotAvailable.code}

    run(scenario, {"default.replication.factor": "3"})
    told = [record.getMessage() for record in caplog.records if "cannot be created yet" in record.getMessage()]
    assert len(told) == 3
    assert all("only 1 broker(s)" in line for line in told)


def test_metadata_finds_topics_by_id_from_version_12_on() -> None:
    async def scenario(ask: Administration) -> None:
        await with_topics(ask, a=1)
        known = Wanted(topic_id=ask.node.metadata.image.topics["a"].id, name=None)
        unknown = Wanted(topic_id=b"x" * 16, name=None)
        response = await ask(Metadata, 12, Metadata.Request(topics=[known, unknown]))
        assert [(topic.name, topic.error_code) for topic in response.topics] == [
            ("a", 0),
            (None, errors.UnknownTopicId.code),
        ]
        named = Wanted(topic_id=known.topic_id, name="a")
        [refused] = (await ask(Metadata, 10, Metadata.Request(topics=[named]))).topics
        assert refused.error_code == errors.InvalidRequest.code

    run(scenario)


def test_metadata_describes_a_topic_once_that_is_named_twice() -> None:
    async def scenario(ask: Administration) -> None:
        await with_topics(ask, a=1)
        assert len((await ask(Metadata, 9, asking("a", "a"))).topics) == 1

    run(scenario)


@pytest.mark.parametrize("version", [8, 9, 10])
def test_without_an_authorizer_every_operation_is_allowed(version: int) -> None:
    async def scenario(ask: Administration) -> None:
        await with_topics(ask, a=1)
        request = asking("a")
        request.include_topic_authorized_operations = True
        request.include_cluster_authorized_operations = True
        response = await ask(Metadata, version, request)
        assert response.topics[0].topic_authorized_operations == 3576
        assert response.cluster_authorized_operations == 8096

    run(scenario)


def test_metadata_reports_a_partition_whose_leader_is_offline_or_lacks_the_listener() -> None:
    async def scenario(ask: Administration) -> None:
        await with_topics(ask, a=1)
        endpoint = Endpoint("OTHER", "PLAINTEXT", "h", 1)
        two = BrokerRegistration(2, 1, (endpoint,))
        image = ask.node.metadata.image
        await ask.node.controller.set_brokers({**image.brokers, 2: two})
        request = NewTopic("b", -1, -1, ((0, (2, 1)),))
        await ask.node.controller.create_topics([request])
        [unreachable] = (await ask(Metadata, 9, asking("b"))).topics
        assert unreachable.partitions[0].error_code == errors.ListenerNotFound.code
        assert unreachable.partitions[0].offline_replicas == [2]
        await ask.node.controller.set_brokers({2: two})
        [offline] = (await ask(Metadata, 9, asking("a"))).topics
        assert offline.partitions[0].error_code == errors.LeaderNotAvailable.code
        assert offline.partitions[0].leader_id == -1

    run(scenario)


def page_request(
    *names: str, limit: int = 2000, cursor: tuple[str, int] | None = None
) -> DescribeTopicPartitions.Request:
    request = DescribeTopicPartitions.Request
    return request(
        topics=[request.TopicRequest(name=name) for name in names],
        response_partition_limit=limit,
        cursor=request.Cursor(topic_name=cursor[0], partition_index=cursor[1]) if cursor else None,
    )


@pytest.mark.parametrize("limit", [1, 2, 3, 5, 6, 100])
def test_pages_of_describe_topic_partitions_have_no_gap_and_no_overlap(limit: int) -> None:
    async def scenario(ask: Administration) -> None:
        await with_topics(ask, a=2, b=1, c=3)
        seen: list[tuple[str | None, int]] = []
        cursor = None
        while True:
            page = await ask(DescribeTopicPartitions, 0, page_request(limit=limit, cursor=cursor))
            found = [(t.name, p.partition_index) for t in page.topics for p in t.partitions]
            assert len(found) <= limit
            seen += found
            if page.next_cursor is None:
                break
            cursor = (page.next_cursor.topic_name, page.next_cursor.partition_index)
        assert seen == [("a", 0), ("a", 1), ("b", 0), ("c", 0), ("c", 1), ("c", 2)]

    run(scenario)


def test_describe_topic_partitions_sorts_topics_and_reports_missing_ones() -> None:
    async def scenario(ask: Administration) -> None:
        await with_topics(ask, b=1)
        response = await ask(DescribeTopicPartitions, 0, page_request("x", "b", "a/b"))
        assert [(topic.name, topic.error_code) for topic in response.topics] == [
            ("a/b", errors.InvalidTopicException.code),
            ("b", 0),
            ("x", errors.UnknownTopicOrPartition.code),
        ]

    run(scenario)


@pytest.mark.parametrize("cursor", [("a", -1), ("z", 0)])
def test_describe_topic_partitions_refuses_a_cursor_that_fits_no_partition(cursor: tuple[str, int]) -> None:
    async def scenario(ask: Administration) -> None:
        await with_topics(ask, a=1)
        response = await ask(DescribeTopicPartitions, 0, page_request("a", cursor=cursor))
        assert response.topics[0].error_code == errors.InvalidRequest.code

    run(scenario)


def test_describe_cluster_returns_brokers_and_controller_and_refuses_other_endpoint_types() -> None:
    async def scenario(ask: Administration) -> None:
        for version in (0, 1, 2):
            response = await ask(DescribeCluster, version, DescribeCluster.Request())
            assert response.controller_id == 1
            assert [(b.broker_id, b.host, b.port) for b in response.brokers] == [(1, *LOCAL)]
        wrong = await ask(DescribeCluster, 1, DescribeCluster.Request(endpoint_type=2))
        assert wrong.error_code == errors.MismatchedEndpointType.code
        unknown = await ask(DescribeCluster, 1, DescribeCluster.Request(endpoint_type=9))
        assert unknown.error_code == errors.UnsupportedEndpointType.code

    run(scenario)


def test_describe_cluster_can_include_departed_brokers_as_fenced() -> None:
    async def scenario(ask: Administration) -> None:
        gone = BrokerRegistration(7, 1, (), boot="b")
        for brokers in ({7: gone}, {7: None}):
            await ask.broker.metadata.publish(MetadataDelta(brokers=brokers))
        plain = await ask(DescribeCluster, 2, DescribeCluster.Request())
        assert [(b.broker_id, b.is_fenced) for b in plain.brokers] == [(1, False)]
        every = await ask(DescribeCluster, 2, DescribeCluster.Request(include_fenced_brokers=True))
        assert [(b.broker_id, b.port, b.is_fenced) for b in every.brokers] == [(1, LOCAL[1], False), (7, -1, True)]

    run(scenario)


def test_metadata_returns_a_zero_id_for_an_unknown_topic() -> None:
    async def scenario(ask: Administration) -> None:
        request = asking("a/b")
        assert (await ask(Metadata, 12, request)).topics[0].topic_id == ZERO_UUID

    run(scenario)


def test_metadata_of_many_partitions_is_the_same_in_several_turns_as_in_one() -> None:
    async def scenario(ask: Administration) -> None:
        await with_topics(ask, a=3, b=1, c=5)
        named = asking("c", "unknown", "a", "c")
        named.include_topic_authorized_operations, named.allow_auto_topic_creation = True, False
        requests = [named, Metadata.Request(topics=None)]
        whole = [await ask(Metadata, 12, request) for request in requests]
        ask.broker.turns = OneItemTurns()
        for request, answer in zip(requests, whole, strict=True):
            ask.broker.described = DescribedTopics()
            assert await ask(Metadata, 12, request) == answer
        assert ask.broker.turns.count >= (3 + 8) + (3 + 9)

    run(scenario)


def test_a_metadata_request_creates_many_missing_topics_and_answers_each_once() -> None:
    async def scenario(ask: Administration) -> None:
        ask.broker.turns = OneItemTurns()
        names = [f"t{number}" for number in range(250)]
        response = await ask(Metadata, 12, asking(*names, "a/b", *names))
        assert [(topic.name, len(topic.partitions)) for topic in response.topics] == [
            *((name, 1) for name in names),
            ("a/b", 0),
        ]

    run(scenario)


def test_cached_metadata_of_topics_equals_a_fresh_description() -> None:
    async def scenario(ask: Administration) -> None:
        await with_topics(ask, a=3, b=1, large=700)
        two = BrokerRegistration(2, 1, (Endpoint("OTHER", "PLAINTEXT", "h", 1),))
        await ask.node.controller.set_brokers({**ask.node.metadata.image.brokers, 2: two})
        await ask.node.controller.create_topics([NewTopic("far", -1, -1, ((0, (2, 1)), (1, (1, 2))))])
        kept = ask.broker.described
        versions = range(Metadata.min_version, Metadata.max_version + 1)
        for version in (*versions, *versions, *reversed(versions)):
            request = Metadata.Request(topics=None if version else [])
            ask.broker.described = DescribedTopics()
            described = await ask(Metadata, version, request)
            ask.broker.described = kept
            assert await ask(Metadata, version, request) == described

    run(scenario)


def test_metadata_shows_a_change_of_a_topic_or_of_the_brokers_at_once() -> None:
    async def scenario(ask: Administration) -> None:
        two = BrokerRegistration(2, 1, (Endpoint("PLAINTEXT", "PLAINTEXT", "h", 1),))
        one = dict(ask.node.metadata.image.brokers)
        await ask.node.controller.set_brokers({**one, 2: two})
        await ask.node.controller.create_topics([NewTopic("t", -1, -1, ((0, (2, 1)),))])

        async def told() -> list[tuple[int, list[int], list[int]]]:
            [topic] = (await ask(Metadata, 12, asking("t"))).topics
            return [(each.leader_id, each.isr_nodes, each.offline_replicas) for each in topic.partitions]

        assert await told() == [(2, [2, 1], [])]
        await ask.node.controller.create_partitions([NewPartitions("t", 2, ((1, 2),))])
        assert await told() == [(2, [2, 1], []), (1, [1, 2], [])]
        elsewhere = two._replace(endpoints=(Endpoint("OTHER", "PLAINTEXT", "h", 1),))
        await ask.broker.metadata.publish(MetadataDelta(brokers={2: elsewhere}))
        assert await told() == [(2, [2, 1], [2]), (1, [1, 2], [2])]
        await ask.node.controller.set_brokers(one)
        assert await told() == [(1, [1], [2]), (1, [1], [2])]
        await ask(DeleteTopics, 5, DeleteTopics.Request(topic_names=["t"]))
        await ask.node.controller.create_topics([NewTopic("t", 1, 1)])
        assert await told() == [(1, [1], [])]

    run(scenario)


def test_the_metadata_cache_forgets_deleted_topics() -> None:
    async def scenario(ask: Administration) -> None:
        await with_topics(ask, a=1, b=1, c=50)
        topics, metadata = dict(ask.node.metadata.image.topics), ask.broker.metadata

        def kept() -> set[str]:
            form = Form(frozenset({1}), 9)
            return {name for name, topic in topics.items() if ask.broker.described.find(topic, form)}

        await ask(Metadata, 12, asking("a", "b"))
        assert kept() == {"a", "b"}
        await metadata.publish(MetadataDelta(missing={"a": topics["a"]}))
        assert kept() == {"b"}
        ask.broker.turns = OneItemTurns()
        describing = asyncio.ensure_future(ask(Metadata, 12, asking("c")))
        while ask.broker.turns.count < 10:
            await asyncio.sleep(0)
        await metadata.publish(MetadataDelta(deleted={"b": topics["b"], "c": topics["c"]}))
        assert not describing.done()
        assert len((await describing).topics[0].partitions) == 50
        assert not kept()

    run(scenario)
