"""The producer's settings in the units its parts use (seconds, numbers, codecs), checked against each other."""

from __future__ import annotations

from dataclasses import dataclass

from cy.batch.compression import Codec
from pyclient.config import Config
from pyclient.errors import ConfigError

ACKS = {"all": -1, "-1": -1, "0": 0, "1": 1}
DEFAULT_LZ4_LEVEL = 9
"""Kafka's default, which means lz4's fast mode: level 0 of lz4 itself."""


@dataclass(frozen=True, slots=True)
class Settings:
    """The settings of a producer; times are in seconds, sizes in bytes."""

    acks: int
    idempotent: bool
    transactional_id: str | None
    transaction_timeout_ms: int
    retries: int
    linger: float
    delivery_timeout: float
    request_timeout_ms: int
    availability_timeout: float
    """0 means never. It is 0 without adaptive partitioning."""
    max_block: float
    api_timeout: float
    backoff: float
    max_backoff: float
    max_in_flight: int
    max_request_size: int
    codec: int
    level: int | None


def read(config: Config) -> Settings:
    """Returns the settings of a producer. Raises ConfigError if they contradict each other."""
    transactional_id = config.transactional_id
    acks = ACKS[config.acks]
    idempotent = _idempotent(config, acks, transactional_id)
    linger = config.linger_ms / 1000
    request_timeout = config.request_timeout_ms / 1000
    codec = Codec[config.compression_type.upper()]
    return Settings(
        acks=acks,
        idempotent=idempotent,
        transactional_id=transactional_id,
        transaction_timeout_ms=config.transaction_timeout_ms,
        retries=config.retries,
        linger=linger,
        delivery_timeout=_delivery_timeout(config, linger + request_timeout),
        request_timeout_ms=config.request_timeout_ms,
        availability_timeout=_availability_timeout(config),
        max_block=config.max_block_ms / 1000,
        api_timeout=config.default_api_timeout_ms / 1000,
        backoff=config.retry_backoff_ms / 1000,
        max_backoff=config.retry_backoff_max_ms / 1000,
        max_in_flight=config.max_in_flight_requests_per_connection,
        max_request_size=config.max_request_size,
        codec=int(codec),
        level=_level(config, codec),
    )


def _idempotent(config: Config, acks: int, transactional_id: str | None) -> bool:
    """Returns whether the producer is idempotent: by default, unless other settings exclude it."""
    problems = []
    if acks != ACKS["all"]:
        problems.append("acks=all")
    if config.retries == 0:
        problems.append("retries > 0")
    if config.max_in_flight_requests_per_connection > 5:
        problems.append("max.in.flight.requests.per.connection <= 5")
    asked = "enable.idempotence" in config.given and config.enable_idempotence
    if problems and (asked or transactional_id is not None):
        what = "transactional.id" if transactional_id is not None else "enable.idempotence"
        raise ConfigError(f"{what} needs {', '.join(problems)}")
    if transactional_id is not None and not config.enable_idempotence:
        raise ConfigError("transactional.id needs enable.idempotence")
    return bool(config.enable_idempotence) and not problems


def _delivery_timeout(config: Config, least: float) -> float:
    timeout: float = config.delivery_timeout_ms / 1000
    if timeout >= least:
        return timeout
    if "delivery.timeout.ms" in config.given:
        raise ConfigError("delivery.timeout.ms must be at least linger.ms + request.timeout.ms")
    return least


def _availability_timeout(config: Config) -> float:
    adaptive: bool = config.partitioner_adaptive_partitioning_enable
    return config.partitioner_availability_timeout_ms / 1000 if adaptive else 0.0


def _level(config: Config, codec: Codec) -> int | None:
    """Returns the level in the codec's own scale, None for its default."""
    if codec is Codec.GZIP:
        return None if config.compression_gzip_level == -1 else int(config.compression_gzip_level)
    if codec is Codec.LZ4:
        level = int(config.compression_lz4_level)
        return None if level == DEFAULT_LZ4_LEVEL else level
    return int(config.compression_zstd_level) if codec is Codec.ZSTD else None
