"""An error of one partition does not affect the others, and no background task ends unnoticed."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from cy.produce import producer_batch
from pyclient.aio import Consumer
from pyclient.consumer import NoOffsetForPartition
from pyclient.core.reports.last_resort import URGENT
from pyclient.core.tests.scripted import ScriptedBroker
from pyclient.errors import (
    ClientError,
    ClusterAuthorizationFailed,
    KafkaError,
    TopicAuthorizationFailed,
    UnknownTopicOrPartition,
)
from pyclient.protocol import (
    ConsumerGroupHeartbeat,
    Fetch,
    FindCoordinator,
    JoinGroup,
    ListOffsets,
    Metadata,
    OffsetFetch,
    errors,
)
from pyclient.topic_partition import TopicPartition

T0, T1, NOPE = TopicPartition("t", 0), TopicPartition("t", 1), TopicPartition("nope", 0)
UNSTABLE_OFFSET_COMMIT = errors.UnstableOffsetCommit.code
LEADER_NOT_AVAILABLE = errors.LeaderNotAvailable.code
FORBIDDEN = errors.TopicAuthorizationFailed.code
CLUSTER_FORBIDDEN = errors.ClusterAuthorizationFailed.code
COORDINATOR_LOADING = errors.CoordinatorLoadInProgress.code
QUICK = {"auto_offset_reset": "earliest", "fetch_max_wait_ms": 10, "retry_backoff_ms": 1, "retry_backoff_max_ms": 5}


class Broker(ScriptedBroker):
    """A broker with one record in each partition. ``refused``: the error codes to answer with."""

    def __init__(self) -> None:
        super().__init__()
        self.refused: dict[Any, int] = {}
        self.handlers |= {
            ListOffsets: self.list_offsets,
            OffsetFetch: self.fetch_offsets,
            Fetch: self.fetch,
            FindCoordinator: self.find_coordinator,
            JoinGroup: lambda *_: JoinGroup.Response(error_code=COORDINATOR_LOADING),
        }

    def find_coordinator(self, request: FindCoordinator.Request, version: int) -> FindCoordinator.Response:
        kind = FindCoordinator.Response
        return kind(coordinators=[kind.Coordinator(key="g", node_id=1, host="127.0.0.1", port=self.port)])

    def list_offsets(self, request: ListOffsets.Request, version: int) -> ListOffsets.Response:
        kind = ListOffsets.Response
        return kind(
            topics=[
                kind.ListOffsetsTopicResponse(
                    name=topic.name,
                    partitions=[
                        kind.ListOffsetsPartitionResponse(
                            partition_index=row.partition_index,
                            offset=0,
                            error_code=self.refused.get(("offsets", row.partition_index), 0),
                        )
                        for row in topic.partitions
                    ],
                )
                for topic in request.topics
            ]
        )

    def fetch_offsets(self, request: OffsetFetch.Request, version: int) -> OffsetFetch.Response:
        kind = OffsetFetch.Response
        (group,) = request.groups
        topics = [
            kind.OffsetFetchResponseTopics(
                name=topic.name,
                partitions=[
                    kind.OffsetFetchResponsePartitions(
                        partition_index=number,
                        committed_offset=-1,
                        error_code=self.refused.get(("committed", number), 0),
                    )
                    for number in topic.partition_indexes
                ],
            )
            for topic in group.topics
        ]
        return kind(groups=[kind.OffsetFetchResponseGroup(group_id="g", topics=topics)])

    def fetch(self, request: Fetch.Request, version: int) -> Fetch.Response:
        kind = Fetch.Response
        return kind(
            error_code=self.refused.get("fetch", 0),
            responses=[
                kind.FetchableTopicResponse(
                    topic=topic.topic,
                    partitions=[
                        kind.PartitionData(
                            partition_index=row.partition,
                            high_watermark=1,
                            records=b"" if row.fetch_offset else RECORD,
                        )
                        for row in topic.partitions
                    ],
                )
                for topic in request.topics
            ],
        )


def one_record() -> bytes:
    batch = producer_batch.begin("t", 0)
    batch.append(0, b"k", b"v")
    batch.seal()
    batch.assign()
    assert batch.records is not None
    return batch.records


RECORD = one_record()
Check = Callable[[Broker, Consumer], Awaitable[None]]


def reading(**settings: Any) -> Callable[[Check], Callable[[], None]]:
    """Runs a test with a broker and a consumer of it."""

    def decorated(check: Check) -> Callable[[], None]:
        def run() -> None:
            async def main() -> None:
                async with (
                    Broker() as broker,
                    Consumer(broker.address, {**QUICK, **settings}, allow_auto_create_topics=False) as consumer,
                ):
                    await asyncio.wait_for(check(broker, consumer), 60)

            asyncio.run(main())

        return run

    return decorated


async def places(consumer: Consumer, count: int) -> set[TopicPartition]:
    """Polls until there are so many records, and returns their partitions."""
    found: list[TopicPartition] = []
    while len(found) < count:
        found += [TopicPartition(record.topic, record.partition) for record in await consumer.poll()]
    return set(found)


async def refusal(consumer: Consumer) -> KafkaError:
    """Returns the error that a poll raises."""
    while True:
        try:
            await consumer.poll()
        except KafkaError as error:
            return error


@reading()
async def test_a_topic_that_does_not_exist_does_not_block_others(broker: Broker, consumer: Consumer) -> None:
    await consumer.assign([T0, NOPE, T1])
    assert await places(consumer, 2) == {T0, T1}


@reading()
async def test_a_topic_that_does_not_exist_is_an_error_after_the_timeout(broker: Broker, consumer: Consumer) -> None:
    consumer._core._positions._timeout = 0.05
    await consumer.assign([NOPE])
    told = await refusal(consumer)
    assert isinstance(told, UnknownTopicOrPartition)
    assert "there is no topic 'nope'" in str(told)
    consumer._core._positions._timeout = 60.0
    broker.topics["nope"] = 1
    assert await places(consumer, 1) == {NOPE}


@reading()
async def test_a_partition_that_does_not_exist_is_an_error(broker: Broker, consumer: Consumer) -> None:
    consumer._core._positions._timeout = 0.05
    await consumer.assign([TopicPartition("t", 2)])
    assert "topic t has 2 partitions: there is no partition 2" in str(await refusal(consumer))


@reading()
async def test_end_offsets_fails_at_once_for_a_partition_that_does_not_exist(
    broker: Broker, consumer: Consumer
) -> None:
    with pytest.raises(UnknownTopicOrPartition, match="topic t has 2 partitions: there is no partition 9"):
        await consumer.end_offsets([T0, TopicPartition("t", 9)], timeout=3600)
    broker.topics["t"] = 10
    assert await consumer.end_offsets([TopicPartition("t", 9)]) == {TopicPartition("t", 9): 0}


@reading()
async def test_a_time_given_as_text_is_refused(broker: Broker, consumer: Consumer) -> None:
    with pytest.raises(TypeError, match="t-0: a time must be an int, in ms since 1970, not 'earliest'"):
        await consumer.offsets_for_times({T0: "earliest"})  # type: ignore[dict-item]
    with pytest.raises(TypeError, match="is not a list of TopicPartition"):
        await consumer.assign(T0)  # type: ignore[arg-type]


@reading()
async def test_a_forbidden_topic_is_an_error_and_does_not_block_others(broker: Broker, consumer: Consumer) -> None:
    broker.topics["secret"] = -FORBIDDEN
    await consumer.assign([T0, TopicPartition("secret", 0)])
    assert isinstance(await refusal(consumer), TopicAuthorizationFailed)
    assert await places(consumer, 1) == {T0}


@reading()
async def test_a_forbidden_topic_is_read_once_access_is_granted(broker: Broker, consumer: Consumer) -> None:
    broker.topics["secret"] = -FORBIDDEN
    await consumer.assign([TopicPartition("secret", 0)])
    told = await refusal(consumer)
    assert "User:ANONYMOUS needs READ on topic secret" in str(told)
    assert told.grant.startswith("pybroker acl create --allow User:ANONYMOUS --operation read --topic secret -b ")
    broker.topics["secret"] = 1
    assert await places(consumer, 1) == {TopicPartition("secret", 0)}


@reading()
async def test_a_subscribed_topic_is_read_once_access_is_granted(broker: Broker, consumer: Consumer) -> None:
    broker.topics["secret"] = -FORBIDDEN
    await consumer.subscribe(["secret"])
    for _ in range(2):  # each poll asks again
        assert "needs READ on topic secret" in str(await refusal(consumer))
    broker.topics["secret"] = 1
    while True:
        try:
            assert await places(consumer, 1) == {TopicPartition("secret", 0)}
            break
        except TopicAuthorizationFailed:  # the last of before
            continue


@reading(group_id="g", enable_auto_commit=False)
async def test_a_forbidden_group_is_retried_until_access_is_granted(
    broker: Broker, consumer: Consumer
) -> None:
    known = broker.handlers[FindCoordinator]
    denied = errors.GroupAuthorizationFailed.code
    row = FindCoordinator.Response.Coordinator(key="g", error_code=denied, error_message=None)
    broker.handlers[FindCoordinator] = lambda *_: FindCoordinator.Response(coordinators=[row])
    await consumer.assign([T0])
    told = await refusal(consumer)
    assert told.grant.startswith("pybroker acl create --allow User:ANONYMOUS --operation read --group g -b ")
    broker.handlers[FindCoordinator] = known
    assert await places(consumer, 1) == {T0}


@reading(group_id="g", enable_auto_commit=False)
async def test_an_unstable_committed_offset_does_not_block_other_partitions(broker: Broker, consumer: Consumer) -> None:
    broker.refused = {("committed", 1): UNSTABLE_OFFSET_COMMIT}
    await consumer.assign([T0, T1])
    assert await places(consumer, 1) == {T0}
    broker.refused = {}
    assert await places(consumer, 1) == {T1}


@reading()
async def test_an_offset_that_its_leader_cannot_give_does_not_block_others(broker: Broker, consumer: Consumer) -> None:
    broker.refused = {("offsets", 1): LEADER_NOT_AVAILABLE}
    await consumer.assign([T0, T1])
    assert await places(consumer, 1) == {T0}
    broker.refused = {}
    assert await places(consumer, 1) == {T1}


@reading(auto_offset_reset="none")
async def test_all_partitions_without_a_position_are_named(broker: Broker, consumer: Consumer) -> None:
    await consumer.assign([T0, T1])
    told = await refusal(consumer)
    assert isinstance(told, NoOffsetForPartition)
    assert "t-0, t-1" in str(told)


@reading()
async def test_a_fetch_that_is_refused_as_a_whole_is_reported_and_retried(broker: Broker, consumer: Consumer) -> None:
    broker.refused = {"fetch": CLUSTER_FORBIDDEN}
    await consumer.assign([T0])
    for _ in range(2):
        assert isinstance(await refusal(consumer), ClusterAuthorizationFailed)
    broker.refused = {}
    while True:
        try:
            assert await places(consumer, 1) == {T0}
            break
        except ClusterAuthorizationFailed:  # the last of before
            continue


@reading()
async def test_an_unprocessable_response_is_reported_and_fetched_again(broker: Broker, consumer: Consumer) -> None:
    fetcher = consumer._core.fetcher
    take, faults = fetcher._on_response, [KeyError("k")]

    def once(*arguments: Any) -> None:
        if faults:
            raise faults.pop()
        take(*arguments)

    fetcher._on_response = once  # type: ignore[method-assign]
    await consumer.assign([T0])
    told = await refusal(consumer)
    assert isinstance(told, ClientError)
    assert isinstance(told.__cause__, KeyError)
    assert await places(consumer, 1) == {T0}


@reading()
async def test_every_poll_raises_the_error_of_a_failed_search_for_positions(broker: Broker, consumer: Consumer) -> None:
    positions = consumer._core._positions
    positions._policy = None  # type: ignore[assignment]
    await consumer.assign([T0])
    for _ in range(2):
        assert "the search for positions failed" in str(await refusal(consumer))
    positions._policy = "earliest"
    await consumer.assign([T0])
    assert await places(consumer, 1) == {T0}


@reading(group_id="g", auto_commit_interval_ms=1)
async def test_poll_raises_the_error_of_a_failed_background_commit(broker: Broker, consumer: Consumer) -> None:
    async def fail(timeout: float = 0) -> None:
        raise KeyError("k")

    await consumer.assign([TopicPartition("nowhere", 0)])
    consumer._core.commits.commit_settled = fail  # type: ignore[method-assign]
    assert "background task of the consumer failed" in str(await refusal(consumer))


def test_a_subscription_to_a_topic_that_does_not_exist_is_warned_of_once(caplog: pytest.LogCaptureFixture) -> None:
    @reading(group_id="g")
    async def check(broker: Broker, consumer: Consumer) -> None:
        await consumer.subscribe(["t", "nope"])
        while len(broker.asked(Metadata)) < 10 or not caplog.records:
            await consumer.poll(timeout=0.01)

    check()
    (told,) = [record for record in caplog.records if "missing topics" in record.getMessage()]
    assert told.getMessage().startswith("group g subscribes to missing topics: there is no topic 'nope' (")
    assert getattr(told, URGENT, False), "stderr has it without logging too"


def test_an_assignment_of_what_does_not_exist_is_warned_of_once(caplog: pytest.LogCaptureFixture) -> None:
    @reading()
    async def check(broker: Broker, consumer: Consumer) -> None:
        await consumer.assign([T0, NOPE, TopicPartition("nope", 1), TopicPartition("t", 9)])
        while len(broker.asked(Metadata)) < 10 or not caplog.records:
            await consumer.poll(timeout=0.01)

    check()
    told = [record for record in caplog.records if "missing partitions" in record.getMessage()]
    what = "a consumer without a group is assigned missing partitions: "
    assert [record.getMessage().partition(" (")[0] for record in told] == [
        f"{what}there is no topic 'nope'",
        f"{what}topic t has 2 partitions: there is no partition 9",
    ]
    assert all(getattr(record, URGENT, False) for record in told), "stderr has it without logging too"


@reading(group_id="g", group_protocol="consumer")
async def test_a_member_leaves_even_if_the_coordinator_never_answered_it(broker: Broker, consumer: Consumer) -> None:
    answer = ConsumerGroupHeartbeat.Response(error_code=COORDINATOR_LOADING)
    broker.handlers[ConsumerGroupHeartbeat] = lambda *_: answer
    await consumer.subscribe(["t"])
    while not broker.asked(ConsumerGroupHeartbeat):
        await consumer.poll(timeout=0.01)
    await consumer.unsubscribe()
    assert broker.asked(ConsumerGroupHeartbeat)[-1].member_epoch == -1


@reading(group_id="g")
async def test_a_new_subscription_clears_a_fault(broker: Broker, consumer: Consumer) -> None:
    consumer._core.on_fault(ClusterAuthorizationFailed())
    for _ in range(2):
        assert isinstance(await refusal(consumer), ClusterAuthorizationFailed)
    await consumer.subscribe(["t"])
    assert await consumer.poll(timeout=0) == []


@reading(group_id="g")
async def test_a_new_assignment_clears_errors_of_the_one_before(broker: Broker, consumer: Consumer) -> None:
    core = consumer._core
    for change in (
        core.assign([T0]),
        core.assign_range(T0, 0, 1),
        core.unsubscribe(),
        core.subscribe(["t"], has_listener=False),
    ):
        core.on_error(ClusterAuthorizationFailed())
        await change
        core.check()
        await core.unsubscribe()


@pytest.mark.parametrize("group", [None, "g"])
def test_a_pattern_replaced_during_its_lookup_does_not_affect_the_next(group: str | None) -> None:
    @reading()
    async def check(broker: Broker, _: Consumer) -> None:
        consumer = Consumer(broker.address, QUICK, topics=re.compile("n.*"), group_id=group)
        asked, answered = asyncio.Event(), asyncio.Event()

        async def all_topics() -> None:
            asked.set()
            await answered.wait()

        consumer._core.client.all_topics = all_topics  # type: ignore[method-assign]
        async with consumer:
            await asked.wait()
            await consumer.unsubscribe()
            answered.set()
            await consumer.subscribe(["t"])
            if group is None:
                assert await places(consumer, 1) <= {T0, T1}
            for _ in range(100):
                await asyncio.sleep(0)
            consumer._core.check()

    check()
