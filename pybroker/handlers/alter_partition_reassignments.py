"""AlterPartitionReassignments (45), 0-1: moves partitions to other brokers, or cancels a move (KIP-455). Version 1 can
forbid a change of the number of replicas (KIP-860).

The reply comes when the moves have begun; ListPartitionReassignments tells which are under way.
"""

from __future__ import annotations

from itertools import groupby

from pybroker.cluster.decisions.reassignments import Reassignment
from pybroker.handlers.common.call import Call
from pybroker.handlers.common.forwarding import forwarded
from pybroker.handlers.common.pacing import Part, one_by_one, parts
from pybroker.handlers.common.writes import ITEMS_AT_ONCE, Repeated
from pyclient.protocol import AlterPartitionReassignments, errors
from pyclient.protocol.errors import KafkaError

Asked = AlterPartitionReassignments.Request.ReassignablePartition
Response = AlterPartitionReassignments.Response


async def handle(
    request: AlterPartitionReassignments.Request, call: Call
) -> AlterPartitionReassignments.Response:
    """Answers with one result per partition, in the order of the request, or with the controller's first error."""
    told = Response(allow_replication_factor_change=request.allow_replication_factor_change, error_message=None)
    topics = request.topics
    named_twice = await Repeated.of(
        ((topic.name, each.partition_index) for topic in topics for each in topic.partitions), call
    )

    async def alter(part: list[Part]) -> None:
        request.topics = []
        for topic, partitions, _ in part:
            name = topic.name

            def key(each: Asked, name: str = name) -> tuple[str, int]:
                return name, each.partition_index

            topic.partitions = named_twice.arranged(partitions, key, key)
            request.topics.append(topic)
        some = await _at_controller(request, call)
        if (error := errors.by_code(some.error_code)) is not None:
            raise error(some.error_message or "")
        for more in some.responses:
            if told.responses and told.responses[-1].name == more.name:
                told.responses[-1].partitions += more.partitions
            else:
                told.responses.append(more)

    try:
        await one_by_one(parts(topics, "partitions", ITEMS_AT_ONCE), alter, call)
    except KafkaError as error:
        return Response(error_code=error.code, error_message=str(error))
    return told


async def _alter(
    request: AlterPartitionReassignments.Request, call: Call
) -> AlterPartitionReassignments.Response:
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


_at_controller = forwarded(AlterPartitionReassignments, _alter)


def _result(
    asked: Reassignment, error: KafkaError | None
) -> AlterPartitionReassignments.Response.ReassignablePartitionResponse:
    return Response.ReassignablePartitionResponse(
        partition_index=asked.partition,
        error_code=error.code if error else errors.NONE,
        error_message=str(error) if error else None,
    )
