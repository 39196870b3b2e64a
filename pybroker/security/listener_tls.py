"""TLS of the listeners, as the configuration says: the context for new connections, and who their clients are.

A context is made again when a key of the listener or one of its files changes. If that fails, the old one stays, and
the log says why. Connections that are open keep theirs.
"""

from __future__ import annotations

import datetime
import logging
import os
import ssl
from collections.abc import Iterable, Mapping
from typing import Any, Final

from cryptography import x509

from pybroker.config import BrokerConfig, ConfigError, Endpoint
from pybroker.config.listeners import TLS
from pybroker.config.tls_keys import TLS_KEYS, of_listener
from pybroker.security.distinguished_names import subject
from pybroker.security.principal_mapping import KEY as MAPPING_RULES
from pybroker.security.principal_mapping import PrincipalMapping
from pyclient.security import TlsConfigError, key_store, server_context

ANONYMOUS: Final = "User:ANONYMOUS"
_FILES: Final = ("ssl.keystore.location", "ssl.truststore.location")

logger = logging.getLogger("pybroker.security")

Stamp = tuple[int, int, int] | None
"""What changes when a file is written or replaced; None where it is not there."""


class ListenerTls:
    """TLS of one listener. ``context`` may be read on any thread."""

    def __init__(self, config: BrokerConfig, listener: str) -> None:
        """Raises ConfigError."""
        self.listener = listener
        self._config = config
        self._settings = self._current()
        self._stamps = self._look()
        try:
            self._mapping = PrincipalMapping(self._settings[MAPPING_RULES] or "DEFAULT")
        except ValueError as error:
            raise self._config_error(TlsConfigError(MAPPING_RULES, str(error))) from None
        try:
            self.context: ssl.SSLContext = self._make()
        except TlsConfigError as error:
            raise self._config_error(error) from None

    def principal(self, certificate: bytes | None) -> str:
        """The user who shows this certificate (DER), or none. Raises ValueError where no rule gives one."""
        return ANONYMOUS if certificate is None else f"User:{self._mapping.user(subject(certificate))}"

    def refresh(self) -> None:
        """Makes the context again where settings or files have changed since. Reads files."""
        settings, stamps = self._current(), self._look()
        if (settings, stamps) == (self._settings, self._stamps):
            return
        self._settings, self._stamps = settings, stamps
        try:
            self.context = self._make()
        except TlsConfigError as error:
            logger.error("listener %s keeps its certificate as it was: %s", self.listener, self._named(error))
        else:
            logger.info("listener %s has read its certificate again: new connections get it", self.listener)

    def _current(self) -> dict[str, Any]:
        """The keys of this listener without their prefix; a default is no value."""
        return {key.name: self._config.of_listener(self.listener, key.name) for key in TLS_KEYS}

    def _look(self) -> list[Stamp]:
        return [stamp_of(self._settings[name]) for name in _FILES]

    def _make(self) -> ssl.SSLContext:
        context = server_context(self._settings)
        store = key_store(self._settings)
        assert store is not None
        self._warn_of_expiry(store.chain[0])
        return context

    def _warn_of_expiry(self, pem: str) -> None:
        certificate = x509.load_pem_x509_certificate(pem.encode())
        until = certificate.not_valid_after_utc
        if until < datetime.datetime.now(datetime.UTC):
            logger.warning(
                "the certificate of listener %s is valid until %s only: clients refuse it", self.listener, until.date()
            )

    def _named(self, error: TlsConfigError) -> str:
        """The error with the key as it was given, and where."""
        own = of_listener(self.listener, error.setting)
        name = own if self._config.where(own) else error.setting
        where = self._config.where(name)
        return f"{name}{f' (from {where})' if where else ''}: {error.complaint}"

    def _config_error(self, error: TlsConfigError) -> ConfigError:
        return ConfigError(f"listener {self.listener}: {self._named(error)}")


def stamp_of(path: str | None) -> Stamp:
    """How a file looks from outside."""
    try:
        found = os.stat(path or "")
    except (OSError, ValueError):
        return None
    return (found.st_ino, found.st_mtime_ns, found.st_size)


def secured(config: BrokerConfig, endpoints: Iterable[Endpoint]) -> Mapping[str, ListenerTls]:
    """TLS of those listeners that speak it, by name. Raises ConfigError."""
    return {each.listener: ListenerTls(config, each.listener) for each in endpoints if each.security_protocol == TLS}
