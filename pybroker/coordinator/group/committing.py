"""OffsetCommit and TxnOffsetCommit: turns a request into records and a response.

A transactional commit differs a little: it belongs to a producer, has no retention, and its group checks less
(``Group.may_commit``).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Protocol

from pybroker.coordinator.group.group import CheckPartition, Commit, Group
from pybroker.coordinator.group.offsets import NEVER_MS, CommittedOffset
from pybroker.coordinator.group.records import offset_record
from pybroker.coordinator.group.settings import GroupSettings
from pybroker.coordinator.shard import Producer, Result
from pyclient.protocol import ZERO_UUID, OffsetCommit, TxnOffsetCommit, errors

Topic = OffsetCommit.Request.OffsetCommitRequestTopic | TxnOffsetCommit.Request.TxnOffsetCommitRequestTopic

_FIRST_WITH_GROUP_ID_NOT_FOUND = 9
_FIRST_WITH_GROUP_ID_NOT_FOUND_IN_TRANSACTIONS = 6
"""Earlier versions return ILLEGAL_GENERATION instead of GROUP_ID_NOT_FOUND (KIP-1319)."""
_LATEST_MS = 2**63 - 1


class Groups(Protocol):
    """The part of the shard that this module uses."""

    settings: GroupSettings

    @property
    def groups(self) -> Mapping[str, Group]: ...

    def simple_group(self, group_id: str) -> Group: ...


def commit(
    shard: Groups, request: OffsetCommit.Request, version: int, result: Result
) -> OffsetCommit.Response:
    """Commits the offsets, and returns an outcome for each partition; the records are in ``result``.

    Raises IllegalGeneration, GroupIdNotFound, and the errors of ``Group.may_commit``.
    """
    who = Commit(
        request.member_id,
        request.group_instance_id,
        request.generation_id_or_member_epoch,
        version,
        False,
    )
    group = _group(shard, request.group_id, who)
    check = group.may_commit(who, result)
    kept_ms = request.retention_time_ms
    expires_ms = NEVER_MS if kept_ms < 0 else min(result.now.wall_ms + kept_ms, _LATEST_MS)
    answered = OffsetCommit.Response.OffsetCommitResponseTopic
    partition = OffsetCommit.Response.OffsetCommitResponsePartition
    response = OffsetCommit.Response()
    for topic in request.topics:
        codes = _commit_topic(shard, group.id, topic, topic.topic_id, expires_ms, check, result)
        partitions = [partition(partition_index=index, error_code=code) for index, code in codes]
        response.topics.append(
            answered(name=topic.name, topic_id=topic.topic_id, partitions=partitions)
        )
    return response


def commit_in_transaction(
    shard: Groups,
    request: TxnOffsetCommit.Request,
    version: int,
    topic_id: Callable[[str], bytes],
    result: Result,
) -> TxnOffsetCommit.Response:
    """Like ``commit``, in the transaction of the request's producer. ``topic_id`` returns a topic's id, zero for a
    deleted one.

    Raises IllegalGeneration, GroupIdNotFound, and the errors of ``Group.may_commit``.
    """
    who = Commit(
        request.member_id, request.group_instance_id, request.generation_id_or_member_epoch, version, True
    )
    group = _group(shard, request.group_id, who)
    response = TxnOffsetCommit.Response()
    answered = TxnOffsetCommit.Response.TxnOffsetCommitResponseTopic
    partition = TxnOffsetCommit.Response.TxnOffsetCommitResponsePartition
    try:
        check = group.may_commit(who, result)
        for topic in request.topics:
            id = topic_id(topic.name)
            if id == ZERO_UUID and check is not None:
                raise errors.IllegalGeneration(f"topic {topic.name} does not exist")
            codes = _commit_topic(shard, group.id, topic, id, NEVER_MS, check, result)
            partitions = [partition(partition_index=at, error_code=code) for at, code in codes]
            response.topics.append(answered(name=topic.name, topic_id=topic.topic_id, partitions=partitions))
    except errors.StaleMemberEpoch as error:
        if version >= _FIRST_WITH_GROUP_ID_NOT_FOUND_IN_TRANSACTIONS:
            raise
        raise errors.IllegalGeneration(str(error)) from error
    result.producer = Producer(request.producer_id, request.producer_epoch)
    return response


def _group(shard: Groups, group_id: str, who: Commit) -> Group:
    """Returns the group, or a new simple one for a client that commits without being a member."""
    group = shard.groups.get(group_id)
    if group is not None:
        return group
    if who.epoch < 0:
        return shard.simple_group(group_id)
    first = _FIRST_WITH_GROUP_ID_NOT_FOUND_IN_TRANSACTIONS if who.transactional else _FIRST_WITH_GROUP_ID_NOT_FOUND
    if who.version >= first:
        raise errors.GroupIdNotFound(f"Group {group_id} not found.")
    raise errors.IllegalGeneration(f"group {group_id} does not exist")


def _commit_topic(
    shard: Groups,
    group_id: str,
    topic: Topic,
    topic_id: bytes,
    expires_ms: int,
    check: CheckPartition | None,
    result: Result,
) -> list[tuple[int, int]]:
    """Writes the records of one topic; returns its partitions with error codes."""
    now_ms = result.now.wall_ms
    longest = shard.settings.max_offset_metadata
    outcome = []
    for asked in topic.partitions:
        index = asked.partition_index
        metadata = asked.committed_metadata or ""
        if metadata and _java_length(metadata) > longest:
            outcome.append((index, errors.OffsetMetadataTooLarge.code))
            continue
        if check is not None:
            check(topic.name, topic_id, index)
        offset = CommittedOffset(
            asked.committed_offset,
            asked.committed_leader_epoch,
            metadata,
            now_ms,
            expires_ms,
            topic_id,
        )
        result.write(offset_record(group_id, topic.name, index, offset))
        outcome.append((index, errors.NONE))
    return outcome


def _java_length(text: str) -> int:
    """Returns the length in UTF-16 code units, in which Kafka measures metadata."""
    return len(text) if text.isascii() else len(text.encode("utf-16-le", "surrogatepass")) // 2
