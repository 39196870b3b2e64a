"""Configuration: the sources of settings, and the effective values. ``keys`` has the tables of keys.

Start with ``broker_config``: ``KEYS`` has the broker's keys, ``BrokerConfig`` its values. ``topic_config`` makes the
configuration of a log from a topic's overrides. ``remarks`` and ``unprotected`` report possible mistakes at a start.
This room imports no other room.
"""

from __future__ import annotations

from pybroker.config.broker_config import KEYS, BrokerConfig, Origin, Source
from pybroker.config.describe import (
    Described,
    describe_broker_key,
    describe_group_key,
    describe_topic_key,
)
from pybroker.config.group_config import GROUPS, check_group_configs, group_config
from pybroker.config.keys.key import ConfigError, Importance, Key, Scope, Type
from pybroker.config.listeners import Endpoint, advertised_listeners, listeners
from pybroker.config.topic_config import TOPICS, parse_topic_overrides, stored_topic_config, topic_config

__all__ = [
    "GROUPS",
    "KEYS",
    "TOPICS",
    "BrokerConfig",
    "ConfigError",
    "Described",
    "Endpoint",
    "Importance",
    "Key",
    "Origin",
    "Scope",
    "Source",
    "Type",
    "advertised_listeners",
    "check_group_configs",
    "describe_broker_key",
    "describe_group_key",
    "describe_topic_key",
    "group_config",
    "listeners",
    "parse_topic_overrides",
    "stored_topic_config",
    "topic_config",
]
