"""Log dirs with small segments, loaded as a broker loads them."""

from __future__ import annotations

from pybroker.config.log_config import LogConfig
from pybroker.log.tests.helpers import manager
from pybroker.topic_partition import TopicPartition

CONFIG = LogConfig(segment_bytes=2000)


def tp(index: int, topic: str = "flights") -> TopicPartition:
    return TopicPartition(topic, index)


def loaded(*dirs, **options):
    logs = manager(*dirs, config=CONFIG, **options)
    logs.load()
    return logs
