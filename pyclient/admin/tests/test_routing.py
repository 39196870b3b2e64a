"""Which broker gets a request, what is retried, and what old brokers get, against scripted brokers."""

from __future__ import annotations

import asyncio
import socket

import pytest

from pyclient.admin.asynchronous import Admin
from pyclient.admin.results import Results
from pyclient.admin.types import OffsetSpec
from pyclient.core.tests.scripted import HANG_UP, SILENCE, ScriptedBroker, versions
from pyclient.errors import ClientClosed, ConnectionFailed, KafkaError, RequestTimedOut, UnsupportedByBroker
from pyclient.offset_and_metadata import OffsetAndMetadata
from pyclient.protocol import (
    ApiVersions,
    ConsumerGroupDescribe,
    CreateTopics,
    DescribeGroups,
    DescribeTopicPartitions,
    FindCoordinator,
    ListGroups,
    ListOffsets,
    ListTransactions,
    Metadata,
    OffsetFetch,
    stream,
)
from pyclient.protocol.errors import (
    CoordinatorLoadInProgress,
    GroupIdNotFound,
    InvalidPartitions,
    NotController,
    NotCoordinator,
    NotLeaderOrFollower,
)
from pyclient.tests.support import LATE_S, PATIENCE_S
from pyclient.topic_partition import TopicPartition

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)


def with_admin(test):
    """Runs a test with a scripted broker and an admin client of it."""

    def run() -> None:
        async def main() -> None:
            async with ScriptedBroker() as broker:
                quick = {"retry_backoff_ms": 1, "retry_backoff_max_ms": 2, "reconnect_backoff_ms": 1}
                async with Admin(broker.address, quick) as admin:
                    await asyncio.wait_for(test(broker, admin), PATIENCE_S)

        asyncio.run(main())

    run.__name__ = test.__name__
    return run


def offsets(errors: dict[int, list[int]]):
    """Returns a handler of ListOffsets. It answers each partition with the errors in turn, then with offset 10 +
    partition.
    """
    kind = ListOffsets.Response

    def row(number: int) -> ListOffsets.Response.ListOffsetsPartitionResponse:
        left = errors.get(number) or [0]
        return kind.ListOffsetsPartitionResponse(
            partition_index=number, error_code=left.pop(0), offset=10 + number
        )

    def answer(request: ListOffsets.Request, version: int) -> ListOffsets.Response:
        topics = [
            kind.ListOffsetsTopicResponse(
                name=topic.name, partitions=[row(each.partition_index) for each in topic.partitions]
            )
            for topic in request.topics
        ]
        return kind(topics=topics)

    return answer


def coordinator(broker: ScriptedBroker):
    """Returns a handler of FindCoordinator, which answers with the broker itself, in every version."""
    kind = FindCoordinator.Response

    def answer(request: FindCoordinator.Request, version: int) -> FindCoordinator.Response:
        place = {"node_id": broker.node, "host": "127.0.0.1", "port": broker.port}
        if version < 4:
            return kind(**place)
        rows = [kind.Coordinator(key=each, **place) for each in request.coordinator_keys]
        return kind(coordinators=rows)

    return answer


def pages(request: DescribeTopicPartitions.Request, version: int) -> DescribeTopicPartitions.Response:
    """Handles a request for topics of three partitions each: a page has at most two partitions of the first topic."""
    kind = DescribeTopicPartitions.Response
    first = 0 if request.cursor is None else request.cursor.partition_index
    rows = [
        kind.DescribeTopicPartitionsResponsePartition(
            partition_index=number, leader_id=1, eligible_leader_replicas=[number], last_known_elr=[]
        )
        for number in range(first, min(3, first + 2))
    ]
    names = [each.name for each in request.topics]
    topics = [kind.DescribeTopicPartitionsResponseTopic(name=names[0], partitions=rows)]
    if first == 0:
        return kind(topics=topics, next_cursor=kind.Cursor(topic_name=names[0], partition_index=2))
    if not names[1:]:
        return kind(topics=topics)
    return kind(topics=topics, next_cursor=kind.Cursor(topic_name=names[1], partition_index=0))


@with_admin
async def test_topics_are_described_page_by_page(broker, admin):
    broker.handlers[DescribeTopicPartitions] = pages
    found = await admin.describe_topics(["u", "t"])
    assert {name: [each.partition for each in topic.partitions] for name, topic in found.items()} == {
        "t": [0, 1, 2],
        "u": [0, 1, 2],
    }
    assert [each.elr for each in found["u"].partitions] == [(0,), (1,), (2,)]
    assert found["t"].partitions[0].last_known_elr == ()
    asked = [[each.name for each in request.topics] for request in broker.asked(DescribeTopicPartitions)]
    assert asked == [["t", "u"], ["t", "u"], ["u"], ["u"]]
    assert not await admin.describe_topics([])
    assert len(broker.asked(DescribeTopicPartitions)) == 4


@with_admin
async def test_an_old_broker_describes_topics_by_metadata_without_eligible_leaders(broker, admin):
    broker.handlers[ApiVersions] = versions({DescribeTopicPartitions: -1})
    found = await admin.describe_topics("t")
    assert [(each.partition, each.elr, each.last_known_elr) for each in found["t"].partitions] == [
        (0, None, None),
        (1, None, None),
    ]


@with_admin
async def test_only_partitions_with_retriable_errors_are_requested_again(broker, admin):
    broker.handlers[ListOffsets] = offsets({0: [6, 6, 0]})
    found = await admin.list_offsets(dict.fromkeys([T0, T1], OffsetSpec.LATEST))
    assert [found[each].offset for each in (T0, T1)] == [10, 11]
    asked = [len(request.topics[0].partitions) for request in broker.asked(ListOffsets)]
    assert asked == [2, 1, 1]


@with_admin
async def test_a_request_is_retried_after_the_broker_hangs_up(broker, admin):
    answers = [HANG_UP, None]

    def answer(request, version):
        return answers.pop(0) or offsets({})(request, version)

    broker.handlers[ListOffsets] = answer
    assert (await admin.list_offsets({T0: OffsetSpec.LATEST}))[T0].offset == 10


@with_admin
async def test_the_last_error_is_raised_after_the_timeout(broker, admin):
    broker.handlers[ListOffsets] = offsets({0: [6] * 10_000})
    with pytest.raises(KafkaError) as caught:
        await admin.list_offsets({T0: OffsetSpec.LATEST}, timeout=LATE_S)
    assert isinstance(caught.value, NotLeaderOrFollower)


@with_admin
async def test_a_call_to_a_silent_broker_ends_after_its_timeout(broker, admin):
    await admin.connect(PATIENCE_S)
    for api in (Metadata, ListOffsets, CreateTopics):
        broker.handlers[api] = lambda *_: SILENCE
    for ask in (
        lambda: admin.list_topics(timeout=0.2),
        lambda: admin.list_offsets({T0: OffsetSpec.LATEST}, timeout=0.2),
        lambda: admin.create_topics("x", timeout=0.2),
        lambda: admin.list_groups(timeout=0.2),
    ):
        with pytest.raises(RequestTimedOut, match="in time"):
            await ask()


@with_admin
async def test_topics_are_created_by_the_controller_and_its_errors_are_returned(broker, admin):
    kind = CreateTopics.Response
    codes = [NotController.code, InvalidPartitions.code]
    async with ScriptedBroker(2) as other:
        other.handlers.update(broker.handlers)
        broker.others = [other]
        for each in (broker, other):
            each.handlers[CreateTopics] = lambda *_: kind(
                topics=[kind.CreatableTopicResult(name="n", error_code=codes.pop(0))]
            )
        with pytest.raises(InvalidPartitions):
            await admin.create_topics("n", num_partitions=0)
        assert (len(broker.asked(CreateTopics)), len(other.asked(CreateTopics))) == (2, 0)


@with_admin
async def test_every_broker_is_asked_for_its_groups(broker, admin):
    async with ScriptedBroker(2) as other:
        broker.others = [other]
        for each in (broker, other):
            each.handlers[ListGroups] = lambda *_, each=each: ListGroups.Response(
                groups=[ListGroups.Response.ListedGroup(group_id=f"g{each.node}")]
            )
        assert [row.group_id for row in await admin.list_groups()] == ["g1", "g2"]


@with_admin
async def test_a_filter_that_an_old_broker_does_not_know_is_not_sent(broker, admin):
    broker.handlers[ApiVersions] = versions({ListGroups: 3, ListTransactions: 0})
    broker.handlers[ListGroups] = lambda *_: ListGroups.Response()
    assert await admin.list_groups(states=["Stable"], types=["classic"]) == []
    with pytest.raises(UnsupportedByBroker, match="pattern"):
        await admin.list_transactions(pattern="x.*")


@pytest.mark.parametrize("newest", [7, 10])
def test_offsets_are_fetched_in_the_form_of_the_version(newest):
    kind = OffsetFetch.Response

    def answer(request, version):
        row = {"partition_index": 0, "committed_offset": 4}
        if version < 8:
            part = kind.OffsetFetchResponsePartition(**row)
            return kind(topics=[kind.OffsetFetchResponseTopic(name="t", partitions=[part])])
        part = kind.OffsetFetchResponsePartitions(**row)
        topic = kind.OffsetFetchResponseTopics(name="t", partitions=[part])
        return kind(groups=[kind.OffsetFetchResponseGroup(group_id="g", topics=[topic])])

    @with_admin
    async def check(broker, admin):
        broker.handlers[ApiVersions] = versions({OffsetFetch: newest, FindCoordinator: 3})
        broker.handlers[FindCoordinator] = coordinator(broker)
        broker.handlers[OffsetFetch] = answer
        found = await admin.list_consumer_group_offsets("g")
        assert found == {T0: OffsetAndMetadata(4)}
        assert [v for api, v, _ in broker.requests if api is OffsetFetch] == [min(newest, 9)]
        many = await admin.list_offsets_of_consumer_groups(["g"])
        assert many == {"g": {T0: OffsetAndMetadata(4)}}

    check()


@with_admin
async def test_a_coordinator_that_moved_is_found_again(broker, admin):
    kind = OffsetFetch.Response
    codes = [NotCoordinator.code, CoordinatorLoadInProgress.code, 0]
    broker.handlers[FindCoordinator] = coordinator(broker)
    broker.handlers[OffsetFetch] = lambda *_: kind(
        groups=[kind.OffsetFetchResponseGroup(group_id="g", error_code=codes.pop(0))]
    )
    assert await admin.list_consumer_group_offsets("g") == {}
    assert len(broker.asked(FindCoordinator)) == 3


@with_admin
async def test_an_error_of_the_group_is_raised(broker, admin):
    kind = OffsetFetch.Response
    broker.handlers[FindCoordinator] = coordinator(broker)
    broker.handlers[OffsetFetch] = lambda *_: kind(
        groups=[kind.OffsetFetchResponseGroup(group_id="g", error_code=NotCoordinator.code)]
    )
    with pytest.raises(NotCoordinator):
        await admin.list_consumer_group_offsets("g", timeout=LATE_S)


@with_admin
async def test_a_group_that_an_old_broker_calls_dead_does_not_exist(broker, admin):
    broker.handlers[ApiVersions] = versions({ConsumerGroupDescribe: -1, DescribeGroups: 5})
    broker.handlers[FindCoordinator] = coordinator(broker)
    row = DescribeGroups.Response.DescribedGroup
    broker.handlers[DescribeGroups] = lambda *_: DescribeGroups.Response(
        groups=[row(group_id="g", group_state="Dead")]
    )
    with pytest.raises(GroupIdNotFound):
        await admin.describe_consumer_groups("g")


@with_admin
async def test_calls_of_a_closed_client_raise_client_closed(broker, admin):
    await admin.list_topics()
    await admin.close()
    with pytest.raises(ClientClosed):
        await admin.list_topics()


def test_results_raise_the_error_of_what_failed():
    results = Results({"a": 1}, {"b": NotCoordinator("moved"), "c": NotCoordinator()})
    assert results["a"] == 1
    with pytest.raises(NotCoordinator, match="moved"):
        results["b"]
    with pytest.raises(KeyError):
        results["d"]
    with pytest.raises(NotCoordinator) as caught:
        results.checked()
    assert len(caught.value.__notes__) == 2
    assert results.checked(False) is results


def test_an_error_that_names_its_item_has_no_note_about_it():
    told = NotCoordinator("Topic 'routes' already exists.")
    for key, notes in (("routes", []), ("route", ["of route"])):
        with pytest.raises(NotCoordinator) as caught:
            Results(errors={key: told}).checked()
        assert getattr(caught.value, "__notes__", []) == notes


def test_a_name_that_cannot_be_resolved_fails_at_once(monkeypatch):
    async def no_such_name(*_: object) -> list[object]:
        raise socket.gaierror(-2, "Name or service not known")

    async def main() -> None:
        async with Admin("nowhere.invalid:9092", default_api_timeout_ms=1_000_000_000) as admin:
            with pytest.raises(ConnectionFailed, match="Name or service not known"):
                await asyncio.wait_for(admin.create_topics("t"), PATIENCE_S)

    monkeypatch.setattr(stream, "resolve", no_such_name)
    asyncio.run(main())
