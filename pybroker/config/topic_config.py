"""The configuration of topics as a LogConfig: a topic's overrides, with broker keys as defaults."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from pybroker.config.broker_config import BrokerConfig, suggestion
from pybroker.config.keys.key import ConfigError, Key, Value
from pybroker.config.keys.topic_keys import TOPIC_KEYS
from pybroker.config.log_config import LogConfig

TOPICS: Final[dict[str, Key]] = {key.name: key for key in TOPIC_KEYS}

_LAGS: Final = ("min.compaction.lag.ms", "max.compaction.lag.ms")

_POLICY: Final = "cleanup.policy"
_DELETING: Final = (_POLICY, "retention.ms", "retention.bytes", "delete.retention.ms", *_LAGS)
"""Keys that decide which records may be deleted."""

_FIELDS: Final = {
    name: name.replace(".", "_")
    for name in TOPICS
    if name.replace(".", "_") in LogConfig.__dataclass_fields__
}


def topic_config(config: BrokerConfig, overrides: Mapping[str, str]) -> LogConfig:
    """Returns the LogConfig of a topic with these overrides (as text); equal configurations are one object.

    Raises ConfigError for an unknown key or a bad value.
    """
    return _config_of(config, overrides, parse_topic_overrides)


def stored_topic_config(config: BrokerConfig, overrides: Mapping[str, str]) -> LogConfig:
    """Like ``topic_config``, for overrides from the store. It ignores overrides that it cannot parse: another version
    or an administrator may have written them.

    If an ignored override may protect records from deletion, the result deletes nothing.
    """
    return _config_of(config, overrides, _parse_stored)


def _config_of(
    config: BrokerConfig,
    overrides: Mapping[str, str],
    parse: Callable[[Mapping[str, str]], dict[str, Value]],
) -> LogConfig:
    cache: dict[Any, LogConfig] = config.derived.setdefault(parse.__name__, {})
    identity = tuple(sorted(overrides.items()))
    if identity not in cache:
        values = {**_defaults(config), **parse(overrides)}
        cache[identity] = LogConfig(**{f: _field(values[name]) for name, f in _FIELDS.items()})
    return cache[identity]


def _field(value: Value) -> Any:
    return frozenset(value) if isinstance(value, tuple) else value


def _defaults(config: BrokerConfig) -> dict[str, Value]:
    defaults: dict[str, Value] | None = config.derived.get("topic defaults")
    if defaults is None:
        defaults = {name: topic_default(config, key) for name, key in TOPICS.items()}
        config.derived["topic defaults"] = defaults
    return defaults


def topic_default(config: BrokerConfig, key: Key) -> Value:
    """Returns the value of a topic key for a topic without an override."""
    for name, factor in key.synonyms:
        value: Value = config[name]
        if value is not None:
            return value * factor if isinstance(value, int) and factor != 1 else value
    return key.default


def parse_topic_overrides(overrides: Mapping[str, str]) -> dict[str, Value]:
    """Parses a topic's overrides, and returns the typed values.

    Raises ConfigError for an unknown key, a bad value or a contradiction.
    """
    values: dict[str, Value] = {}
    for name, text in overrides.items():
        key = TOPICS.get(name)
        if key is None:
            raise ConfigError(f"{name} is unknown{suggestion(name, TOPICS)}")
        values[name] = key.parse(text)
    _check_lags(values)
    return values


def _parse_stored(overrides: Mapping[str, str]) -> dict[str, Value]:
    found = {name: TOPICS[name].parse_stored(text) for name, text in overrides.items() if name in TOPICS}
    values: dict[str, Value] = {name: value for name, value in found.items() if value is not None}
    if any(name in found and name not in values for name in _DELETING):
        values[_POLICY] = ()
    try:
        _check_lags(values)
    except ConfigError:
        return {name: value for name, value in values.items() if name not in _LAGS}
    return values


def _check_lags(values: Mapping[str, Value]) -> None:
    low, high = map(values.get, _LAGS)
    if isinstance(low, int) and isinstance(high, int) and low > high:
        raise ConfigError(f"min.compaction.lag.ms={low} is above max.compaction.lag.ms={high}")
