"""TxnOffsetCommit (28): commits offsets of a group within a transaction; v2 leader epoch (KIP-320), v3 group metadata
(KIP-447), v4 TRANSACTION_ABORTABLE, v5 adds the group to the transaction (KIP-890).

Partitions that do not exist are refused here; the rest is the coordinator's matter.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pybroker.cluster.metadata.image import MetadataImage
from pybroker.handlers.common.call import Call
from pyclient.protocol import TxnOffsetCommit, errors

if TYPE_CHECKING:
    Asked = TxnOffsetCommit.Request.TxnOffsetCommitRequestTopic
    Topic = TxnOffsetCommit.Response.TxnOffsetCommitResponseTopic


async def handle(request: TxnOffsetCommit.Request, call: Call) -> TxnOffsetCommit.Response:
    """An outcome per partition, in the order of the request."""
    image: MetadataImage = call.broker.metadata.image
    topics = [_without_unknown(topic, image) for topic in request.topics]
    if any(asked.partitions for asked in request.topics):
        response: TxnOffsetCommit.Response = await call.broker.groups.txn_offset_commit(
            request, call.version
        )
        for topic, answered in zip(topics, response.topics, strict=True):
            topic.partitions += answered.partitions
    return TxnOffsetCommit.Response(topics=topics)


def _without_unknown(asked: Asked, image: MetadataImage) -> Topic:
    """Takes the partitions out that do not exist, and answers for them."""
    topic = image.topic(asked.name)
    count = 0 if topic is None else len(topic.partitions)
    unknown = [each for each in asked.partitions if not 0 <= each.partition_index < count]
    asked.partitions = [each for each in asked.partitions if 0 <= each.partition_index < count]
    return TxnOffsetCommit.Response.TxnOffsetCommitResponseTopic(
        name=asked.name,
        partitions=[
            TxnOffsetCommit.Response.TxnOffsetCommitResponsePartition(
                partition_index=each.partition_index,
                error_code=errors.UnknownTopicOrPartition.code,
            )
            for each in unknown
        ],
    )
