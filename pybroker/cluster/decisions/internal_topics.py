"""The topics in which the broker keeps its own state, and how they are created.

Their replication factor does not change later, and the first client may come before the second broker. So settings
decide the factor, not the number of live brokers: the topic's own setting, else ``default.replication.factor``, up to
Kafka's 3. While there are fewer brokers, the topic is refused (INVALID_REPLICATION_FACTOR), and clients find no
coordinator yet, as in Kafka since KIP-115. Without any setting for replication, the factor is the number of brokers, up
to 3, so that a single broker just works.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from pybroker.cluster.decisions.plan import NewTopic
from pybroker.cluster.metadata.image import OFFSETS_TOPIC, TRANSACTIONS_TOPIC
from pybroker.config import TOPICS, BrokerConfig


def internal_topic(name: str, config: BrokerConfig, brokers: int) -> NewTopic:
    """Returns the request to create an internal topic in a cluster of so many ``brokers``."""
    return _REQUESTS[name](config, brokers)


def _offsets(config: BrokerConfig, brokers: int) -> NewTopic:
    configs = {
        "cleanup.policy": "compact",
        "compression.type": "producer",
        "segment.bytes": _segment_bytes(config["offsets.topic.segment.bytes"]),
    }
    return NewTopic(
        OFFSETS_TOPIC,
        config["offsets.topic.num.partitions"],
        _factor(config, "offsets.topic.replication.factor", brokers),
        configs=tuple(configs.items()),
    )


def _transactions(config: BrokerConfig, brokers: int) -> NewTopic:
    factor = _factor(config, "transaction.state.log.replication.factor", brokers)
    configs = {
        "cleanup.policy": "compact",
        "compression.type": "uncompressed",
        "min.insync.replicas": str(_min_isr(config, factor)),
        "segment.bytes": _segment_bytes(config["transaction.state.log.segment.bytes"]),
        "unclean.leader.election.enable": "false",
    }
    return NewTopic(
        TRANSACTIONS_TOPIC,
        config["transaction.state.log.num.partitions"],
        factor,
        configs=tuple(configs.items()),
    )


def _factor(config: BrokerConfig, key: str, brokers: int) -> int:
    factor = int(config[key])
    if config.is_set(key):
        return factor
    return min(factor, max(brokers, int(config["default.replication.factor"])))


def _min_isr(config: BrokerConfig, factor: int) -> int:
    key = "transaction.state.log.min.isr"
    return int(config[key]) if config.is_set(key) else min(int(config[key]), factor)


def _segment_bytes(size: int) -> str:
    return str(max(size, int(TOPICS["segment.bytes"].valid.low or 0)))


_REQUESTS: Final[Mapping[str, Callable[[BrokerConfig, int], NewTopic]]] = {
    OFFSETS_TOPIC: _offsets,
    TRANSACTIONS_TOPIC: _transactions,
}
