"""Reads the user and password, or the Kerberos ticket, with which this broker logs in to ZooKeeper.

    zookeeper.sasl.jaas.config   a login module of DIGEST-MD5 or Kerberos, in Java's syntax
    the section Client           in the file that KAFKA_OPTS names, as for Kafka's brokers
    zookeeper.auth.digest        user:password, for ZooKeeper's own scheme ``digest``
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass, field
from typing import Final

from pybroker.config.broker_config import BrokerConfig
from pybroker.config.jaas_file import section
from pybroker.config.keys.key import ConfigError
from pyclient.security import jaas, kerberos
from pyclient.security.tickets import Tickets, tickets_of

JAAS: Final = "zookeeper.sasl.jaas.config"
DIGEST: Final = "zookeeper.auth.digest"
MODULE: Final = "org.apache.zookeeper.server.auth.DigestLoginModule"
KERBEROS_MODULE: Final = "com.sun.security.auth.module.Krb5LoginModule"
_JAVA_OPTIONS: Final = "KAFKA_OPTS"
_FILE: Final = "java.security.auth.login.config"
_SECTION: Final = "zookeeper.sasl.clientconfig"
_IS_ON: Final = "zookeeper.sasl.client"
_SERVICE: Final = "zookeeper.sasl.client.username"


@dataclass(frozen=True)
class Login:
    """A login at ZooKeeper: by DIGEST-MD5 if ``is_sasl``, else by the scheme ``digest``. ``source`` is its origin."""

    user: str
    password: str = field(repr=False)
    is_sasl: bool
    source: str


@dataclass(frozen=True)
class TicketLogin:
    """A login at ZooKeeper by Kerberos. ``service`` is the first part of the principals of ZooKeeper's servers."""

    tickets: Tickets
    service: str
    source: str

    @property
    def user(self) -> str:
        """The principal of the ticket. If it is unknown, a phrase instead."""
        return self.tickets.principal or "the owner of the ticket"


def read(config: BrokerConfig) -> Login | TicketLogin | None:
    """Returns the login, None without one. Reads the login file. Raises ConfigError."""
    text, digest = config[JAAS], config[DIGEST]
    if digest is not None:
        if text is not None:
            raise _error(config, DIGEST, f"{JAAS} is set as well: remove one of them")
        user, colon, password = digest.partition(":")
        if not (user and colon and password):
            raise _error(config, DIGEST, "it must be user:password")
        return Login(user, password, is_sasl=False, source=DIGEST)
    if text is None:
        return _of_file()
    try:
        return _login(jaas.parse(text), JAAS)
    except ValueError as error:
        raise _error(config, JAAS, str(error)) from None


def _of_file() -> Login | TicketLogin | None:
    path = _java_option(_FILE).removeprefix("=").removeprefix("file:")
    if not path or _java_option(_IS_ON).lower() == "false":
        return None
    name = _java_option(_SECTION) or "Client"
    source = f"{name} of {path}"
    try:
        with open(path, encoding="utf-8") as file:
            found = section(file.read(), name)
        return None if found is None else _login(found, source)
    except (OSError, ValueError) as error:
        why = (error.strerror or str(error)) if isinstance(error, OSError) else str(error)
        raise ConfigError(f"{source} (-D{_FILE} of {_JAVA_OPTIONS}): {why}") from None


def _login(module: jaas.LoginModule, source: str) -> Login | TicketLogin:
    """Returns the login of a module. Raises ValueError."""
    if module.class_name == KERBEROS_MODULE:
        kerberos.library()
        tickets = tickets_of(module.options)
        tickets.check()
        return TicketLogin(tickets, _java_option(_SERVICE) or "zookeeper", source)
    if module.class_name != MODULE:
        raise ValueError(f"its login module is neither {MODULE} nor {KERBEROS_MODULE}")
    if set(module.options) != {"username", "password"}:
        raise ValueError("its options must be username and password")
    return Login(module.options["username"], module.options["password"], is_sasl=True, source=source)


def _java_option(name: str) -> str:
    """Returns the value of a -D option; as in Java, the last one counts."""
    found = re.findall(rf"(?:^|\s)-D{re.escape(name)}=(\S*)", os.environ.get(_JAVA_OPTIONS, ""))
    return str(found[-1]) if found else ""


def _error(config: BrokerConfig, name: str, complaint: str) -> ConfigError:
    where = config.where(name)
    return ConfigError(f"{name}{f' (from {where})' if where else ''}: {complaint}")
