"""ElectLeaders (43), 0-2: elects leaders of partitions. Version 0 elects preferred leaders, v1 also unclean ones
(KIP-460). Null means all partitions.
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

from pybroker.handlers.common.call import Call
from pybroker.handlers.common.forwarding import forwarded
from pybroker.handlers.common.pacing import Paced, Part, in_turns, one_by_one, parts
from pybroker.handlers.common.writes import ITEMS_AT_ONCE
from pybroker.topic_partition import TopicPartition
from pyclient.protocol import ElectLeaders, errors
from pyclient.protocol.errors import KafkaError

if TYPE_CHECKING:
    Result = ElectLeaders.Response.PartitionResult

PREFERRED, UNCLEAN = 0, 1
_FIRST_WITH_ERROR = 1


async def handle(request: ElectLeaders.Request, call: Call) -> ElectLeaders.Response:
    """Answers with one result per partition. If null means all, only those that needed an election have a result."""
    topics = request.topic_partitions
    if topics is None:
        response: ElectLeaders.Response = await _at_controller(request, call)
        return response
    told = ElectLeaders.Response()

    async def elect(part: list[Part]) -> None:
        request.topic_partitions = []
        for topic, partitions, _ in part:
            topic.partitions = partitions
            request.topic_partitions.append(topic)
        some = await _at_controller(request, call)
        if (error := errors.by_code(some.error_code)) is not None:
            raise error
        for more in some.replica_election_results:
            last = told.replica_election_results[-1] if told.replica_election_results else None
            if last is not None and last.topic == more.topic:
                last.partition_result += more.partition_result
            else:
                told.replica_election_results.append(more)

    try:
        await one_by_one(parts(topics, "partitions", ITEMS_AT_ONCE), elect, call)
    except KafkaError as error:
        return ElectLeaders.Response(error_code=error.code)
    return told


@in_turns
def refused(request: ElectLeaders.Request, call: Call, error: KafkaError) -> Paced[ElectLeaders.Response]:
    """Returns the response to a client that may not elect leaders. In v0, the error is in every partition's result."""
    response = ElectLeaders.Response()
    if call.version >= _FIRST_WITH_ERROR:
        response.error_code = error.code
        return response
    for topic in request.topic_partitions or ():
        told = ElectLeaders.Response.ReplicaElectionResult(topic=topic.topic)
        response.replica_election_results.append(told)
        for index in topic.partitions:
            yield
            told.partition_result.append(_result(index, error))
    return response


async def _elect(request: ElectLeaders.Request, call: Call) -> ElectLeaders.Response:
    if request.election_type not in (PREFERRED, UNCLEAN):
        return ElectLeaders.Response(error_code=errors.InvalidRequest.code)
    try:
        outcomes = await call.broker.controller.elect_leaders(
            _partitions(request, call), unclean=request.election_type == UNCLEAN
        )
    except KafkaError as error:
        return ElectLeaders.Response(error_code=error.code)
    by_topic: dict[str, list[Result]] = defaultdict(list)
    for tp, outcome in outcomes.items():
        results = by_topic[tp.topic]
        if request.topic_partitions is None and isinstance(outcome, errors.ElectionNotNeeded):
            continue
        results.append(_result(tp.partition, outcome))
    return ElectLeaders.Response(
        replica_election_results=[
            ElectLeaders.Response.ReplicaElectionResult(topic=topic, partition_result=results)
            for topic, results in by_topic.items()
        ]
    )


_at_controller = forwarded(ElectLeaders, _elect)


def _partitions(request: ElectLeaders.Request, call: Call) -> list[TopicPartition]:
    if request.topic_partitions is None:
        return [
            TopicPartition(topic.name, partition.index)
            for topic in call.broker.metadata.image.topics.values()
            for partition in topic.partitions
        ]
    return [
        TopicPartition(entry.topic, index)
        for entry in request.topic_partitions
        for index in entry.partitions
    ]


def _result(index: int, error: KafkaError | None) -> Result:
    return ElectLeaders.Response.PartitionResult(
        partition_id=index,
        error_code=error.code if error else errors.NONE,
        error_message=str(error) if error else None,
    )
