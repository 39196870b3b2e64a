"""OffsetCommit (8): commits offsets of a group. Version 6 adds leader epochs (KIP-320), v7 static members (KIP-345),
v10 topic ids (KIP-848).

The handler refuses partitions that do not exist; the coordinator decides on all others.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pybroker.cluster.metadata.image import MetadataImage, TopicImage
from pybroker.handlers.common.call import Call
from pybroker.handlers.common.offset_writes import by_id, of_existing
from pybroker.handlers.common.security.rights import READ_GROUP, may
from pyclient.protocol import OffsetCommit, errors

if TYPE_CHECKING:
    Asked = OffsetCommit.Request.OffsetCommitRequestTopic
    Topic = OffsetCommit.Response.OffsetCommitResponseTopic

_FIRST_WITH_IDS = 10


async def handle(request: OffsetCommit.Request, call: Call) -> OffsetCommit.Response:
    """Answers with one result per partition, in the order of the request's topics."""
    response = OffsetCommit.Response()
    with_ids = call.version >= _FIRST_WITH_IDS
    await of_existing(
        request,
        call,
        response.topics,
        (_topic, OffsetCommit.Response.OffsetCommitResponsePartition),
        lambda part: call.broker.groups.offset_commit(part, call.version),
        find=by_id if with_ids else _by_name,
        unknown=errors.UnknownTopicId if with_ids else errors.UnknownTopicOrPartition,
        denied=None if may(call, READ_GROUP, request.group_id) else errors.GroupAuthorizationFailed,
    )
    return response


def _topic(asked: Asked) -> Topic:
    return OffsetCommit.Response.OffsetCommitResponseTopic(name=asked.name, topic_id=asked.topic_id)


def _by_name(asked: Asked, image: MetadataImage) -> TopicImage | None:
    """Finds the topic by its name, and puts its id into ``asked``."""
    topic = image.topic(asked.name)
    if topic is not None:
        asked.topic_id = topic.id
    return topic
