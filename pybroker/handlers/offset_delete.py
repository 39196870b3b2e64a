"""OffsetDelete (47), KIP-496: deletes committed offsets of topics that the group does not read."""

from __future__ import annotations

from pybroker.cluster.metadata.image import MetadataImage
from pybroker.handlers.common.call import Call
from pyclient.protocol import OffsetDelete, errors


async def handle(request: OffsetDelete.Request, call: Call) -> OffsetDelete.Response:
    """An outcome per partition; those that do not exist are refused here."""
    image: MetadataImage = call.broker.metadata.image
    topics = [_without_unknown(topic, image) for topic in request.topics]
    response: OffsetDelete.Response = await call.broker.groups.offset_delete(request)
    if response.error_code == errors.NONE:
        for topic, answered in zip(topics, response.topics, strict=True):
            topic.partitions += answered.partitions
        response.topics = topics
    return response


def _without_unknown(
    asked: OffsetDelete.Request.OffsetDeleteRequestTopic, image: MetadataImage
) -> OffsetDelete.Response.OffsetDeleteResponseTopic:
    """Takes the partitions out that do not exist, and answers for them."""
    indexes = [each.partition_index for each in asked.partitions]
    unknown = [index for index in indexes if image.partition(asked.name, index) is None]
    asked.partitions = [each for each in asked.partitions if each.partition_index not in unknown]
    code = errors.UnknownTopicOrPartition.code
    return OffsetDelete.Response.OffsetDeleteResponseTopic(
        name=asked.name,
        partitions=[
            OffsetDelete.Response.OffsetDeleteResponsePartition(
                partition_index=index, error_code=code
            )
            for index in unknown
        ],
    )
