"""Throttles replicas that catch up, so that they do not take the network from in-sync replicas (KIP-73).

``leader.replication.throttled.rate`` bounds what a leader sends to followers outside the ISR,
``follower.replication.throttled.rate`` what a follower outside the ISR fetches. Both hold for the partitions that the
topic's ``….replication.throttled.replicas`` names (``partition:broker``, or ``*``). In-sync replicas are never
throttled.

Pure: time (monotonic milliseconds) is an argument.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Final, Literal

from pybroker.cluster.metadata.image import MetadataImage
from pybroker.config import BrokerConfig
from pybroker.log.compaction.throttle import UNLIMITED, Throttle
from pybroker.topic_partition import TopicPartition

EVERYTHING: Final = "*"


class ReplicationThrottle:
    """The throttled rate of one side, leader or follower, of this broker's replication."""

    def __init__(
        self,
        side: Literal["leader", "follower"],
        node_id: int,
        config: BrokerConfig,
        image: Callable[[], MetadataImage],
    ) -> None:
        self._rate_key = f"{side}.replication.throttled.rate"
        self._replicas_key = f"{side}.replication.throttled.replicas"
        self._node_id = node_id
        self._config = config
        self._image = image
        self._throttle = Throttle()

    def delay_ms(self, partition: TopicPartition, replica: int, used_bytes: int, now_ms: int) -> int:
        """Counts ``used_bytes`` and returns how many milliseconds ``replica`` has to wait for the next records.

        Returns 0 for a replica that is in sync or not throttled.
        """
        rate = self._config[self._rate_key]
        if rate >= UNLIMITED or not self._is_throttled(partition, replica):
            return 0
        self._throttle.bytes_per_second = rate
        return round(self._throttle.delay(used_bytes, now_ms / 1000) * 1000)

    def _is_throttled(self, partition: TopicPartition, replica: int) -> bool:
        topic = self._image().topic(partition.topic)
        if topic is None or partition.partition >= len(topic.partitions):
            return False
        if replica in topic.partitions[partition.partition].isr:
            return False
        named = _named_by(topic.configs.get(self._replicas_key, ""))
        return EVERYTHING in named or f"{partition.partition}:{self._node_id}" in named


@lru_cache(maxsize=64)
def _named_by(replicas: str) -> frozenset[str]:
    """Splits a list of throttled replicas. Cached, since each fetch needs it and a moving topic may list thousands."""
    return frozenset(replicas.split(","))
