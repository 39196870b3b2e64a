"""DeleteRecords (21), 0-2: raises the log start of partitions that this broker leads (KIP-107).

Offset -1 is the high watermark. When the reply comes without an error the new log start survives a kill and a power cut
of each replica: it is in the checkpoint file of the log dir, or of both while the log is between two (``log_start``).
The leader's segments that hold deleted records only have lost their names by then.
"""

from __future__ import annotations

import asyncio

from pybroker.cluster.metadata.image import INTERNAL_TOPICS
from pybroker.handlers.common.call import Call
from pyclient.protocol import DeleteRecords, errors

Request = DeleteRecords.Request
Response = DeleteRecords.Response
Result = Response.DeleteRecordsPartitionResult


async def handle(request: DeleteRecords.Request, call: Call) -> DeleteRecords.Response:
    """One line per partition with its low watermark: the least log start over its replicas."""
    topics = []
    for topic in request.topics:
        results = [delete(call, topic.name, each, request.timeout_ms) for each in topic.partitions]
        topics.append(
            Response.DeleteRecordsTopicResult(name=topic.name, partitions=list(await asyncio.gather(*results)))
        )
    return Response(topics=topics)


async def delete(call: Call, topic: str, wanted: Request.DeleteRecordsPartition, timeout_ms: int) -> Result:
    """Deletes in one partition."""
    replicas = call.broker.replicas
    result = Result(partition_index=wanted.partition_index, low_watermark=-1)
    try:
        partition = replicas.find(topic, wanted.partition_index)
        if topic in INTERNAL_TOPICS:
            raise errors.InvalidTopicException(f"records of {topic} are not for clients to delete")
        result.low_watermark = await replicas.delete_records(partition, wanted.offset, timeout_ms)
    except errors.KafkaError as error:
        result.error_code = error.code
    return result
