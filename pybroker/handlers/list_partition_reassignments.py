"""ListPartitionReassignments (46), 0: lists the partitions that are moving to other brokers (KIP-455)."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from pybroker.cluster.metadata.image import MetadataImage, PartitionImage, TopicImage
from pybroker.handlers.common.call import Call
from pybroker.handlers.common.pacing import Paced, in_turns
from pyclient.protocol import ListPartitionReassignments

Response = ListPartitionReassignments.Response


@in_turns
def handle(
    request: ListPartitionReassignments.Request, call: Call
) -> Paced[ListPartitionReassignments.Response]:
    """Answers with the requested partitions that are moving; null requests all partitions."""
    image: MetadataImage = call.broker.metadata.image
    wanted: Iterable[tuple[TopicImage | None, Collection[int] | None]]
    if request.topics is None:
        wanted = ((topic, None) for topic in image.topics.values())
    else:
        wanted = ((image.topic(each.name), set(each.partition_indexes)) for each in request.topics)
    response = Response(error_message=None)
    for topic, indexes in wanted:
        yield
        if topic is None:
            continue
        found = Response.OngoingTopicReassignment(name=topic.name)
        for partition in topic.partitions:
            yield
            if partition.is_reassigned and (indexes is None or partition.index in indexes):
                found.partitions.append(_partition(partition))
        if found.partitions:
            response.topics.append(found)
    return response


def _partition(
    partition: PartitionImage,
) -> ListPartitionReassignments.Response.OngoingPartitionReassignment:
    return Response.OngoingPartitionReassignment(
        partition_index=partition.index,
        replicas=list(partition.replicas),
        adding_replicas=list(partition.joining),
        removing_replicas=list(partition.removing),
    )
