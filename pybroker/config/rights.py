"""The settings about rights, for ``unprotected``, ``remarks`` and the broker."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from pybroker.config.broker_config import BrokerConfig
from pybroker.config.listeners import PLAIN, TLS, Endpoint, is_loopback, listeners

AUTHORIZER: Final = "authorizer.class.name"
STANDARD: Final = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"
BUILT: Final = (STANDARD, "kafka.security.authorizer.AclAuthorizer")
"""Kafka's own authorizers, for KRaft and for ZooKeeper. Here both names mean the same authorizer."""
SUPER_USERS: Final = "super.users"
STORE_ACL: Final = "zookeeper.set.acl"
ALLOW_EVERYONE: Final = "allow.everyone.if.no.acl.found"
OPEN: Final = "the broker starts, open to everybody who reaches its port"
_SEPARATOR: Final = ";"


def super_users(config: BrokerConfig) -> frozenset[str]:
    """Returns the users that may do everything. Their certificates or tickets may also be those of brokers."""
    return frozenset(filter(None, map(str.strip, config[SUPER_USERS].split(_SEPARATOR))))


def broken_promises(config: BrokerConfig) -> Iterator[tuple[str, str, str]]:
    """Yields name and text of settings that cannot be applied, and the reason."""
    name = config[AUTHORIZER]
    if name and name not in BUILT:
        yield AUTHORIZER, name, f"there is no such authorizer, only {' and '.join(BUILT)}. Without it {OPEN}"
    if name and (wrong := sorted(user for user in super_users(config) if ":" not in user)):
        yield SUPER_USERS, config[SUPER_USERS], f"{wrong[0]} is not of the form User:name"


def remarks(config: BrokerConfig, *, is_between_brokers: bool) -> Iterator[str]:
    """Yields lines about settings of rights without effect. ``is_between_brokers`` is True if brokers show certificates
    or Kerberos tickets to each other.
    """
    knows_clients = any(_knows_clients(config, each) for each in listeners(config))
    is_open = config["zookeeper.connect"] and not (config[STORE_ACL] or is_between_brokers)
    if is_open and (config[AUTHORIZER] or knows_clients):
        yield f"{STORE_ACL} is not true: each reader of ZooKeeper learns the brokers' secret and may then do everything"
    if config[AUTHORIZER]:
        if not knows_clients:
            yield f"{AUTHORIZER} is set, but no listener authenticates clients: all of them are User:ANONYMOUS"
        return
    names = [ALLOW_EVERYONE] if config[ALLOW_EVERYONE] else []
    if config[SUPER_USERS] and not is_between_brokers:
        names.append(SUPER_USERS)
    if names:
        yield f"without effect, because without an authorizer everybody may do everything: {', '.join(names)}"


def open_to_all(config: BrokerConfig) -> str:
    """Returns a line about listeners at which other machines may do everything; empty without any."""
    found = [each for each in listeners(config) if each.security_protocol == PLAIN and not is_loopback(each.host)]
    if config[AUTHORIZER] or not found:
        return ""
    names = ", ".join(map(str, found))
    return f"{names}: every machine that reaches this port may read, write and delete everything, unencrypted"


def _knows_clients(config: BrokerConfig, endpoint: Endpoint) -> bool:
    """Returns whether clients of the listener have passwords, or may have certificates."""
    asks = config.of_listener(endpoint.listener, "ssl.client.auth") in ("required", "requested")
    return endpoint.is_sasl or (endpoint.security_protocol == TLS and asks)
