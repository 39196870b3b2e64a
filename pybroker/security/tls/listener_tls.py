"""TLS of a listener, from the configuration: the context for new connections, and the principals of their clients.

A context is made again when a key of the listener or one of its files changes. If that fails, the old context stays,
and the log tells why. Open connections keep their context. The listener that brokers use among themselves has a client
context too, with the same key store.
"""

from __future__ import annotations

import datetime
import logging
import os
import ssl
from contextlib import suppress
from typing import Any, Final, NamedTuple

from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding

from pybroker.config import BrokerConfig, ConfigError, Source
from pybroker.config.keys.tls_keys import ALLOW_DN, ALLOW_SAN, CLIENT_AUTH, TLS_KEYS, of_listener
from pybroker.security.principal_mapping import KEY as MAPPING_RULES
from pybroker.security.principal_mapping import PrincipalMapping
from pybroker.security.tls.distinguished_names import subject
from pybroker.security.tls.memory_handshake import meet
from pyclient.security import IDENTIFICATION, TlsConfigError, client_context, key_store, server_context

ANONYMOUS: Final = "User:ANONYMOUS"
KEY_STORE: Final = "ssl.keystore.location"
_FILES: Final = (KEY_STORE, "ssl.truststore.location")
_DYNAMIC: Final = (Source.DYNAMIC_BROKER, Source.DYNAMIC_DEFAULT_BROKER)

logger = logging.getLogger("pybroker.security")

Stamp = tuple[int, int, int] | None
"""A value that changes when a file is written or replaced; None if the file does not exist."""


class Made(NamedTuple):
    """The contexts made from the settings and files of a listener."""

    server: ssl.SSLContext
    certificate: x509.Certificate
    client: ssl.SSLContext | None
    """The context for this broker's connections to others; None for a listener of clients only."""
    probe: ssl.SSLContext | None
    """The ``client`` context without a check of the host name. It tests whether two brokers can connect."""


class ListenerTls:
    """TLS of one listener. Contexts may be read on any thread."""

    def __init__(
        self, config: BrokerConfig, listener: str, *, is_for_brokers: bool = False, is_sasl: bool = False
    ) -> None:
        """With ``is_sasl``, clients authenticate by SASL. Then only the listener's own key may require certificates,
        not the key for all listeners. Raises ConfigError.
        """
        self.listener = listener
        self.is_sasl = is_sasl
        self._config = config
        self._is_for_brokers = is_for_brokers
        self._settings = self._settings_in(config)
        self._stamps = self._look()
        try:
            self._mapping = PrincipalMapping(self._settings[MAPPING_RULES] or "DEFAULT")
        except ValueError as error:
            raise self._config_error(TlsConfigError(MAPPING_RULES, str(error))) from None
        try:
            self._made = self._make()
        except TlsConfigError as error:
            raise self._config_error(error) from None
        if why := _hindrance(self._made, self._made):
            text = "brokers with the settings of this one cannot connect to its listener %s: %s"
            logger.warning(text, listener, why)

    @property
    def context(self) -> ssl.SSLContext:
        """The context for new connections."""
        return self._made.server

    @property
    def client_context(self) -> ssl.SSLContext:
        """The context for new connections to other brokers."""
        assert self._made.client is not None
        return self._made.client

    @property
    def own_principal(self) -> str | None:
        """The user in this broker's own certificate; None if no rule gives one."""
        with suppress(ValueError):
            return self.principal(self._made.certificate.public_bytes(Encoding.DER))
        return None

    def principal(self, certificate: bytes | None) -> str:
        """Returns the principal of a client with this certificate (DER), or without one. Raises ValueError if no rule
        gives one.
        """
        return ANONYMOUS if certificate is None or self.is_sasl else f"User:{self._mapping.user(subject(certificate))}"

    def refresh(self) -> None:
        """Makes the contexts again if settings or files have changed. Reads files."""
        settings, stamps = self._settings_in(self._config), self._look()
        if (settings, stamps) == (self._settings, self._stamps):
            return
        self._settings, self._stamps = settings, stamps
        why = None
        try:
            made = self._make()
            if (hindrance := _hindrance(made, made)) and _hindrance(self._made, self._made) is None:
                why = f"brokers could no longer connect: {hindrance}"
        except TlsConfigError as error:
            why = self._named(error)
        if why is not None:
            logger.error("listener %s keeps its earlier certificate: %s", self.listener, why)
            return
        self._made = made
        logger.info("listener %s has reloaded its certificate: new connections use it", self.listener)

    def try_out(self, config: BrokerConfig) -> None:
        """Raises ConfigError if this listener could not use the settings of ``config``, or if other brokers would then
        not accept it.

        Changes nothing. Reads files.
        """
        if self._settings_in(config) != self._settings:
            trial = ListenerTls(
                config, self.listener, is_for_brokers=self._is_for_brokers, is_sasl=self.is_sasl
            )
            trial._check_follows(self._made)

    def _settings_in(self, config: BrokerConfig) -> dict[str, Any]:
        """Returns the settings of this listener, without the prefix of their keys and without defaults."""
        settings = {key.name: config.of_listener(self.listener, key.name) for key in TLS_KEYS}
        if self.is_sasl and not config.is_set(of_listener(self.listener, CLIENT_AUTH)):
            settings[CLIENT_AUTH] = None
        return settings

    def _look(self) -> list[Stamp]:
        return [stamp_of(self._settings[name]) for name in _FILES]

    def _make(self) -> Made:
        context = server_context(self._settings)
        store = key_store(self._settings)
        assert store is not None
        certificate = x509.load_pem_x509_certificate(store.chain[0].encode())
        self._warn_of_expiry(certificate)
        if not self._is_for_brokers:
            return Made(context, certificate, None, None)
        given = {name: value for name, value in self._settings.items() if value is not None}
        return Made(context, certificate, client_context(given), client_context(given | {IDENTIFICATION: ""}))

    def _warn_of_expiry(self, certificate: x509.Certificate) -> None:
        until = certificate.not_valid_after_utc
        if until < datetime.datetime.now(datetime.UTC):
            logger.warning(
                "the certificate of listener %s expired on %s: clients refuse it", self.listener, until.date()
            )

    def _check_follows(self, before: Made) -> None:
        """Raises ConfigError if the new certificate lacks a name by which peers recognise this listener."""
        now, old = self._made.certificate, before.certificate
        if now.subject != old.subject and not self._settings[ALLOW_DN]:
            names = " and was ".join(subject(each.public_bytes(Encoding.DER)) for each in (now, old))
            raise self._refused(f"the name in the certificate would be {names}: {ALLOW_DN}=true allows it")
        lost = sorted(map(str, _hosts(old) - _hosts(now)))
        if lost and not self._settings[ALLOW_SAN]:
            hosts = ", ".join(lost)
            raise self._refused(f"the certificate would no longer be valid for {hosts}: {ALLOW_SAN}=true allows it")
        why = _hindrance(before, self._made) or _hindrance(self._made, before)
        if why and _hindrance(before, before) is None:
            raise self._refused(f"brokers with the old and the new one could not connect to each other: {why}")

    def _refused(self, complaint: str) -> ConfigError:
        return self._config_error(TlsConfigError(KEY_STORE, complaint))

    def _named(self, error: TlsConfigError) -> str:
        """Returns the error with the key as the user has written it, and with its source."""
        own = of_listener(self.listener, error.setting)
        name = own if self._config.is_set(own) else error.setting
        where = "AlterConfigs" if self._config.source(name) in _DYNAMIC else self._config.where(name)
        return f"{name}{f' (from {where})' if where else ''}: {error.complaint}"

    def _config_error(self, error: TlsConfigError) -> ConfigError:
        return ConfigError(f"listener {self.listener}: {self._named(error)}")


def stamp_of(path: str | None) -> Stamp:
    """Returns the identity, time and size of a file."""
    try:
        found = os.stat(path or "")
    except (OSError, ValueError):
        return None
    return (found.st_ino, found.st_mtime_ns, found.st_size)


def _hosts(certificate: x509.Certificate) -> set[object]:
    """Returns the host names and addresses of a certificate."""
    try:
        found = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName)
    except (x509.ExtensionNotFound, ValueError):
        return set()
    return {each.value for each in found.value}


def _hindrance(here: Made, there: Made) -> str | None:
    """Returns why a broker with ``here`` cannot connect to one with ``there``; None if it can or never connects."""
    if here.probe is None:
        return None
    try:
        meet(there.server, here.probe)
    except ssl.SSLError as error:
        return getattr(error, "verify_message", "") or str(error.reason).replace("_", " ").lower()
    return None
