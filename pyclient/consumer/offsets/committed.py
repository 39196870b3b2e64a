"""The group's committed offsets, which its coordinator stores.

Commits are sent in the order in which they begin, without waiting for the answers. After a retriable error a commit is
sent again, possibly in a later generation. It is not sent again after a later commit of the same partitions, nor if
another member may have committed meanwhile, because it would overwrite newer offsets.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Mapping
from typing import Any, Final, TypeVar

from pyclient.consumer.errors import CommitFailed, not_answered
from pyclient.consumer.types import GroupMetadata, OffsetAndMetadata
from pyclient.core.client import Client
from pyclient.core.kinds import GROUP
from pyclient.errors import COORDINATOR_LOST, NOT_MEMBER, KafkaError, by_code, of_code
from pyclient.protocol import OffsetCommit, OffsetFetch
from pyclient.protocol.errors import StaleMemberEpoch, UnknownServerError
from pyclient.topic_partition import TopicPartition

T = TypeVar("T")
Answers = tuple[dict[TopicPartition, OffsetAndMetadata | None], dict[TopicPartition, KafkaError]]


class _Stale(StaleMemberEpoch):
    """Retriable: the next attempt uses the epoch of the latest heartbeat."""

    retriable = True


NAMES_VERSION: Final = 9
"""The last version of OffsetCommit and OffsetFetch that has topic names instead of ids."""


async def at_coordinator(client: Client, group_id: str, work: Callable[[int], Awaitable[T]]) -> T:
    """Returns ``work(node)`` at the group's coordinator. Forgets the coordinator if another node has this role now."""
    node = await client.coordinator(group_id, GROUP)
    try:
        return await work(node)
    except KafkaError as error:
        if error.name in COORDINATOR_LOST or isinstance(error, ConnectionError):
            client.coordinator_lost(group_id, GROUP)
        raise


class _Commit:
    """Offsets in flight, until the caller has the result."""

    def __init__(
        self, offsets: Mapping[TopicPartition, OffsetAndMetadata], who: GroupMetadata, are_held: Callable[[], bool]
    ) -> None:
        self.offsets = offsets
        self.who = who
        self.are_held = are_held
        self.error: KafkaError | None = None
        """The error of the last attempt."""
        self.is_overtaken = False
        """True if a later commit has some of the same partitions."""
        self.ended: asyncio.Future[None] = asyncio.get_running_loop().create_future()


class CommittedOffsets:
    """The group's committed offsets. ``who`` returns the committing member at each attempt, or raises why it cannot
    commit.
    """

    def __init__(self, client: Client, group_id: str, who: Callable[[], GroupMetadata]) -> None:
        self._client = client
        self._group_id = group_id
        self._who = who
        self._under_way: list[_Commit] = []
        self._in_order = asyncio.Lock()

    @property
    def is_busy(self) -> bool:
        """Whether commits are in flight."""
        return bool(self._under_way)

    async def commit(
        self,
        offsets: Mapping[TopicPartition, OffsetAndMetadata],
        timeout: float | None,
        are_held: Callable[[], bool] = lambda: False,
    ) -> None:
        """Stores the offsets, within ``timeout`` seconds (None: default.api.timeout.ms). Returns after earlier commits
        of the same partitions, if these end in time.

        ``are_held()`` returns whether the member has kept all of the partitions since the call, even in a later
        generation.

        Raises CommitFailed if the member was evicted from its group, or may have lost the partitions meanwhile. Raises
        RebalanceInProgress if it must poll first. Raises the last error if the time is over, or if a later commit of
        the same partitions has begun.
        """
        if not offsets:
            return
        deadline = self._client.deadline(timeout)
        commit = _Commit(offsets, self._who(), are_held)
        earlier = [each for each in self._under_way if each.offsets.keys() & offsets.keys()]
        for each in earlier:
            each.is_overtaken = True
        self._under_way.append(commit)
        try:
            failure = await self._outcome(commit, deadline)
            if earlier:
                left = max(0.0, deadline - self._client.clock())
                await asyncio.wait([each.ended for each in earlier], timeout=left)
        finally:
            self._under_way.remove(commit)
            commit.ended.set_result(None)
        if failure is not None:
            raise failure

    async def _outcome(self, commit: _Commit, deadline: float) -> KafkaError | None:
        """Sends the commit until it succeeds or must not be sent again. Returns the error if it is not stored."""

        async def attempt() -> KafkaError | None:
            if commit.error is not None and commit.is_overtaken:
                return commit.error
            try:
                await self._send(commit)
            except KafkaError as error:
                commit.error = error
                raise
            return None

        try:
            return await self._client.retrying(attempt, deadline=deadline)
        except KafkaError as error:
            return error

    async def _send(self, commit: _Commit) -> None:
        async with self._in_order:  # with the coordinator known, nothing comes between this and the sending
            await self._client.coordinator(self._group_id, GROUP)
        await at_coordinator(self._client, self._group_id, lambda node: self._commit(node, commit))

    async def _commit(self, node: int, commit: _Commit) -> None:
        who = self._who()
        if who != commit.who and not commit.are_held():
            raise CommitFailed("a rebalance came in between: other members may have the partitions and have committed")
        request = commit_request(who, commit.offsets)
        response = await self._client.send(node, OffsetCommit, request, max_version=NAMES_VERSION)
        codes = {
            TopicPartition(topic.name, row.partition_index): row.error_code
            for topic in response.topics
            for row in topic.partitions
        }
        for tp in commit.offsets:
            if tp not in codes:
                raise not_answered(tp)
        errors = {tp: code for tp, code in codes.items() if code}
        if errors:
            raise self._worst(errors)

    async def fetch(
        self, partitions: Collection[TopicPartition], timeout: float | None
    ) -> dict[TopicPartition, OffsetAndMetadata | None]:
        """Returns the committed offsets, None for partitions without one. Waits while an open transaction may still
        commit offsets (KIP-447).
        """

        async def attempt() -> dict[TopicPartition, OffsetAndMetadata | None]:
            found, errors = await self.once(partitions)
            if errors:
                raise min(errors.values(), key=lambda error: error.retriable)
            return found

        return await self._client.retrying(attempt, deadline=self._client.deadline(timeout))

    async def once(self, partitions: Collection[TopicPartition]) -> Answers:
        """Like ``fetch``, but makes one attempt and returns the errors of the partitions that failed."""
        return await at_coordinator(self._client, self._group_id, lambda node: self._fetch(node, partitions))

    async def _fetch(self, node: int, partitions: Collection[TopicPartition]) -> Answers:
        response = await self._client.send(
            node,
            OffsetFetch,
            lambda version: fetch_request(version, self._group_id, partitions),
            max_version=NAMES_VERSION,
        )
        parts = response.groups or [response]
        for part in parts:
            if error := of_code(part.error_code):
                raise self._client.rights.told(error, group=self._group_id)
        found: dict[TopicPartition, OffsetAndMetadata | None] = {}
        errors: dict[TopicPartition, KafkaError] = {tp: not_answered(tp) for tp in partitions}
        for topic in (topic for part in parts for topic in part.topics):
            for row in topic.partitions:
                tp = TopicPartition(topic.name, row.partition_index)
                known = OffsetAndMetadata(row.committed_offset, row.committed_leader_epoch, row.metadata or "")
                errors.pop(tp, None)
                if error := of_code(row.error_code):
                    errors[tp] = self._told(tp, type(error)(f"{tp}: {error}"))
                else:
                    found[tp] = known if known.offset >= 0 else None
        return found, errors

    def _worst(self, errors: dict[TopicPartition, int]) -> KafkaError:
        """Returns one of a commit's errors, preferably one that is not retriable."""

        def made(tp: TopicPartition, code: int) -> KafkaError:
            kind = by_code(code) or UnknownServerError
            error = kind(f"{tp}: {kind.text}")
            if isinstance(error, StaleMemberEpoch):
                return _Stale(str(error))
            if error.name in NOT_MEMBER:
                return CommitFailed(
                    f"{error.name}: the group gave others the partitions; poll more often, or fewer records at once"
                )
            return self._told(tp, error)

        return min((made(tp, code) for tp, code in errors.items()), key=lambda error: error.retriable)

    def _told(self, tp: TopicPartition, error: KafkaError) -> KafkaError:
        """Returns the error, with a text that names the missing right."""
        return self._client.rights.told(error, topic=tp.topic, group=self._group_id)


def commit_request(
    who: GroupMetadata, offsets: Mapping[TopicPartition, OffsetAndMetadata]
) -> OffsetCommit.Request:
    """Returns the request by topic names, for versions up to 9."""
    topics: dict[str, OffsetCommit.Request.OffsetCommitRequestTopic] = {}
    for tp, row in offsets.items():
        topic = topics.setdefault(tp.topic, OffsetCommit.Request.OffsetCommitRequestTopic(name=tp.topic))
        topic.partitions.append(
            OffsetCommit.Request.OffsetCommitRequestPartition(
                partition_index=tp.partition,
                committed_offset=row.offset,
                committed_leader_epoch=row.leader_epoch,
                committed_metadata=row.metadata,
            )
        )
    return OffsetCommit.Request(
        group_id=who.group_id,
        generation_id_or_member_epoch=who.generation_id,
        member_id=who.member_id,
        group_instance_id=who.group_instance_id,
        topics=list(topics.values()),
    )


def fetch_request(
    version: int, group_id: str, partitions: Collection[TopicPartition]
) -> OffsetFetch.Request:
    """Returns the request for one group: alone (before version 8), or in a list of groups."""
    topics: dict[str, list[int]] = {}
    for tp in partitions:
        topics.setdefault(tp.topic, []).append(tp.partition)
    stable: dict[str, Any] = {"require_stable": True} if version >= 7 else {}
    if version < 8:
        rows = [
            OffsetFetch.Request.OffsetFetchRequestTopic(name=name, partition_indexes=numbers)
            for name, numbers in topics.items()
        ]
        return OffsetFetch.Request(group_id=group_id, topics=rows, **stable)
    group = OffsetFetch.Request.OffsetFetchRequestGroup(
        group_id=group_id,
        topics=[
            OffsetFetch.Request.OffsetFetchRequestTopics(name=name, partition_indexes=numbers)
            for name, numbers in topics.items()
        ],
    )
    return OffsetFetch.Request(groups=[group], **stable)
