"""Which logs belong to no partition of a broker, by the metadata: see ``log.strays`` for what becomes of them."""

from __future__ import annotations

from pybroker.cluster.metadata.image import MetadataImage
from pybroker.log.files.partition_metadata import ZERO_ID
from pybroker.log.log import Log
from pyclient.protocol.uuids import to_base64

ADVICE = "Its log is kept as %s and not touched any more: see `pybroker log strays`"


def reason_to_leave(log: Log, image: MetadataImage, node_id: int) -> str:
    """Why the log is none of this broker's partitions; empty where it is one, or where that cannot be said.

    Of a topic that is in the store and cannot be read nothing can be said. A log without a topic id is that of any
    topic of its name.
    """
    name, index = log.topic_partition
    topic = image.topic(name) if log.topic_id == ZERO_ID else image.topic_by_id(log.topic_id)
    if topic is None:
        if image.topic(name) is not None:
            return f"the topic of this name is another one, not {to_base64(log.topic_id)}"
        return "" if name in image.unreadable else "the metadata do not know its topic"
    if index >= len(topic.partitions):
        return f"the topic has {len(topic.partitions)} partitions in the metadata"
    if node_id not in topic.partitions[index].replicas:
        return "the metadata have its replicas on other brokers"
    return ""
