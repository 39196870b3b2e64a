"""Settings of groups from the broker's configuration."""

from __future__ import annotations

from dataclasses import dataclass

from pybroker.config import BrokerConfig


@dataclass(frozen=True, slots=True)
class GroupSettings:
    """Limits and times; the defaults are Kafka's."""

    initial_rebalance_delay_ms: int = 3_000
    min_session_timeout_ms: int = 6_000
    max_session_timeout_ms: int = 1_800_000
    max_size: int = (1 << 31) - 1
    new_member_join_timeout_ms: int = 300_000
    """How long a new member, which cannot send heartbeats yet, may wait in a JoinGroup."""
    max_offset_metadata: int = 4_096
    offsets_retention_ms: int = 10_080 * 60_000
    offsets_check_interval_ms: int = 600_000

    @classmethod
    def from_config(cls, config: BrokerConfig) -> GroupSettings:
        """Reads the settings of a broker."""
        return cls(
            initial_rebalance_delay_ms=config["group.initial.rebalance.delay.ms"],
            min_session_timeout_ms=config["group.min.session.timeout.ms"],
            max_session_timeout_ms=config["group.max.session.timeout.ms"],
            max_size=config["group.max.size"],
            max_offset_metadata=config["offset.metadata.max.bytes"],
            offsets_retention_ms=config["offsets.retention.minutes"] * 60_000,
            offsets_check_interval_ms=config["offsets.retention.check.interval.ms"],
        )
