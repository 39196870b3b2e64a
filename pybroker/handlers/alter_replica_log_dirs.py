"""AlterReplicaLogDirs (34), 1-2: moves replicas between this broker's log dirs (KIP-113).

The reply comes when the moves have begun; DescribeLogDirs shows their progress. A replica that this broker does not
have yet is answered with REPLICA_NOT_AVAILABLE, and will be created in the requested dir.
"""

from __future__ import annotations

from collections.abc import Callable

from pybroker.handlers.common.call import Call
from pybroker.handlers.common.pacing import Paced, in_turns
from pybroker.topic_partition import TopicPartition
from pyclient.protocol import AlterReplicaLogDirs, errors

Response = AlterReplicaLogDirs.Response
Result = Response.AlterReplicaLogDirPartitionResult


@in_turns
def handle(request: AlterReplicaLogDirs.Request, call: Call) -> Paced[AlterReplicaLogDirs.Response]:
    """Answers with one result per replica."""
    return each_replica(request, lambda replica, path: move(call, replica, path))


@in_turns
def refused(
    request: AlterReplicaLogDirs.Request, call: Call, error: errors.KafkaError
) -> Paced[AlterReplicaLogDirs.Response]:
    """Returns the response to a client that may not move replicas."""
    return each_replica(request, lambda replica, path: error.code)


def each_replica(
    request: AlterReplicaLogDirs.Request, move: Callable[[TopicPartition, str], int]
) -> Paced[AlterReplicaLogDirs.Response]:
    """Returns the response with the error code of each ``move``."""
    topics: dict[str, list[Result]] = {}
    for log_dir in request.dirs:
        for topic in log_dir.topics:
            results = topics.setdefault(topic.name, [])
            for index in topic.partitions:
                yield
                code = move(TopicPartition(topic.name, index), log_dir.path)
                results.append(Result(partition_index=index, error_code=code))
    return Response(
        results=[
            Response.AlterReplicaLogDirTopicResult(topic_name=name, partitions=results)
            for name, results in topics.items()
        ]
    )


def move(call: Call, topic_partition: TopicPartition, path: str) -> int:
    """Begins to move a replica, after creating its log if that is still missing. Returns the error code."""
    call.broker.replicas.partitions.make(*topic_partition)
    try:
        call.broker.replicas.moves.start(topic_partition, path)
    except errors.KafkaError as error:
        return error.code
    return errors.NONE
