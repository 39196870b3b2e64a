"""ElectLeaders (43), 0-2: elects leaders of partitions; v0 preferred, v1 also unclean (KIP-460). Null means all
partitions.
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

from pybroker.handlers.common.call import Call
from pybroker.topic_partition import TopicPartition
from pyclient.protocol import ElectLeaders, errors
from pyclient.protocol.errors import KafkaError

if TYPE_CHECKING:
    Result = ElectLeaders.Response.PartitionResult

PREFERRED, UNCLEAN = 0, 1


async def handle(request: ElectLeaders.Request, call: Call) -> ElectLeaders.Response:
    """One result per partition; of all partitions, only of those that needed an election."""
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
