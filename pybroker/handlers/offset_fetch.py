"""OffsetFetch (9): returns committed offsets of groups; v2 null topics are all, v5 leader epoch (KIP-320), v7
require_stable (KIP-447), v8 several groups (KIP-709), v10 topic ids (KIP-848).

A partition without a committed offset has offset -1, metadata "" and no error. The topic may have been deleted.

From v2 on an error of the group has a field of its own. Kafka leaves the partitions out then. Ours repeat a retriable
error there, up to v7: aiokafka looks at the partitions alone. It takes one that is missing for one that was never
committed, and reads it again from its beginning.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from pybroker.cluster.metadata.image import MetadataImage
from pybroker.coordinator.group.offsets import NO_OFFSET, UNSTABLE, CommittedOffset
from pybroker.coordinator.group.shard import OffsetsAsked
from pybroker.handlers.common.call import Call
from pyclient.protocol import OffsetFetch, errors
from pyclient.protocol.errors import KafkaError

if TYPE_CHECKING:
    Group = OffsetFetch.Response.OffsetFetchResponseGroup
    GroupTopic = OffsetFetch.Response.OffsetFetchResponseTopics
    Asked = OffsetFetch.Request.OffsetFetchRequestGroup

_FIRST_WITH_ERROR = 2
_FIRST_WITH_SEVERAL_GROUPS = 8
_FIRST_WITH_IDS = 10


async def handle(request: OffsetFetch.Request, call: Call) -> OffsetFetch.Response:
    """The committed offsets of one group, or since v8 of several."""
    if call.version >= _FIRST_WITH_SEVERAL_GROUPS:
        stable = request.require_stable
        groups = [await _group(each, call, stable=stable) for each in request.groups]
        return OffsetFetch.Response(groups=groups)
    return await _single(request, call)


async def _single(request: OffsetFetch.Request, call: Call) -> OffsetFetch.Response:
    topics = request.topics
    wanted = None if topics is None else [(each.name, each.partition_indexes) for each in topics]
    try:
        found = await call.broker.groups.committed(
            OffsetsAsked(request.group_id, wanted, request.require_stable)
        )
    except KafkaError as error:
        return _refused(request, error, call.version)
    response = OffsetFetch.Response.OffsetFetchResponseTopic
    partition = OffsetFetch.Response.OffsetFetchResponsePartition
    return OffsetFetch.Response(
        topics=[
            response(name=name, partitions=_partitions(partition, offsets))
            for name, offsets in found
        ]
    )


def _refused(request: OffsetFetch.Request, error: KafkaError, version: int) -> OffsetFetch.Response:
    """Each partition carries the group's error if it is retriable; any error in v1, which has no other place for it."""
    if version >= _FIRST_WITH_ERROR and not error.retriable:
        return OffsetFetch.Response(error_code=error.code)
    told = error if version < _FIRST_WITH_ERROR else _among_partitions(error)
    return OffsetFetch.Response(
        error_code=error.code,
        topics=[
            OffsetFetch.Response.OffsetFetchResponseTopic(
                name=topic.name,
                partitions=[
                    OffsetFetch.Response.OffsetFetchResponsePartition(
                        partition_index=index,
                        committed_offset=NO_OFFSET,
                        metadata="",
                        error_code=told.code,
                    )
                    for index in topic.partition_indexes
                ],
            )
            for topic in request.topics or []
        ],
    )


def _among_partitions(error: KafkaError) -> KafkaError:
    """Clients that look at partitions know two errors after which they look for the coordinator again."""
    return errors.NotCoordinator() if isinstance(error, errors.CoordinatorNotAvailable) else error


async def _group(asked: Asked, call: Call, *, stable: bool) -> Group:
    image: MetadataImage = call.broker.metadata.image
    with_ids = call.version >= _FIRST_WITH_IDS
    group = OffsetFetch.Response.OffsetFetchResponseGroup(group_id=asked.group_id)
    wanted = None
    if asked.topics is not None:
        if with_ids:
            group.topics = [_unknown(each) for each in asked.topics if not _named(each, image)]
        known = [each for each in asked.topics if not with_ids or _named(each, image)]
        wanted = [(each.name, each.partition_indexes) for each in known]
    try:
        found = await call.broker.groups.committed(
            OffsetsAsked(asked.group_id, wanted, stable, asked.member_id, asked.member_epoch)
        )
    except KafkaError as error:
        return OffsetFetch.Response.OffsetFetchResponseGroup(
            group_id=asked.group_id, error_code=error.code
        )
    for name, offsets in found:
        topic = image.topic(name)
        if topic is not None or not with_ids:
            group.topics.append(_topic(name, topic.id if topic and with_ids else None, offsets))
    return group


def _named(asked: OffsetFetch.Request.OffsetFetchRequestTopics, image: MetadataImage) -> bool:
    """Gives the topic the name that belongs to its id; False where no topic has that id."""
    topic = image.topic_by_id(asked.topic_id)
    if topic is not None:
        asked.name = topic.name
    return topic is not None


def _unknown(asked: OffsetFetch.Request.OffsetFetchRequestTopics) -> GroupTopic:
    return OffsetFetch.Response.OffsetFetchResponseTopics(
        topic_id=asked.topic_id,
        partitions=[
            OffsetFetch.Response.OffsetFetchResponsePartitions(
                partition_index=index,
                committed_offset=NO_OFFSET,
                metadata="",
                error_code=errors.UnknownTopicId.code,
            )
            for index in asked.partition_indexes
        ],
    )


def _topic(name: str, id: bytes | None, offsets: Mapping[int, CommittedOffset]) -> GroupTopic:
    partition = OffsetFetch.Response.OffsetFetchResponsePartitions
    topic = OffsetFetch.Response.OffsetFetchResponseTopics(
        name=name, partitions=_partitions(partition, offsets)
    )
    if id is not None:
        topic.topic_id = id
    return topic


def _partitions(partition: Any, offsets: Mapping[int, CommittedOffset]) -> list[Any]:
    """Offsets as one of the two forms of response has them: ``partition`` is its class."""
    return [
        partition(
            partition_index=index,
            committed_offset=each.offset,
            committed_leader_epoch=each.leader_epoch,
            metadata=each.metadata,
            error_code=errors.UnstableOffsetCommit.code if each is UNSTABLE else errors.NONE,
        )
        for index, each in offsets.items()
    ]
