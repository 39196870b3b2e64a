"""What topics' configurations say to the controller."""

from __future__ import annotations

from pybroker.cluster.image import TopicImage
from pybroker.config import BrokerConfig, topic_config
from pybroker.log.config import LogConfig


class TopicRules:
    """For one plan: configurations that are alike are read once."""

    def __init__(self, config: BrokerConfig) -> None:
        self._config = config
        self._read: dict[frozenset[tuple[str, str]], LogConfig] = {}

    def min_isr(self, topic: TopicImage) -> int:
        """min.insync.replicas."""
        return self._of(topic).min_insync_replicas

    def is_unclean_allowed(self, topic: TopicImage) -> bool:
        """unclean.leader.election.enable."""
        return self._of(topic).unclean_leader_election_enable

    def _of(self, topic: TopicImage) -> LogConfig:
        key = frozenset(topic.configs.items())
        found = self._read.get(key)
        if found is None:
            found = self._read[key] = topic_config(self._config, topic.configs)
        return found
