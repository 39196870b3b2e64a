"""TLS of connections to ZooKeeper: ``zookeeper.ssl.*``, which are Kafka's keys."""

from __future__ import annotations

import ssl
from typing import Final

from pybroker.config import BrokerConfig, ConfigError
from pybroker.config.broker_config import KEYS
from pyclient.security.contexts import client_context
from pyclient.security.trouble import TlsConfigError

ENABLED: Final = "zookeeper.ssl.client.enable"
_OF_ZOOKEEPER: Final = "zookeeper."


def context_of(config: BrokerConfig) -> ssl.SSLContext | None:
    """Returns the context for connections to ZooKeeper, None if they are plain. Reads files. Raises ConfigError."""
    if not config[ENABLED]:
        return None
    names = [name for name in KEYS if name.startswith(f"{_OF_ZOOKEEPER}ssl.") and config.is_set(name)]
    try:
        return client_context({name.removeprefix(_OF_ZOOKEEPER): config[name] for name in names})
    except TlsConfigError as error:
        name = f"{_OF_ZOOKEEPER}{error.setting}"
        where = config.where(name)
        raise ConfigError(f"{name}{f' (from {where})' if where else ''}: {error.complaint}") from None
