"""What topics' configurations say to the controller."""

from __future__ import annotations

from typing import Final

from pybroker.cluster.image import Configs, TopicImage
from pybroker.config import BrokerConfig, topic_config
from pybroker.log.config import LogConfig

MIN_ISR: Final = "min.insync.replicas"


class TopicRules:
    """For one plan: configurations that are alike are read once."""

    def __init__(self, config: BrokerConfig, shared: Configs) -> None:
        """``shared``: the dynamic configuration of all brokers."""
        self._config = config
        self._min_isr = shared.get(MIN_ISR, "1")
        self._read: dict[frozenset[tuple[str, str]], LogConfig] = {}

    def min_isr(self, topic: TopicImage) -> int:
        """min.insync.replicas as every leader has it at least: of the topic, or dynamic for all brokers, else 1. A
        broker's own file may say less than this one's, so what it says does not count.
        """
        return int(topic.configs.get(MIN_ISR, self._min_isr))

    def is_unclean_allowed(self, topic: TopicImage) -> bool:
        """unclean.leader.election.enable."""
        return self._of(topic).unclean_leader_election_enable

    def _of(self, topic: TopicImage) -> LogConfig:
        key = frozenset(topic.configs.items())
        found = self._read.get(key)
        if found is None:
            found = self._read[key] = topic_config(self._config, topic.configs)
        return found
