"""AlterPartitionReassignments (45), 0-1: moves partitions to other brokers, or cancels a move (KIP-455); v1 can
forbid to change the number of replicas (KIP-860).

The reply comes when the moves have begun; ListPartitionReassignments tells which are under way.
"""

from __future__ import annotations

from itertools import groupby

from pybroker.cluster.decisions.reassignments import Reassignment
from pybroker.handlers.common.call import Call
from pyclient.protocol import AlterPartitionReassignments, errors
from pyclient.protocol.errors import KafkaError

Response = AlterPartitionReassignments.Response


async def handle(
    request: AlterPartitionReassignments.Request, call: Call
) -> AlterPartitionReassignments.Response:
    """One result per partition, in the order of the request."""
    wanted = [
        Reassignment(
            topic.name,
            partition.partition_index,
            None if partition.replicas is None else tuple(partition.replicas),
        )
        for topic in request.topics
        for partition in topic.partitions
    ]
    may_change_factor = request.allow_replication_factor_change
    try:
        outcomes = await call.broker.controller.alter_reassignments(
            wanted, may_change_factor=may_change_factor
        )
    except KafkaError as error:
        return Response(error_code=error.code, error_message=str(error))
    results = zip(wanted, outcomes, strict=True)
    return Response(
        allow_replication_factor_change=may_change_factor,
        error_message=None,
        responses=[
            Response.ReassignableTopicResponse(
                name=name, partitions=[_result(each, error) for each, error in of_topic]
            )
            for name, of_topic in groupby(results, lambda result: result[0].topic)
        ],
    )


def _result(
    asked: Reassignment, error: KafkaError | None
) -> AlterPartitionReassignments.Response.ReassignablePartitionResponse:
    return Response.ReassignablePartitionResponse(
        partition_index=asked.partition,
        error_code=error.code if error else errors.NONE,
        error_message=str(error) if error else None,
    )
