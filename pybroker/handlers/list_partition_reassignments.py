"""ListPartitionReassignments (46), 0: lists the partitions that are moving to other brokers (KIP-455)."""

from __future__ import annotations

from collections.abc import Collection

from pybroker.cluster.metadata.image import MetadataImage, PartitionImage, TopicImage
from pybroker.handlers.common.call import Call
from pyclient.protocol import ListPartitionReassignments

Response = ListPartitionReassignments.Response


def handle(
    request: ListPartitionReassignments.Request, call: Call
) -> ListPartitionReassignments.Response:
    """Those that were asked for, null being all, as far as they are moving."""
    image: MetadataImage = call.broker.metadata.image
    wanted: list[tuple[TopicImage | None, Collection[int] | None]]
    if request.topics is None:
        wanted = [(topic, None) for topic in image.topics.values()]
    else:
        wanted = [(image.topic(each.name), each.partition_indexes) for each in request.topics]
    found = [_topic(topic, indexes) for topic, indexes in wanted if topic is not None]
    return Response(error_message=None, topics=[topic for topic in found if topic.partitions])


def _topic(
    topic: TopicImage, indexes: Collection[int] | None
) -> ListPartitionReassignments.Response.OngoingTopicReassignment:
    return Response.OngoingTopicReassignment(
        name=topic.name,
        partitions=[
            _partition(partition)
            for partition in topic.partitions
            if partition.is_reassigned
            and (indexes is None or partition.index in indexes)
        ],
    )


def _partition(
    partition: PartitionImage,
) -> ListPartitionReassignments.Response.OngoingPartitionReassignment:
    return Response.OngoingPartitionReassignment(
        partition_index=partition.index,
        replicas=list(partition.replicas),
        adding_replicas=list(partition.joining),
        removing_replicas=list(partition.removing),
    )
