"""The topics in which the broker keeps its own state: how they are made when first needed."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from pybroker.cluster.image import OFFSETS_TOPIC, TRANSACTIONS_TOPIC
from pybroker.cluster.plan import NewTopic
from pybroker.config import TOPICS, BrokerConfig


def internal_topic(name: str, config: BrokerConfig, brokers: int) -> NewTopic:
    """The request for an internal topic.

    Its replication factor is Kafka's 3 only as far as there are ``brokers``, unless it is set.
    """
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
        _at_most(config, "offsets.topic.replication.factor", brokers),
        configs=tuple(configs.items()),
    )


def _transactions(config: BrokerConfig, brokers: int) -> NewTopic:
    configs = {
        "cleanup.policy": "compact",
        "compression.type": "uncompressed",
        "min.insync.replicas": str(_at_most(config, "transaction.state.log.min.isr", brokers)),
        "segment.bytes": _segment_bytes(config["transaction.state.log.segment.bytes"]),
        "unclean.leader.election.enable": "false",
    }
    return NewTopic(
        TRANSACTIONS_TOPIC,
        config["transaction.state.log.num.partitions"],
        _at_most(config, "transaction.state.log.replication.factor", brokers),
        configs=tuple(configs.items()),
    )


def _at_most(config: BrokerConfig, key: str, brokers: int) -> int:
    value = int(config[key])
    return value if config.is_set(key) else max(1, min(value, brokers))


def _segment_bytes(size: int) -> str:
    return str(max(size, int(TOPICS["segment.bytes"].valid.low or 0)))


_REQUESTS: Final[Mapping[str, Callable[[BrokerConfig, int], NewTopic]]] = {
    OFFSETS_TOPIC: _offsets,
    TRANSACTIONS_TOPIC: _transactions,
}
