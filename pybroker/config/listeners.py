"""The grammar of ``listeners`` and ``advertised.listeners``: NAME://host:port."""

from __future__ import annotations

import ipaddress
import re
from typing import Final, NamedTuple

from pybroker.config.broker_config import BrokerConfig
from pybroker.config.keys.key import ConfigError

_ENDPOINT = re.compile(r"([A-Za-z0-9_.-]+)://(\[[0-9a-fA-F:.]+\]|[^:\[\]]*):(\d+)\Z")
PLAIN: Final = "PLAINTEXT"
TLS: Final = "SSL"
SASL_PLAIN: Final = "SASL_PLAINTEXT"
SASL_TLS: Final = "SASL_SSL"
PROTOCOLS: Final = (PLAIN, TLS, SASL_PLAIN, SASL_TLS)
BY_TLS: Final = frozenset({TLS, SASL_TLS})
BY_SASL: Final = frozenset({SASL_PLAIN, SASL_TLS})
ANYWHERE: Final = ("", "0.0.0.0", "::")
"""Hosts that stand for every interface of the machine."""


def is_loopback(host: str) -> bool:
    """Returns whether only this machine can connect to ``host``, a name or an address."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


class Endpoint(NamedTuple):
    """An address at which a listener listens, or can be reached.

    An empty host means every interface, port 0 a free port.
    """

    listener: str
    security_protocol: str
    host: str
    port: int

    @property
    def is_tls(self) -> bool:
        """True if the listener's connections are encrypted."""
        return self.security_protocol in BY_TLS

    @property
    def is_sasl(self) -> bool:
        """True if clients must authenticate before anything else."""
        return self.security_protocol in BY_SASL

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{self.listener}://{host}:{self.port}"


def listeners(config: BrokerConfig) -> tuple[Endpoint, ...]:
    """Returns the listeners for clients, without those of a KRaft controller. Raises ConfigError for bad text."""
    texts = config["listeners"]
    if not config.is_set("listeners") and (config.is_set("port") or config.is_set("host.name")):
        texts = (f"PLAINTEXT://{config['host.name']}:{config['port']}",)
    return _parse(config, "listeners", texts)


def advertised_listeners(config: BrokerConfig) -> dict[str, Endpoint]:
    """Returns the address for clients by listener name; empty if it is unset. Raises ConfigError for bad text."""
    key = "advertised.listeners"
    parsed = _parse(config, key, config[key] or ())
    names = {endpoint.listener for endpoint in listeners(config)}
    for endpoint in parsed:
        if endpoint.listener not in names:
            raise ConfigError(f"advertised.listeners={endpoint}{_origin(config, key)}: listeners lacks this name")
        if endpoint.host in ANYWHERE:
            raise ConfigError(f"advertised.listeners={endpoint}{_origin(config, key)} needs a host to connect to")
    return {endpoint.listener: endpoint for endpoint in parsed}


def between_brokers(config: BrokerConfig) -> Endpoint | None:
    """Returns the listener that brokers use among themselves; None if the settings name a listener that does not exist.

    Raises ConfigError for bad text.
    """
    name, protocol = config["inter.broker.listener.name"], config["security.inter.broker.protocol"]
    for endpoint in listeners(config):
        if (endpoint.security_protocol == protocol) if name is None else (endpoint.listener == name.upper()):
            return endpoint
    return None


def protected(config: BrokerConfig) -> str | None:
    """Returns the listener of brokers, which is exempt from limits of connections; None if it is the only listener.
    """
    between = between_brokers(config) if len(listeners(config)) > 1 else None
    return None if between is None else between.listener


def _parse(config: BrokerConfig, key: str, texts: tuple[str, ...]) -> tuple[Endpoint, ...]:
    protocols = _protocol_map(config)
    hidden = controllers(config)
    parsed = [_endpoint(key, text, protocols, _origin(config, key)) for text in texts if text]
    names = [endpoint.listener for endpoint in parsed]
    if len(set(names)) != len(names):
        raise ConfigError(f"{key}={','.join(texts)}{_origin(config, key)} names a listener twice")
    return tuple(endpoint for endpoint in parsed if endpoint.listener not in hidden)


def controllers(config: BrokerConfig) -> set[str]:
    """Returns the names of the listeners of a KRaft controller."""
    return {name.upper() for name in config["controller.listener.names"] or ()}


def _origin(config: BrokerConfig, key: str) -> str:
    """Returns the source of the key, in parentheses; empty if there is none."""
    where = config.where(key)
    return f" (from {where})" if where else ""


def _endpoint(key: str, text: str, protocols: dict[str, str], origin: str) -> Endpoint:
    match = _ENDPOINT.match(text)
    if match is None or int(match[3]) > 65535:
        raise ConfigError(f"{key}={text}{origin} is not of the form NAME://host:port")
    name = match[1].upper()
    if name not in protocols:
        raise ConfigError(f"{key}={text}{origin}: listener.security.protocol.map has no {name}")
    return Endpoint(name, protocols[name], match[2].strip("[]"), int(match[3]))


def _protocol_map(config: BrokerConfig) -> dict[str, str]:
    """Returns the protocols by listener name. A controller's listener needs no entry if the map is unset."""
    key = "listener.security.protocol.map"
    protocols = {} if config.is_set(key) else dict.fromkeys(controllers(config), PLAIN)
    for entry in filter(None, (part.strip() for part in config[key].split(","))):
        name, protocol = (part.strip().upper() for part in entry.rpartition(":")[::2])
        if protocol not in PROTOCOLS or not name:
            raise ConfigError(f"{key}={entry} is not NAME:PROTOCOL, PROTOCOL being one of {', '.join(PROTOCOLS)}")
        protocols[name] = protocol
    return protocols
