"""Committed offsets: stored at and fetched from the group's coordinator."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Mapping
from typing import Any, Final, TypeVar

from pyclient.consumer.errors import CommitFailed
from pyclient.consumer.types import GroupMetadata, OffsetAndMetadata
from pyclient.core.client import GROUP, Client
from pyclient.errors import KafkaError, by_code, check, of_code
from pyclient.protocol import OffsetCommit, OffsetFetch
from pyclient.protocol.errors import StaleMemberEpoch, UnknownServerError
from pyclient.topic_partition import TopicPartition

T = TypeVar("T")
Answers = tuple[dict[TopicPartition, OffsetAndMetadata | None], dict[TopicPartition, KafkaError]]


class _Stale(StaleMemberEpoch):
    """The next attempt is made with the epoch that a heartbeat has brought meanwhile."""

    retriable = True


NAMES_VERSION: Final = 9
"""The last version of both APIs with topic names instead of ids."""
NOT_MEMBER: Final = frozenset(
    ("UNKNOWN_MEMBER_ID", "ILLEGAL_GENERATION", "FENCED_MEMBER_EPOCH")
)
MOVED: Final = frozenset(("NOT_COORDINATOR", "COORDINATOR_NOT_AVAILABLE", "CONNECTION_FAILED", "NETWORK_EXCEPTION"))
"""After these the coordinator is looked for again."""


async def at_coordinator(client: Client, group_id: str, work: Callable[[int], Awaitable[T]]) -> T:
    """``work(node)`` at the group's coordinator; forgets it where it turns out to be another."""
    node = await client.coordinator(group_id, GROUP)
    try:
        return await work(node)
    except KafkaError as error:
        if error.name in MOVED or isinstance(error, ConnectionError):
            client.coordinator_lost(group_id, GROUP)
        raise


class CommittedOffsets:
    """The group's offsets. ``identity`` tells who commits, at the time of each attempt."""

    def __init__(self, client: Client, identity: Callable[[], GroupMetadata]) -> None:
        self._client = client
        self._identity = identity

    async def commit(self, offsets: Mapping[TopicPartition, OffsetAndMetadata], timeout: float) -> None:
        """Stores the offsets. Raises CommitFailed where the member is out of its group,
        RebalanceInProgress where it has to poll first, the last error when the time is over.
        """
        if not offsets:
            return

        async def attempt() -> None:
            await at_coordinator(self._client, self._identity().group_id, lambda node: self._commit(node, offsets))

        await self._client.retrying(attempt, deadline=self._client.clock() + timeout)

    async def _commit(self, node: int, offsets: Mapping[TopicPartition, OffsetAndMetadata]) -> None:
        request = commit_request(self._identity(), offsets)
        response = await self._client.send(node, OffsetCommit, request, max_version=NAMES_VERSION)
        errors = {
            TopicPartition(topic.name, row.partition_index): row.error_code
            for topic in response.topics
            for row in topic.partitions
            if row.error_code
        }
        if errors:
            raise _worst(errors)

    async def fetch(
        self, partitions: Collection[TopicPartition], timeout: float
    ) -> dict[TopicPartition, OffsetAndMetadata | None]:
        """The committed offsets, None where there is none. Waits while a transaction may still
        commit some (KIP-447).
        """

        async def attempt() -> dict[TopicPartition, OffsetAndMetadata | None]:
            found, errors = await self.once(partitions)
            if errors:
                raise min(errors.values(), key=lambda error: error.retriable)
            return found

        return await self._client.retrying(attempt, deadline=self._client.clock() + timeout)

    async def once(self, partitions: Collection[TopicPartition]) -> Answers:
        """As ``fetch``, in one attempt: what was found, and why the others were not."""
        return await at_coordinator(
            self._client, self._identity().group_id, lambda node: self._fetch(node, partitions)
        )

    async def _fetch(self, node: int, partitions: Collection[TopicPartition]) -> Answers:
        who = self._identity()
        response = await self._client.send(
            node, OffsetFetch, lambda version: fetch_request(version, who, partitions), max_version=NAMES_VERSION
        )
        part = response.groups[0] if response.groups else response
        check(part.error_code)
        found: dict[TopicPartition, OffsetAndMetadata | None] = {}
        errors: dict[TopicPartition, KafkaError] = {}
        for topic in part.topics:
            for row in topic.partitions:
                tp = TopicPartition(topic.name, row.partition_index)
                known = OffsetAndMetadata(row.committed_offset, row.committed_leader_epoch, row.metadata or "")
                if error := of_code(row.error_code):
                    errors[tp] = type(error)(f"{tp}: {error}")
                else:
                    found[tp] = known if known.offset >= 0 else None
        return found, errors


def _worst(errors: dict[TopicPartition, int]) -> KafkaError:
    """One error of those of a commit: one that a retry does not help first."""

    def made(tp: TopicPartition, code: int) -> KafkaError:
        kind = by_code(code) or UnknownServerError
        error = kind(f"{tp}: {kind.text}")
        if error.name == "STALE_MEMBER_EPOCH":
            return _Stale(str(error))
        if error.name in NOT_MEMBER:
            return CommitFailed(
                f"{error.name}: the group has given the partitions to others; poll more often, or less at once"
            )
        return error

    return min((made(tp, code) for tp, code in errors.items()), key=lambda error: error.retriable)


def commit_request(
    who: GroupMetadata, offsets: Mapping[TopicPartition, OffsetAndMetadata]
) -> OffsetCommit.Request:
    """By topic names: versions up to 9."""
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
    version: int, who: GroupMetadata, partitions: Collection[TopicPartition]
) -> OffsetFetch.Request:
    """One group's offsets, alone (before version 8) or in a list of groups."""
    topics: dict[str, list[int]] = {}
    for tp in partitions:
        topics.setdefault(tp.topic, []).append(tp.partition)
    stable: dict[str, Any] = {"require_stable": True} if version >= 7 else {}
    if version < 8:
        rows = [
            OffsetFetch.Request.OffsetFetchRequestTopic(name=name, partition_indexes=numbers)
            for name, numbers in topics.items()
        ]
        return OffsetFetch.Request(group_id=who.group_id, topics=rows, **stable)
    group = OffsetFetch.Request.OffsetFetchRequestGroup(
        group_id=who.group_id,
        topics=[
            OffsetFetch.Request.OffsetFetchRequestTopics(name=name, partition_indexes=numbers)
            for name, numbers in topics.items()
        ],
    )
    return OffsetFetch.Request(groups=[group], **stable)
