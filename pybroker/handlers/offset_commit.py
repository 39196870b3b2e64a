"""OffsetCommit (8): commits offsets of a group; v6 leader epoch (KIP-320), v7 static members (KIP-345), v10 topic ids
(KIP-848).

Partitions that do not exist are refused here; the rest is the coordinator's matter.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pybroker.cluster.metadata.image import MetadataImage
from pybroker.handlers.common.call import Call
from pyclient.protocol import OffsetCommit, errors

if TYPE_CHECKING:
    Asked = OffsetCommit.Request.OffsetCommitRequestTopic
    Topic = OffsetCommit.Response.OffsetCommitResponseTopic

_FIRST_WITH_IDS = 10


async def handle(request: OffsetCommit.Request, call: Call) -> OffsetCommit.Response:
    """An outcome per partition, in the order of the request."""
    image: MetadataImage = call.broker.metadata.image
    topics = [_without_unknown(topic, image, call.version) for topic in request.topics]
    if any(asked.partitions for asked in request.topics):
        response: OffsetCommit.Response = await call.broker.groups.offset_commit(
            request, call.version
        )
        for topic, answered in zip(topics, response.topics, strict=True):
            topic.partitions += answered.partitions
    return OffsetCommit.Response(topics=topics)


def _without_unknown(asked: Asked, image: MetadataImage, version: int) -> Topic:
    """Gives the topic its name and id; takes the partitions out that do not exist and answers them."""
    if version >= _FIRST_WITH_IDS:
        topic = image.topic_by_id(asked.topic_id)
        code = errors.UnknownTopicId.code
    else:
        topic = image.topic(asked.name)
        code = errors.UnknownTopicOrPartition.code
    if topic is not None:
        asked.name, asked.topic_id = topic.name, topic.id
        code = errors.UnknownTopicOrPartition.code
    count = 0 if topic is None else len(topic.partitions)
    unknown = [each for each in asked.partitions if not 0 <= each.partition_index < count]
    if unknown:
        asked.partitions = [each for each in asked.partitions if 0 <= each.partition_index < count]
    return OffsetCommit.Response.OffsetCommitResponseTopic(
        name=asked.name,
        topic_id=asked.topic_id,
        partitions=[
            OffsetCommit.Response.OffsetCommitResponsePartition(
                partition_index=each.partition_index, error_code=code
            )
            for each in unknown
        ],
    )
