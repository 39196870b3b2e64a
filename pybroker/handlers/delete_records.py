"""DeleteRecords (21), 0-2: raises the log start of partitions that this broker leads (KIP-107).

Offset -1 is the high watermark. When the reply comes without an error, the new log start survives a kill and a power
cut of each replica: the checkpoint file of its log dir has it, or those of both dirs during a move (``log_start``). By
then, the leader's segments that hold only deleted records have been renamed for deletion.
"""

from __future__ import annotations

import asyncio

from pybroker.cluster.metadata.image import INTERNAL_TOPICS
from pybroker.handlers.common.call import Call
from pybroker.handlers.common.pacing import WAITING_AT_ONCE, Part, one_by_one, parts
from pybroker.handlers.common.security.rights import DELETE_TOPIC, check
from pyclient.protocol import DeleteRecords, errors

Response = DeleteRecords.Response
Result = Response.DeleteRecordsPartitionResult



async def handle(request: DeleteRecords.Request, call: Call) -> DeleteRecords.Response:
    """Answers with one result per partition. It has the low watermark: the lowest log start of the replicas."""
    clock = call.broker.clock
    ends_ms = clock.monotonic_ms() + request.timeout_ms
    response = Response()

    async def delete_some(part: list[Part]) -> None:
        left_ms = max(0, ends_ms - clock.monotonic_ms())
        work = []
        for topic, partitions, begin in part:
            if not begin:
                response.topics.append(Response.DeleteRecordsTopicResult(name=topic.name))
            results = [Result(partition_index=each.partition_index, low_watermark=-1) for each in partitions]
            response.topics[-1].partitions += results
            for each, result in zip(partitions, results, strict=True):
                work.append(delete(call, topic.name, each.offset, left_ms, result))
        await asyncio.gather(*work)

    await one_by_one(parts(request.topics, "partitions", WAITING_AT_ONCE), delete_some, call)
    return response


async def delete(call: Call, topic: str, offset: int, timeout_ms: int, result: Result) -> None:
    """Deletes the records of one partition, and fills in its ``result``."""
    replicas = call.broker.replicas
    try:
        check(call, DELETE_TOPIC, topic)
        partition = replicas.find(topic, result.partition_index)
        if topic in INTERNAL_TOPICS:
            raise errors.InvalidTopicException(f"clients may not delete records of {topic}")
        result.low_watermark = await replicas.delete_records(partition, offset, timeout_ms)
    except errors.KafkaError as error:
        result.error_code = error.code
