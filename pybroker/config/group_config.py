"""The configuration of groups: a group's overrides, with broker keys as defaults and limits."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from pybroker.config.broker_config import BrokerConfig, suggestion
from pybroker.config.keys.group_keys import GROUP_KEYS
from pybroker.config.keys.key import ConfigError, Key, Value

GROUPS: Final[dict[str, Key]] = {key.name: key for key in GROUP_KEYS}

# # key of a group → the broker keys with its smallest and largest value
_BOUNDS: Final = {
    f"consumer.{name}": (f"group.consumer.min.{name}", f"group.consumer.max.{name}")
    for name in ("session.timeout.ms", "heartbeat.interval.ms", "assignment.interval.ms")
}


def check_group_configs(config: BrokerConfig, overrides: Mapping[str, str]) -> None:
    """Raises ConfigError for an unknown key, a bad value, or a value outside the broker's limits."""
    for name, text in overrides.items():
        value = _parse(name, text)
        low, high = _BOUNDS.get(name, (None, None))
        if low and isinstance(value, int) and value < config[low]:
            raise ConfigError(f"{name}={text} is below {low}={config[low]}")
        if high and isinstance(value, int) and value > config[high]:
            raise ConfigError(f"{name}={text} is above {high}={config[high]}")


def _parse(name: str, text: str) -> Value:
    key = GROUPS.get(name)
    if key is None:
        raise ConfigError(f"{name} is unknown{suggestion(name, GROUPS)}")
    return key.parse(text)


def group_config(config: BrokerConfig, overrides: Mapping[str, str], name: str) -> Value:
    """Returns the typed value of one key for a group with these overrides."""
    key = GROUPS[name]
    if name in overrides:
        return key.parse(overrides[name])
    return config[key.synonyms[0].name] if key.synonyms else key.default
