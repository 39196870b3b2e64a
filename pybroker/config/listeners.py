"""The grammar of ``listeners`` and ``advertised.listeners``: NAME://host:port, NAME mapped to a security protocol."""

from __future__ import annotations

import re
from typing import Final, NamedTuple

from pybroker.config.broker_config import BrokerConfig
from pybroker.config.key import ConfigError

_ENDPOINT = re.compile(r"([A-Za-z0-9_.-]+)://(\[[0-9a-fA-F:.]+\]|[^:\[\]]*):(\d+)\Z")
PROTOCOLS: Final = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")


class Listener(NamedTuple):
    """Where to listen, or where clients are told to connect to; an empty host is every interface."""

    name: str
    security_protocol: str
    host: str
    port: int


def listeners(config: BrokerConfig) -> tuple[Listener, ...]:
    """The listeners for clients; those of a KRaft controller are left out. Raises ConfigError for bad text."""
    texts = config["listeners"]
    if not config.is_set("listeners") and (config.is_set("port") or config.is_set("host.name")):
        texts = (f"PLAINTEXT://{config['host.name']}:{config['port']}",)
    return _parse(config, "listeners", texts)


def advertised_listeners(config: BrokerConfig) -> dict[str, Listener]:
    """Listener name → what clients are told; empty where it is unset. Raises ConfigError for bad text."""
    parsed = _parse(config, "advertised.listeners", config["advertised.listeners"] or ())
    names = {listener.name for listener in listeners(config)}
    for listener in parsed:
        if listener.name not in names:
            raise ConfigError(f"advertised.listeners names {listener.name}, listeners does not")
        if not listener.host or listener.host == "0.0.0.0":
            raise ConfigError(
                f"advertised.listeners={listener.name}://{listener.host}:{listener.port} "
                "needs a host that clients can reach"
            )
    return {listener.name: listener for listener in parsed}


def _parse(config: BrokerConfig, key: str, texts: tuple[str, ...]) -> tuple[Listener, ...]:
    protocols = _protocol_map(config)
    controllers = set(config["controller.listener.names"] or ())
    parsed = [_endpoint(key, text, protocols) for text in texts if text]
    names = [listener.name for listener in parsed]
    if len(set(names)) != len(names):
        raise ConfigError(f"{key}={','.join(texts)} names a listener twice")
    return tuple(listener for listener in parsed if listener.name not in controllers)


def _endpoint(key: str, text: str, protocols: dict[str, str]) -> Listener:
    match = _ENDPOINT.match(text)
    if match is None or int(match[3]) > 65535:
        raise ConfigError(f"{key}={text} is not of the form NAME://host:port")
    name = match[1].upper()
    if name not in protocols:
        raise ConfigError(f"{key}={text}: listener.security.protocol.map has no {name}")
    return Listener(name, protocols[name], match[2].strip("[]"), int(match[3]))


def _protocol_map(config: BrokerConfig) -> dict[str, str]:
    key = "listener.security.protocol.map"
    protocols = {}
    for entry in filter(None, (part.strip() for part in config[key].split(","))):
        name, _, protocol = entry.partition(":")
        if protocol.upper() not in PROTOCOLS:
            raise ConfigError(f"{key}={entry} names none of {', '.join(PROTOCOLS)}")
        protocols[name.upper()] = protocol.upper()
    return protocols
