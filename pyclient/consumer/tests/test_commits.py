"""Commits against a scripted coordinator: an older offset is never sent after a newer one."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable
from types import SimpleNamespace
from typing import Any

import pytest

from pyclient.config import CONSUMER, load
from pyclient.consumer.core import ConsumerCore
from pyclient.consumer.errors import CommitFailed
from pyclient.consumer.offsets.committed import CommittedOffsets
from pyclient.consumer.offsets.list_offsets import OffsetLookup
from pyclient.consumer.types import OffsetAndMetadata
from pyclient.core.reports.rights import CONSUMING, Rights
from pyclient.errors import KafkaError
from pyclient.protocol import ListOffsets, OffsetCommit, OffsetFetch
from pyclient.protocol.errors import CoordinatorLoadInProgress, NotCoordinator, StaleMemberEpoch, UnknownServerError
from pyclient.tests.support import PATIENCE_S
from pyclient.topic_partition import TopicPartition

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)
LOADING = CoordinatorLoadInProgress.code
NOT_COORDINATOR = NotCoordinator.code
STALE_MEMBER_EPOCH = StaleMemberEpoch.code
SETTINGS = {"group.id": "g", "retry.backoff.ms": 20, "retry.backoff.max.ms": 20, "auto.commit.interval.ms": 1}


class Member(ConsumerCore):
    """A consumer in generation 5 that has t-0 and t-1. Its coordinator answers commits with ``codes``, then with 0, and
    notes them in ``sent`` as (offset, generation). The look-ups of the coordinator take the numbers of turns in
    ``lookups``, one after the other. A task that waits for ``answered`` goes on before the refused commit is sent
    again.
    """

    def __init__(self, **settings: Any) -> None:
        loop = asyncio.get_running_loop()
        super().__init__(load(CONSUMER, "127.0.0.1:1", SETTINGS, settings), loop)
        self.codes: deque[int] = deque()
        self.lookups: deque[int] = deque()
        self.sent: list[tuple[int, int]] = []
        self.answered = asyncio.Event()
        self.client.coordinator = self.find  # type: ignore[method-assign]
        self.client.send = self.answer  # type: ignore[method-assign]
        self.subscription.subscribe(["t"])
        self.subscription.set_assigned([T0, T1])
        assert self.membership is not None
        self.membership.epoch = 5
        self.membership.show()

    async def find(self, *_: Any) -> int:
        for _turn in range(self.lookups.popleft() if self.lookups else 0):
            await asyncio.sleep(0)
        return 1

    async def answer(self, node: int, api: Any, request: OffsetCommit.Request, **_: Any) -> OffsetCommit.Response:
        (topic,) = request.topics
        (row,) = topic.partitions
        self.sent.append((row.committed_offset, request.generation_id_or_member_epoch))
        code = self.codes.popleft() if self.codes else 0
        await asyncio.sleep(0)
        self.answered.set()
        kind = OffsetCommit.Response
        answer = kind.OffsetCommitResponsePartition(partition_index=row.partition_index, error_code=code)
        return kind(topics=[kind.OffsetCommitResponseTopic(name="t", partitions=[answer])])

    def begin(self, offset: int, tp: TopicPartition = T0) -> asyncio.Task[None]:
        """Begins a commit, and returns its task."""
        return asyncio.create_task(self.commits.commit({tp: OffsetAndMetadata(offset)}))

    async def generation(self, number: int, assigned: set[TopicPartition] | None = None) -> None:
        """Begins another generation after the first answer."""
        await self.answered.wait()
        assert self.membership is not None
        self.membership.epoch = number
        self.membership.show()
        if assigned is not None:
            self.subscription.set_assigned(assigned)


Check = Callable[[Member], Awaitable[None]]


def member(**settings: Any) -> Callable[[Check], Callable[[], None]]:
    def decorated(check: Check) -> Callable[[], None]:
        def run() -> None:
            async def main() -> None:
                async with asyncio.timeout(PATIENCE_S):
                    await check(Member(**settings))

            asyncio.run(main())

        return run

    return decorated


@member()
async def test_an_older_commit_is_not_retried_after_a_newer_one(group: Member) -> None:
    group.codes.append(NOT_COORDINATOR)
    older = group.begin(100)
    await group.answered.wait()
    await group.commits.commit({T0: OffsetAndMetadata(150)})
    with pytest.raises(NotCoordinator):
        await older
    assert group.sent == [(100, 5), (150, 5)]
    assert group.subscription.state(T0).committed == 150


@member()
async def test_a_retried_commit_waits_for_a_commit_of_other_partitions(group: Member) -> None:
    group.codes.append(LOADING)
    first, second = group.begin(100), group.begin(7, T1)
    await asyncio.gather(first, second)
    assert group.sent == [(100, 5), (7, 5), (100, 5)]


@member()
async def test_commits_keep_their_order_while_the_coordinator_is_unknown(group: Member) -> None:
    group.lookups.extend([5, 1, 1])
    await asyncio.gather(group.begin(100), group.begin(150))
    assert group.sent == [(100, 5), (150, 5)]


@member()
async def test_the_callback_of_an_earlier_commit_runs_before_a_later_one_returns(group: Member) -> None:
    group.codes.append(NOT_COORDINATOR)
    told: list[KafkaError | None] = []
    group.hold(group.commits.commit_telling({T0: OffsetAndMetadata(100)}, lambda _, error: told.append(error)))
    await group.answered.wait()
    await group.commits.commit({T0: OffsetAndMetadata(150)})
    assert [type(error) for error in told] == [NotCoordinator]


@member()
async def test_a_partition_that_another_member_had_meanwhile_is_not_committed_again(group: Member) -> None:
    group.codes.append(NOT_COORDINATOR)
    commit = group.begin(100)
    await group.generation(6, {T1})
    await group.generation(7, {T0, T1})
    with pytest.raises(CommitFailed, match="rebalance"):
        await commit
    assert group.sent == [(100, 5)]


@member()
async def test_a_partition_kept_through_a_rebalance_is_committed_in_the_new_generation(group: Member) -> None:
    group.codes.append(STALE_MEMBER_EPOCH)
    commit = group.begin(100)
    await group.generation(6, {T0})
    await commit
    assert group.sent == [(100, 5), (100, 6)]


@member()
async def test_an_evicted_member_does_not_retry_its_commit(group: Member) -> None:
    group.codes.append(NOT_COORDINATOR)
    commit = group.begin(100)
    await group.generation(-1)
    with pytest.raises(CommitFailed):
        await commit
    assert group.sent == [(100, 5)]


@member()
async def test_a_background_commit_does_not_overtake_one_of_the_application(group: Member) -> None:
    group.subscription.state(T0).seek(90)
    group.codes.append(NOT_COORDINATOR)
    commit = group.begin(100)
    await group.answered.wait()
    group.hold(group.commits._by_time())
    await commit
    assert group.sent[:2] == [(100, 5), (100, 5)]


class Silent:
    """A coordinator that always answers with ``response``."""

    rights = Rights(None, CONSUMING)

    def __init__(self, response: Any) -> None:
        self.response = response

    async def coordinator(self, *_: Any) -> int:
        return 1

    def coordinator_lost(self, *_: Any) -> None:
        """Makes the next commit look the coordinator up again."""

    async def send(self, *_: Any, **__: Any) -> Any:
        return self.response


def of_group(error_code: int, *indexes: int) -> OffsetFetch.Response.OffsetFetchResponseGroup:
    kind = OffsetFetch.Response
    rows = [kind.OffsetFetchResponsePartitions(partition_index=index, committed_offset=100) for index in indexes]
    topics = [kind.OffsetFetchResponseTopics(name="t", partitions=rows)] if rows else []
    return kind.OffsetFetchResponseGroup(group_id="g", error_code=error_code, topics=topics)


def once(response: Any) -> Any:
    offsets = CommittedOffsets(Silent(response), "g", lambda: None)  # type: ignore[arg-type, return-value]
    return asyncio.run(offsets.once([T0, T1]))


def test_a_partition_missing_from_an_answer_is_an_error_not_an_absent_commit() -> None:
    found, errors = once(OffsetFetch.Response(groups=[of_group(0, 0)]))
    assert found == {T0: OffsetAndMetadata(100, -1, "")}
    assert list(errors) == [T1]
    assert isinstance(errors[T1], UnknownServerError)


def test_two_answers_for_one_group_yield_the_error_of_either() -> None:
    with pytest.raises(NotCoordinator):
        once(OffsetFetch.Response(groups=[of_group(0, 0), of_group(NOT_COORDINATOR)]))
    found, errors = once(OffsetFetch.Response(groups=[of_group(0, 0), of_group(0, 1)]))
    assert (set(found), errors) == ({T0, T1}, {})


@member()
async def test_a_commit_missing_from_the_answer_is_an_error(group: Member) -> None:
    async def answer(*_: Any, **__: Any) -> OffsetCommit.Response:
        return OffsetCommit.Response()

    group.client.send = answer  # type: ignore[method-assign]
    with pytest.raises(UnknownServerError):
        await group.begin(100)


def test_a_partition_missing_from_an_answer_about_offsets_is_an_error() -> None:
    client: Any = Silent(ListOffsets.Response())
    client.cluster = SimpleNamespace(leader=lambda tp: (1, 0))
    client.nodes = SimpleNamespace(aside=lambda node: node)
    lookup = OffsetLookup(client, 0, 1.0)
    found, errors = asyncio.run(lookup.once({T0: -1}))
    assert (found, list(errors)) == ({}, [T0])
