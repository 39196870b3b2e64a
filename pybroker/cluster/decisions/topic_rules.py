"""The settings of topics that the controller needs. It ignores unparsable ones, as leaders do."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from pybroker.cluster.metadata.image import (
    DEFAULT_BROKER,
    BrokerRegistration,
    MetadataImage,
    PartitionImage,
    ResourceType,
    TopicImage,
)
from pybroker.config import KEYS, TOPICS, BrokerConfig, stored_topic_config
from pybroker.config.log_config import LogConfig

MIN_ISR: Final = "min.insync.replicas"


class TopicRules:
    """The rules for one plan. They are cached, because a plan may need them for many topics with few configurations."""

    def __init__(
        self, config: BrokerConfig, image: MetadataImage, brokers: Mapping[int, BrokerRegistration]
    ) -> None:
        """``brokers`` are the live brokers; their dynamic configurations are those in ``image``."""
        self._config = config
        self._min_isr = {id: _min_isr(image, broker) for id, broker in brokers.items()}
        self._read: dict[frozenset[tuple[str, str]], LogConfig] = {}

    def min_isr(self, topic: TopicImage, partition: PartitionImage) -> int:
        """Returns the smallest min.insync.replicas of all possible leaders: the topic's, else the smallest of its live
        replicas.

        An absent broker does not lead, and is counted when it returns.
        """
        own = TOPICS[MIN_ISR].parse_stored(topic.configs.get(MIN_ISR))
        if isinstance(own, int):
            return own
        return min((self._min_isr[id] for id in partition.replicas if id in self._min_isr), default=1)

    def is_unclean_allowed(self, topic: TopicImage) -> bool:
        """Returns unclean.leader.election.enable."""
        return self._of(topic).unclean_leader_election_enable

    def _of(self, topic: TopicImage) -> LogConfig:
        key = frozenset(topic.configs.items())
        found = self._read.get(key)
        if found is None:
            found = self._read[key] = stored_topic_config(self._config, topic.configs)
        return found


def _min_isr(image: MetadataImage, broker: BrokerRegistration) -> int:
    """Returns the broker's own value: its dynamic setting, else that of all brokers, else the one of its start."""
    for name in (str(broker.id), DEFAULT_BROKER):
        dynamic = KEYS[MIN_ISR].parse_stored(image.configs(ResourceType.BROKER, name).get(MIN_ISR))
        if isinstance(dynamic, int):
            return dynamic
    return broker.min_isr
