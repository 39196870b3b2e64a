"""Preferred leaders: which partitions need an election so that leaders are spread evenly again.

The preferred leader of a partition is its first replica. A broker's imbalance is the share of its preferred partitions
that other brokers lead. If the imbalance exceeds the limit, all these partitions need an election, as far as the broker
is live and in sync.
"""

from __future__ import annotations

from collections import defaultdict

from pybroker.cluster.metadata.image import MetadataImage
from pybroker.topic_partition import TopicPartition


def imbalanced(image: MetadataImage, percentage: int) -> list[TopicPartition]:
    """Returns the partitions that should return to their preferred leader, if that can lead them now."""
    total: dict[int, int] = defaultdict(int)
    away: dict[int, list[TopicPartition]] = defaultdict(list)
    for topic in image.topics.values():
        for partition in topic.partitions:
            preferred = partition.replicas[0]
            total[preferred] += 1
            if partition.leader != preferred and preferred in image.brokers:
                away[preferred].append(TopicPartition(topic.name, partition.index))
    return [
        tp
        for broker, partitions in away.items()
        if len(partitions) * 100 > total[broker] * percentage
        for tp in partitions
        if _can_lead(image, broker, tp)
    ]


def _can_lead(image: MetadataImage, broker: int, tp: TopicPartition) -> bool:
    partition = image.partition(tp.topic, tp.partition)
    assert partition is not None
    return broker in partition.isr and not image.brokers[broker].is_leaving
