"""The names of folders in a log dir: Kafka's.

``<topic>-<partition>`` is a log. One that is deleted, that is being moved here, or that is set aside has a unique id
and a suffix behind it.
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
    """The partition whose log a folder holds, None for folders that are not ours."""
    topic, dash, index = name.rpartition("-")
    if not dash or not topic or not index.isdecimal():
        return None
    return TopicPartition(topic, int(index))


def marked_name(topic_partition: TopicPartition, suffix: str) -> str:
    """``<topic>-<partition>.<unique id>-delete``, the topic cut so that a file system takes the
    name (Kafka's way).
    """
    tail = f"-{topic_partition.partition}.{uuid.uuid4().hex}{suffix}"
    return topic_partition.topic[: MAX_NAME - len(tail)] + tail


def parse_marked(name: str, suffix: str) -> TopicPartition | None:
    """Returns the partition that gave the folder its name, whose topic may be shortened; None for another ``suffix``.
    """
    stem, dot, _ = name.removesuffix(suffix).rpartition(".")
    return parse_folder(stem) if dot and name.endswith(suffix) else None
