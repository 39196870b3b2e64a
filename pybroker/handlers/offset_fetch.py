"""OffsetFetch (9): returns committed offsets of groups. From v2 on, null means all topics. Version 5 adds leader epochs
(KIP-320), v7 require_stable (KIP-447), v8 several groups (KIP-709), v10 topic ids (KIP-848).

A partition without a committed offset has offset -1, metadata "" and no error, even if its topic does not exist.

From v2 on an error of the group has a field of its own, and Kafka then leaves the partitions out. Up to v7 this handler
also puts a retriable error into each partition, because aiokafka looks only there. It would take a missing partition
for one without a committed offset, and reset it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import compress
from typing import TYPE_CHECKING, Any

from pybroker.cluster.metadata.image import MetadataImage
from pybroker.coordinator.group.offsets import NO_OFFSET, UNSTABLE, CommittedOffset
from pybroker.coordinator.group.shard import OffsetsAsked
from pybroker.handlers.common.call import Call
from pybroker.handlers.common.pacing import Paced, Part, in_turns, one_by_one, parts, settled
from pybroker.handlers.common.security.rights import DESCRIBE_GROUP, DESCRIBE_TOPIC, check, may
from pyclient.protocol import ZERO_UUID, OffsetFetch, errors
from pyclient.protocol.errors import KafkaError

if TYPE_CHECKING:
    Group = OffsetFetch.Response.OffsetFetchResponseGroup
    GroupTopic = OffsetFetch.Response.OffsetFetchResponseTopics
    Asked = OffsetFetch.Request.OffsetFetchRequestGroup
    AskedTopic = OffsetFetch.Request.OffsetFetchRequestTopics

_FIRST_WITH_ERROR = 2
_FIRST_WITH_SEVERAL_GROUPS = 8
_FIRST_WITH_IDS = 10
_ASKED_AT_ONCE = 1000
"""The number of partitions for which the coordinator is asked in one turn."""


async def handle(request: OffsetFetch.Request, call: Call) -> OffsetFetch.Response:
    """Answers with the committed offsets of one group, from v8 on of several groups."""
    if call.version >= _FIRST_WITH_SEVERAL_GROUPS:
        stable = request.require_stable
        groups = await one_by_one(_once(request.groups), lambda each: _group(each, call, stable=stable), call)
        return OffsetFetch.Response(groups=groups)
    try:
        return await _single(request, call)
    except KafkaError as error:
        refused: OffsetFetch.Response = await settled(_refused(request, call, error))
        return refused


def _once(groups: Iterable[Asked]) -> Iterator[Asked]:
    """Yields the requested groups. A group whose offsets are all requested comes only once, since they may be many."""
    whole: set[str] = set()
    for each in groups:
        if each.topics is None:
            if each.group_id in whole:
                continue
            whole.add(each.group_id)
        yield each


async def _single(request: OffsetFetch.Request, call: Call) -> OffsetFetch.Response:
    response = OffsetFetch.Response()

    kind = OffsetFetch.Response.OffsetFetchResponsePartition

    async def fetch(part: list[Part] | None) -> None:
        permitted = [may(call, DESCRIBE_TOPIC, each.topic.name) for each in part or ()]
        wanted = None if part is None else [(each.topic.name, each.partitions) for each in compress(part, permitted)]
        found = await call.broker.groups.committed(OffsetsAsked(request.group_id, wanted, request.require_stable))
        if part is None:
            response.topics = [
                OffsetFetch.Response.OffsetFetchResponseTopic(name=name, partitions=_partitions(kind, offsets))
                for name, offsets in found
                if may(call, DESCRIBE_TOPIC, name, is_told=False)
            ]
            return
        rest = iter(found)
        for (topic, indexes, begin), is_permitted in zip(part, permitted, strict=True):
            if not begin:
                response.topics.append(OffsetFetch.Response.OffsetFetchResponseTopic(name=topic.name))
            if is_permitted:
                told = _partitions(kind, next(rest)[1])
            else:
                told = _without_offsets(kind, indexes, errors.TopicAuthorizationFailed)
            response.topics[-1].partitions += told

    check(call, DESCRIBE_GROUP, request.group_id)
    await one_by_one(_parts(request.topics), fetch, call)
    return response


def _parts(topics: list[Any] | None) -> Iterable[list[Part] | None]:
    return [None] if topics is None else parts(topics, "partition_indexes", _ASKED_AT_ONCE)


@in_turns
def _refused(request: OffsetFetch.Request, call: Call, error: KafkaError) -> Paced[OffsetFetch.Response]:
    """Returns the response with the group's error. If it is retriable, or in v1, each partition has it too."""
    response = OffsetFetch.Response(error_code=error.code)
    if call.version >= _FIRST_WITH_ERROR and not error.retriable:
        return response
    told = error if call.version < _FIRST_WITH_ERROR else _among_partitions(error)
    for asked in request.topics or []:
        topic = OffsetFetch.Response.OffsetFetchResponseTopic(name=asked.name)
        response.topics.append(topic)
        for index in asked.partition_indexes:
            yield
            topic.partitions.append(
                OffsetFetch.Response.OffsetFetchResponsePartition(
                    partition_index=index, committed_offset=NO_OFFSET, metadata="", error_code=told.code
                )
            )
    return response


def _among_partitions(error: KafkaError) -> KafkaError:
    """Translates the error for clients that read only the partitions' errors.

    NOT_COORDINATOR makes them look up the coordinator again.
    """
    return errors.NotCoordinator() if isinstance(error, errors.CoordinatorNotAvailable) else error


async def _group(asked: Asked, call: Call, *, stable: bool) -> Group:
    group = OffsetFetch.Response.OffsetFetchResponseGroup(group_id=asked.group_id)
    with_ids = call.version >= _FIRST_WITH_IDS

    async def fetch(part: list[Part] | None) -> None:
        image: MetadataImage = call.broker.metadata.image
        refusals = [_refusal(each.topic, image, call, with_ids=with_ids) for each in part or ()]
        wanted = None
        if part is not None:
            served = [each for each, error in zip(part, refusals, strict=True) if error is None]
            wanted = [(each.topic.name, each.partitions) for each in served]
        found = await call.broker.groups.committed(
            OffsetsAsked(asked.group_id, wanted, stable, asked.member_id, asked.member_epoch)
        )
        if part is None:
            group.topics = [
                _topic(*each, image)
                for each in found
                if (not with_ids or each[0] in image.topics) and may(call, DESCRIBE_TOPIC, each[0], is_told=False)
            ]
            return
        offsets = iter(found)
        for (topic, indexes, begin), error in zip(part, refusals, strict=True):
            told = _topic(*next(offsets), image) if error is None else _refused_topic(topic, indexes, error)
            if begin:
                group.topics[-1].partitions += told.partitions
            else:
                group.topics.append(told)

    try:
        check(call, DESCRIBE_GROUP, asked.group_id)
        await one_by_one(_parts(asked.topics), fetch, call)
    except KafkaError as error:
        return OffsetFetch.Response.OffsetFetchResponseGroup(group_id=asked.group_id, error_code=error.code)
    return group


def _refusal(
    asked: AskedTopic, image: MetadataImage, call: Call, *, with_ids: bool
) -> type[KafkaError] | None:
    """Returns the error of a topic that is unknown or hidden, else None. Puts the topic's name into ``asked``."""
    if with_ids:
        topic = image.topic_by_id(asked.topic_id)
        if topic is None:
            return errors.UnknownTopicId
        asked.name = topic.name
    return None if may(call, DESCRIBE_TOPIC, asked.name) else errors.TopicAuthorizationFailed


def _refused_topic(asked: AskedTopic, indexes: list[int], error: type[KafkaError]) -> GroupTopic:
    partitions = _without_offsets(OffsetFetch.Response.OffsetFetchResponsePartitions, indexes, error)
    return OffsetFetch.Response.OffsetFetchResponseTopics(
        name=asked.name, topic_id=asked.topic_id, partitions=partitions
    )


def _without_offsets(partition: Any, indexes: list[int], error: type[KafkaError]) -> list[Any]:
    """Returns the error for each partition; ``partition`` is the class of its result."""
    return [
        partition(partition_index=index, committed_offset=NO_OFFSET, metadata="", error_code=error.code)
        for index in indexes
    ]


def _topic(name: str, offsets: Mapping[int, CommittedOffset], image: MetadataImage) -> GroupTopic:
    topic = image.topic(name)
    return OffsetFetch.Response.OffsetFetchResponseTopics(
        name=name,
        topic_id=ZERO_UUID if topic is None else topic.id,
        partitions=_partitions(OffsetFetch.Response.OffsetFetchResponsePartitions, offsets),
    )


def _partitions(partition: Any, offsets: Mapping[int, CommittedOffset]) -> list[Any]:
    """Returns the offsets in the form of the response; ``partition`` is the class of their results."""
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
