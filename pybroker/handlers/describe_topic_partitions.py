"""DescribeTopicPartitions (75), 0: describes partitions of topics, page by page (KIP-966).

Topics come in the order of their names. A page ends after ``response_partition_limit`` partitions
(at most max.request.partition.size.limit); its cursor is where the next one begins.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pybroker.cluster.decisions.topic_names import check_name
from pybroker.cluster.metadata.image import PartitionImage, TopicImage
from pybroker.handlers.common.call import Call
from pybroker.handlers.common.pacing import Paced, in_turns
from pybroker.handlers.common.security import authorized_operations
from pybroker.handlers.common.security.rights import DESCRIBE_TOPIC, may
from pybroker.handlers.metadata import error_of, offline
from pyclient.protocol import DescribeTopicPartitions, errors
from pyclient.protocol.errors import KafkaError

if TYPE_CHECKING:
    Topic = DescribeTopicPartitions.Response.DescribeTopicPartitionsResponseTopic
    Partition = DescribeTopicPartitions.Response.DescribeTopicPartitionsResponsePartition
    Addresses = dict[int, tuple[str, int]]


@in_turns
def handle(
    request: DescribeTopicPartitions.Request, call: Call
) -> Paced[DescribeTopicPartitions.Response]:
    """Answers with one page."""
    image = call.broker.metadata.image
    names = {topic.name for topic in request.topics} or set(image.topics)
    cursor = request.cursor
    if cursor is not None:
        if cursor.partition_index < 0 or (request.topics and cursor.topic_name not in names):
            return _refused(sorted(names) if request.topics else [])
        names = {name for name in names if name >= cursor.topic_name}
    response = DescribeTopicPartitions.Response()
    denied: list[Topic] = []
    limit = call.broker.config["max.request.partition.size.limit"]
    left = max(1, min(request.response_partition_limit, limit))
    addresses = call.broker.endpoint_for(call.connection)
    for name in sorted(names):
        yield
        if not may(call, DESCRIBE_TOPIC, name, is_told=bool(request.topics)):
            denied += [_failed(name, errors.TopicAuthorizationFailed)] if request.topics else []
            continue
        first = cursor.partition_index if cursor and cursor.topic_name == name else 0
        if left <= 0:
            response.next_cursor = _cursor(name, first)
            break
        topic = image.topic(name)
        page = topic.partitions[first : first + left] if topic is not None else ()
        described = _unknown(name) if topic is None else _describe(topic, page, addresses)
        described.topic_authorized_operations = authorized_operations.of_topic(call, name)
        response.topics.append(described)
        if topic is None:
            continue
        left -= len(page)
        if first + len(page) < len(topic.partitions):
            response.next_cursor = _cursor(name, first + len(page))
            break
    response.topics += denied
    return response


def _cursor(name: str, index: int) -> DescribeTopicPartitions.Response.Cursor:
    return DescribeTopicPartitions.Response.Cursor(topic_name=name, partition_index=index)


def _refused(names: list[str]) -> DescribeTopicPartitions.Response:
    return DescribeTopicPartitions.Response(
        topics=[_failed(name, errors.InvalidRequest) for name in names]
    )


def _unknown(name: str) -> Topic:
    try:
        check_name(name)
        topic = _failed(name, errors.UnknownTopicOrPartition)
    except KafkaError as error:
        topic = _failed(name, type(error))
    return topic


def _failed(name: str, error: type[KafkaError]) -> Topic:
    return DescribeTopicPartitions.Response.DescribeTopicPartitionsResponseTopic(
        error_code=error.code, name=name
    )


def _describe(
    topic: TopicImage, page: tuple[PartitionImage, ...], addresses: Addresses
) -> Topic:
    return DescribeTopicPartitions.Response.DescribeTopicPartitionsResponseTopic(
        name=topic.name,
        topic_id=topic.id,
        is_internal=topic.is_internal,
        partitions=[_partition(partition, addresses) for partition in page],
    )


def _partition(partition: PartitionImage, addresses: Addresses) -> Partition:
    return DescribeTopicPartitions.Response.DescribeTopicPartitionsResponsePartition(
        error_code=error_of(partition, addresses),
        partition_index=partition.index,
        leader_id=partition.leader,
        leader_epoch=partition.leader_epoch,
        replica_nodes=list(partition.replicas),
        isr_nodes=list(partition.isr),
        eligible_leader_replicas=[],
        last_known_elr=[],
        offline_replicas=offline(partition, addresses),
    )
