"""OffsetForLeaderEpoch (23), 2-4: returns the end of a leader epoch, so that a reader can detect a truncation.

KIP-101 defines it. Version 2 adds the client's current leader epoch (KIP-320), v3 its replica id.
"""

from __future__ import annotations

from pybroker.handlers.common.call import Call
from pybroker.handlers.common.pacing import Paced, in_turns
from pybroker.handlers.common.security.rights import CLUSTER_ACTION, DESCRIBE_TOPIC, may
from pyclient.protocol import OffsetForLeaderEpoch, errors

Request = OffsetForLeaderEpoch.Request
Response = OffsetForLeaderEpoch.Response


@in_turns
def handle(request: OffsetForLeaderEpoch.Request, call: Call) -> Paced[OffsetForLeaderEpoch.Response]:
    """Answers with one result per partition; (-1, -1) for an unknown epoch."""
    response = Response()
    for topic in request.topics:
        told = Response.OffsetForLeaderTopicResult(topic=topic.topic)
        response.topics.append(told)
        for each in topic.partitions:
            yield
            told.partitions.append(answer(call, topic.topic, each))
    return response


def answer(call: Call, topic: str, wanted: Request.OffsetForLeaderPartition) -> Response.EpochEndOffset:
    """Returns the end of the wanted epoch, or an error."""
    try:
        if not (may(call, DESCRIBE_TOPIC, topic) or may(call, CLUSTER_ACTION, is_told=False)):
            raise errors.TopicAuthorizationFailed
        partition = call.broker.replicas.find(topic, wanted.partition)
        partition.check_leader(wanted.current_leader_epoch)
        end = partition.end_offset_for_epoch(wanted.leader_epoch)
    except errors.KafkaError as error:
        return Response.EpochEndOffset(partition=wanted.partition, error_code=error.code)
    return Response.EpochEndOffset(partition=wanted.partition, leader_epoch=end.epoch, end_offset=end.end_offset)
