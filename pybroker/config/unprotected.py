"""Finds settings that require protection which this broker or its listeners would not provide. It does not start then.

Some kinds of protection are not supported. Other settings require what no listener does, such as a certificate from
each client or a listener for brokers. ``start_options.configure`` and the doctor check both.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from pybroker.config import rights
from pybroker.config.broker_config import BrokerConfig
from pybroker.config.keys.key import ConfigError
from pybroker.config.keys.tls_keys import CLIENT_AUTH, LISTENER_PREFIX, of_listener
from pybroker.config.listeners import TLS, Endpoint, between_brokers, listeners

OPEN: Final = f". Without it {rights.OPEN}"
ZOOKEEPER_TLS: Final = "zookeeper.ssl.client.enable"
BETWEEN: Final = "security.inter.broker.protocol"
BETWEEN_BY_NAME: Final = "inter.broker.listener.name"
NO_WAY: Final = f"brokers would use it, but there is no such listener: set {BETWEEN} or {BETWEEN_BY_NAME}"


def check(config: BrokerConfig, *, alone: bool) -> None:
    """Raises ConfigError for the first setting whose protection is missing. ``alone`` is True if there is no other
    broker.
    """
    for error in errors_of(config, alone=alone):
        raise error


def errors_of(config: BrokerConfig, *, alone: bool) -> Iterator[ConfigError]:
    """Yields an error for each setting whose protection is missing. Raises ConfigError for bad listeners."""
    if any(endpoint.is_sasl for endpoint in listeners(config)):
        from pybroker.config import sasl_listeners  # only needed here

        yield from sasl_listeners.errors_of(config)
    for name, text, reason in broken_promises(config, alone=alone):
        yield _error(config, name, text, reason)
    if config["zookeeper.connect"]:
        yield from _of_zookeeper(config)


def _error(config: BrokerConfig, name: str, text: str, reason: str) -> ConfigError:
    where = config.where(name)
    return ConfigError(f"{name}={text}{f' (from {where})' if where else ''}: {reason}")


def broken_promises(config: BrokerConfig, *, alone: bool) -> Iterator[tuple[str, str, str]]:
    """Yields name and text of each setting that promises protection, and what is missing for it. Raises ConfigError for
    bad listeners.
    """
    yield from rights.broken_promises(config)
    endpoints = listeners(config)
    yield from _between_brokers(config, alone=alone)
    yield from _client_auth(config, endpoints)


def _of_zookeeper(config: BrokerConfig) -> Iterator[ConfigError]:
    from pybroker.config import zookeeper_login  # only needed here

    by_tls, keys = config[ZOOKEEPER_TLS], "zookeeper.ssl.keystore.location"
    try:
        login = zookeeper_login.read(config)
    except ConfigError as error:
        yield error
    else:
        if config["zookeeper.set.acl"] and not (by_tls and config[keys]) and login is None:
            missing = f"{ZOOKEEPER_TLS}=true and {keys} are missing, or {zookeeper_login.JAAS}"
            reason = f"ZooKeeper would not know whose the nodes are: {missing}{OPEN}"
            yield _error(config, "zookeeper.set.acl", "true", reason)
    for name in (keys, "zookeeper.ssl.truststore.location"):
        if config[name] and not by_tls:
            reason = f"the connection to ZooKeeper would be plain: {ZOOKEEPER_TLS}=true is missing{OPEN}"
            yield _error(config, name, config[name], reason)


def _between_brokers(config: BrokerConfig, *, alone: bool) -> Iterator[tuple[str, str, str]]:
    """Yields errors if brokers have no listener to connect to each other, unless there is only one broker."""
    name = BETWEEN if config[BETWEEN_BY_NAME] is None else BETWEEN_BY_NAME
    if name == BETWEEN_BY_NAME and config.is_set(BETWEEN):
        yield name, config[name], f"{BETWEEN}={config[BETWEEN]} is set as well: remove one of them"
    elif not alone and between_brokers(config) is None:
        yield name, config[name], NO_WAY


def _client_auth(config: BrokerConfig, endpoints: tuple[Endpoint, ...]) -> Iterator[tuple[str, str, str]]:
    """Yields errors if a setting requires certificates of clients, but no listener asks for them. As in Kafka, SASL
    listeners ignore the key for all listeners.
    """
    if config[CLIENT_AUTH] == "required" and not any(each.security_protocol == TLS for each in endpoints):
        yield CLIENT_AUTH, "required", f"no listener is {TLS}, so no client would have to show a certificate{OPEN}"
    own = {of_listener(each.listener, CLIENT_AUTH) for each in endpoints if each.is_tls}
    for name in (key.name for key in config.keys_of_listeners):
        if name.endswith(f".{CLIENT_AUTH}") and config[name] == "required" and name not in own:
            listener = name.removeprefix(LISTENER_PREFIX).removesuffix(f".{CLIENT_AUTH}")
            reason = f"no listener that is {TLS} has the name {listener}, which is in small letters here"
            yield name, "required", f"{reason}: no client would have to show a certificate{OPEN}"
