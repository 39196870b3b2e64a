"""Settings of transactions from the broker's configuration."""

from __future__ import annotations

from dataclasses import dataclass

from pybroker.config import BrokerConfig


@dataclass(frozen=True, slots=True)
class TransactionSettings:
    """Limits and times in milliseconds; the defaults are Kafka's."""

    max_timeout_ms: int = 900_000
    id_expiration_ms: int = 604_800_000
    timeout_check_interval_ms: int = 10_000
    expiration_check_interval_ms: int = 3_600_000

    @classmethod
    def from_config(cls, config: BrokerConfig) -> TransactionSettings:
        """Reads the settings of a broker."""
        return cls(
            max_timeout_ms=config["transaction.max.timeout.ms"],
            id_expiration_ms=config["transactional.id.expiration.ms"],
            timeout_check_interval_ms=config[
                "transaction.abort.timed.out.transaction.cleanup.interval.ms"
            ],
            expiration_check_interval_ms=config[
                "transaction.remove.expired.transaction.cleanup.interval.ms"
            ],
        )
