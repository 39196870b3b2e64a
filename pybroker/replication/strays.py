"""Finds logs that belong to no partition of this broker. ``log.removal.strays`` keeps them as strays."""

from __future__ import annotations

from cy.counted import counted
from pybroker.cluster.metadata.image import MetadataImage
from pybroker.log.files.partition_metadata import ZERO_ID
from pybroker.log.log import Log
from pyclient.protocol.uuids import to_base64

ADVICE = "Its log is kept as the stray %s: see `pybroker log strays`"


def reason_to_leave(log: Log, image: MetadataImage, node_id: int) -> str:
    """Returns why the log belongs to no partition of this broker; "" if it belongs to one or if that is unknown.

    It is unknown if the store has the topic but its metadata cannot be read. A log without a topic id belongs to any
    topic of its name.
    """
    name, index = log.topic_partition
    topic = image.topic(name) if log.topic_id == ZERO_ID else image.topic_by_id(log.topic_id)
    if topic is None:
        if image.topic(name) is not None:
            return f"the topic of this name is a new one: its id is not {to_base64(log.topic_id)}"
        return "" if name in image.unreadable else "its topic is not in the metadata"
    if index >= len(topic.partitions):
        return f"the topic has only {counted(len(topic.partitions), 'partition')}"
    if node_id not in topic.partitions[index].replicas:
        return "its replicas are on other brokers"
    return ""
