"""DescribeProducers (61), 0: lists the active producers of partitions (KIP-664)."""

from __future__ import annotations

from pybroker.handlers.common.call import Call
from pybroker.handlers.common.pacing import Paced, in_turns
from pybroker.handlers.common.security.rights import READ_TOPIC, check
from pyclient.protocol import DescribeProducers, errors

Response = DescribeProducers.Response
PartitionResponse = Response.PartitionResponse


@in_turns
def handle(request: DescribeProducers.Request, call: Call) -> Paced[DescribeProducers.Response]:
    """Answers with one result per partition, which this broker must lead. A repeated partition gets only one result."""
    response = Response()
    seen: set[tuple[str, int]] = set()
    for topic in request.topics:
        told = Response.TopicResponse(name=topic.name)
        response.topics.append(told)
        for index in topic.partition_indexes:
            yield
            if (topic.name, index) not in seen:
                seen.add((topic.name, index))
                told.partitions.append(describe(call, topic.name, index))
    return response


def describe(call: Call, topic: str, index: int) -> PartitionResponse:
    """Returns the producers of one partition."""
    try:
        check(call, READ_TOPIC, topic)
        partition = call.broker.replicas.find(topic, index)
        partition.check_leader()
    except errors.KafkaError as error:
        return PartitionResponse(partition_index=index, error_code=error.code, error_message=str(error))
    return PartitionResponse(
        partition_index=index,
        active_producers=[
            Response.ProducerState(
                producer_id=entry.producer_id,
                producer_epoch=entry.epoch,
                last_sequence=entry.last_sequence,
                last_timestamp=entry.last_timestamp,
                coordinator_epoch=entry.coordinator_epoch,
                current_txn_start_offset=entry.transaction_first_offset,
            )
            for entry in partition.log.producers.active()
        ],
    )
