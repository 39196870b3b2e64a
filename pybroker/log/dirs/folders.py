"""Makes and parses the names of folders in a log dir. These names are Kafka's.

``<topic>-<partition>`` is a log. If a log is being deleted, is being moved here, or is a stray, its folder's name also
has a unique id and a suffix.
"""

from __future__ import annotations

import uuid

from pybroker.topic_partition import TopicPartition

DELETE_SUFFIX = "-delete"
FUTURE_SUFFIX = "-future"
STRAY_SUFFIX = "-stray"
STRAY_NOTE = "stray.json"
"""A file in the folder of a stray (``strays``)."""
MAX_NAME = 255


def parse_folder(name: str) -> TopicPartition | None:
    """Returns the partition whose log a folder holds, None if the name is not that of a log."""
    topic, dash, index = name.rpartition("-")
    if not dash or not topic or not index.isdecimal():
        return None
    return TopicPartition(topic, int(index))


def marked_name(topic_partition: TopicPartition, suffix: str) -> str:
    """Returns a name like ``<topic>-<partition>.<unique id>-delete``; shortens the topic to fit, as Kafka does."""
    tail = f"-{topic_partition.partition}.{uuid.uuid4().hex}{suffix}"
    return topic_partition.topic[: MAX_NAME - len(tail)] + tail


def parse_marked(name: str, suffix: str) -> TopicPartition | None:
    """Returns the partition in a folder's name, where the topic may be shortened; None for another ``suffix``.
    """
    stem, dot, _ = name.removesuffix(suffix).rpartition(".")
    return parse_folder(stem) if dot and name.endswith(suffix) else None
