"""The settings of SASL listeners: their mechanisms, and users with their passwords.

If a mechanism is not supported, or its settings cannot be applied, the broker does not start. So a misunderstood
setting lets nobody in. ``unprotected`` and the broker use this module.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final, NamedTuple
from urllib.parse import unquote

from pybroker.config.broker_config import KEYS, BrokerConfig, suggestion
from pybroker.config.keys.key import ConfigError
from pybroker.config.keys.sasl_keys import (
    ANY_AUDIENCE,
    ANY_ISSUER,
    AUDIENCE,
    HANDLER,
    ISSUER,
    JAAS,
    JWKS,
    LONGEST_RETRY,
    MAX_REAUTH,
    MECHANISMS,
    REFRESH,
    RETRY,
    RULES,
    SASL_KEYS,
    SERVICE,
    SKEW,
    USER_CLAIM,
    key_of_listener,
    of_mechanism,
)
from pybroker.config.keys.tls_keys import LISTENER_PREFIX, of_listener
from pybroker.config.listeners import between_brokers, controllers, listeners
from pybroker.config.sources import ENVIRONMENT_PREFIX
from pyclient.security import http_call, jaas

PLAIN: Final = "PLAIN"
SCRAM: Final = ("SCRAM-SHA-256", "SCRAM-SHA-512")
OAUTHBEARER: Final = "OAUTHBEARER"
GSSAPI: Final = "GSSAPI"
BETWEEN: Final = "sasl.mechanism.inter.broker.protocol"
BUILT: Final = (PLAIN, *SCRAM, OAUTHBEARER, GSSAPI)
_USER: Final = "user_"
_PACKAGE: Final = "org.apache.kafka.common.security"
PLAIN_MODULE: Final = f"{_PACKAGE}.plain.PlainLoginModule"
SCRAM_MODULE: Final = f"{_PACKAGE}.scram.ScramLoginModule"
OAUTH_MODULE: Final = f"{_PACKAGE}.oauthbearer.OAuthBearerLoginModule"
KERBEROS_MODULE: Final = "com.sun.security.auth.module.Krb5LoginModule"
_MODULES: Final = {
    PLAIN: PLAIN_MODULE,
    **dict.fromkeys(SCRAM, SCRAM_MODULE),
    OAUTHBEARER: OAUTH_MODULE,
    GSSAPI: KERBEROS_MODULE,
}
_OF_JWKS: Final = (
    f"{_PACKAGE}.oauthbearer.OAuthBearerValidatorCallbackHandler",
    f"{_PACKAGE}.oauthbearer.secured.OAuthBearerValidatorCallbackHandler",
)
"""Kafka's classes that check the signatures of tokens. This broker checks them without these classes."""
_FILE: Final = "file:"
_NAMED: Final = re.compile(r"\Ahttps?://[^/?#]*@")
JAVA_OPTIONS: Final = "KAFKA_OPTS"
ALLOWED: Final = "org.apache.kafka.sasl.oauthbearer.allowed.urls"
"""Kafka's system property with the URLs from which keys may be fetched. Without it, settings may name any URL."""
_ALLOWED: Final = re.compile(rf"-D{re.escape(ALLOWED)}=(\S*)")
_SERVICE_PRINCIPAL: Final = re.compile(r"([^/@]+)/[^/@]+(?:@[^/@]+)?")
_KAFKAS: Final = frozenset(each.lower() for each in BUILT)
_FAMILY: Final = "sasl."
_OF_CLIENTS: Final = "sasl.mechanism"
_OF_ALL: Final = [name for name in KEYS if name.startswith(_FAMILY)]
_OF_SASL: Final = ("sasl", "reauth")
"""Words that show that a key is about SASL, even if the rest of its name has a typing error."""


class Remote(NamedTuple):
    """An HTTP source of keys for tokens; times are in seconds."""

    url: str
    refresh_s: float
    retry_s: float
    longest_retry_s: float


class OAuth(NamedTuple):
    """Tells which tokens of OAUTHBEARER are valid. An unset issuer or audience means that any is accepted."""

    jwks: str
    """The path of the keys. It has no effect if the keys come by HTTP."""
    issuer: str | None
    audience: tuple[str, ...]
    skew_s: int
    user_claim: str
    remote: Remote | None = None


class Kerberos(NamedTuple):
    """The broker's service for GSSAPI, as Kerberos knows it."""

    principal: str
    keytab: str
    """The path of the keytab; if empty, krb5.conf names it."""
    rules: tuple[str, ...]

    @property
    def service(self) -> str:
        """The first part of the principal."""
        return self.principal.partition("/")[0]


class SaslListener(NamedTuple):
    """One listener: its mechanisms, each with the time after which a client must authenticate again (0: never)."""

    mechanisms: Mapping[str, int]
    passwords: Mapping[str, str]
    """The passwords of PLAIN users."""
    oauth: OAuth | None = None
    kerberos: Kerberos | None = None


def check(config: BrokerConfig) -> None:
    """Raises ConfigError for the first setting that cannot be applied."""
    for error in errors_of(config):
        raise error


def errors_of(config: BrokerConfig) -> Iterator[ConfigError]:
    """Yields an error for each typing error in a name, since it may cause other errors, and for each listener with a
    wrong setting. Raises ConfigError for bad listeners.
    """
    secured = [each.listener for each in listeners(config) if each.is_sasl]
    if secured:
        for name, near in slips(config):
            if name.startswith(LISTENER_PREFIX) or (near and not _is_of_others(config, name)):
                yield ConfigError(f"{name}{_from(config, name)} is unknown{near}")
    between = between_by_kerberos(config)
    for listener in secured:
        try:
            settings = read(config, listener)
            if listener == between:
                for_brokers(config, listener, settings)
        except ConfigError as error:
            yield error


def _is_of_others(config: BrokerConfig, name: str) -> bool:
    """Returns whether the key ``name`` is meant for clients: many files have such keys, and clients share the
    environment.
    """
    return name == _OF_CLIENTS or config.where(name).startswith(ENVIRONMENT_PREFIX)


def without_effect(config: BrokerConfig) -> list[str]:
    """Returns the keys of SASL for listeners that do not use SASL. Raises ConfigError for bad listeners."""
    of_sasl = {each.listener.lower(): each.is_sasl for each in listeners(config)}
    names = [] if any(of_sasl.values()) else [key.name for key in SASL_KEYS if config.where(key.name)]
    if _is_by_kerberos(config) and between_by_kerberos(config) is None:
        names.append(BETWEEN)
    others = [key.name for key in config.keys_of_listeners if key_of_listener(key.name) is not None]
    return names + [name for name in others if of_sasl.get(_split(name, of_sasl)[0]) is False]


def of_absent_mechanisms(config: BrokerConfig) -> Iterator[str]:
    """Yields keys of mechanisms that are not enabled on the key's SASL listener. Raises ConfigError for bad listeners.
    """
    enabled = {
        each.listener.lower(): {
            name.lower() for name in config.of_listener(each.listener, MECHANISMS) or config[MECHANISMS]
        }
        for each in listeners(config)
        if each.is_sasl
    }
    for key in config.keys_of_listeners:
        listener, rest = _split(key.name, enabled)
        mechanism = rest.partition(".")[0]
        if listener and mechanism in _KAFKAS and mechanism not in enabled[listener]:
            yield key.name


def has_kerberos(config: BrokerConfig, listener: str) -> bool:
    """Returns whether clients of a SASL listener may use GSSAPI."""
    return GSSAPI in (config.of_listener(listener, MECHANISMS) or config[MECHANISMS])


def between_by_kerberos(config: BrokerConfig) -> str | None:
    """Returns the listener on which brokers log in to each other by Kerberos; None if their secret is enough. GSSAPI,
    Kafka's default, must be set explicitly. Raises ConfigError for bad listeners.
    """
    endpoint = between_brokers(config) if _is_by_kerberos(config) else None
    return endpoint.listener if endpoint is not None and endpoint.is_sasl else None


def _is_by_kerberos(config: BrokerConfig) -> bool:
    return config.is_set(BETWEEN) and config[BETWEEN] == GSSAPI


def for_brokers(config: BrokerConfig, listener: str, settings: SaslListener) -> Kerberos:
    """Returns the service as which a broker logs in to others on ``listener``. Raises ConfigError."""
    kerberos = settings.kerberos
    if kerberos is None:
        way = f"add it to {MECHANISMS}, or remove {BETWEEN}"
        complaint = f"brokers use the listener {listener}, which does not have {GSSAPI}: {way}"
        raise ConfigError(f"{BETWEEN}={config[BETWEEN]}{_from(config, BETWEEN)}: {complaint}")
    if not kerberos.keytab:
        complaint = f'must have keyTab="FILE", because brokers log in to each other by {GSSAPI} ({BETWEEN})'
        raise _error(config, listener, JAAS, complaint, GSSAPI, with_others=len(settings.mechanisms) == 1)
    return kerberos


def read(config: BrokerConfig, listener: str) -> SaslListener:
    """Returns the settings of one listener. Raises ConfigError."""
    names = config.of_listener(listener, MECHANISMS)
    if names is None and _value(config, listener, GSSAPI, JAAS) is not None:
        names = config[MECHANISMS]  # Kafka's default is GSSAPI
    if not names:
        complaint = f"is not set, and its default {GSSAPI} has no {JAAS}: set {_choice()}"
        own = of_listener(listener, MECHANISMS)
        raise _error(config, listener, MECHANISMS, f"{complaint} (or set {own}, for this listener only)")
    for name in names:
        if name not in BUILT:
            raise _error(config, listener, MECHANISMS, f"has {name}, which is not supported, only {_choice()}")
    passwords, kerberos = {}, None
    for name in names:
        handler = _value(config, listener, name, HANDLER)
        if handler is not None and not (name == OAUTHBEARER and handler in _OF_JWKS):
            raise _error(config, listener, HANDLER, f"is {handler}, and no class can be loaded", name)
        options = _options(config, listener, name, is_only=len(names) == 1)
        if name == PLAIN:
            passwords = {key.removeprefix(_USER): text for key, text in options.items() if key.startswith(_USER)}
            if not passwords:
                complaint = 'has no user: user_NAME="PASSWORD"'
                raise _error(config, listener, JAAS, complaint, name, with_others=len(names) == 1)
        elif name == GSSAPI:
            kerberos = _kerberos(config, listener, options, is_only=len(names) == 1)
    oauth = _oauth(config, listener) if OAUTHBEARER in names else None
    max_reauth_ms = {name: int(_value(config, listener, name, MAX_REAUTH) or 0) for name in names}
    return SaslListener(max_reauth_ms, passwords, oauth, kerberos)


def _kerberos(config: BrokerConfig, listener: str, options: Mapping[str, str], *, is_only: bool) -> Kerberos:
    """Returns the service. Both the settings and the login module may name it."""
    named, meant = _value(config, listener, GSSAPI, SERVICE), options.get("serviceName")
    if not named and not meant:
        raise _error(config, listener, SERVICE, "is not set: give the first part of the broker's principal", GSSAPI)
    if named and meant and named != meant:
        raise _error(config, listener, SERVICE, f"is {named}, but serviceName of {JAAS} is {meant}", GSSAPI)
    principal = options.get("principal", "")
    found = _SERVICE_PRINCIPAL.fullmatch(principal)
    complaint = ""
    if options.get("useKeyTab", "").lower() != "true":
        complaint = 'must have useKeyTab="true", because a broker\'s key is in a keytab'
    elif found is None:
        complaint = f'must have principal="{named or meant}/HOST@REALM"'
    elif found[1] != (named or meant):
        complaint = f"has the principal {principal}, but the service is {named or meant}"
    if complaint:
        raise _error(config, listener, JAAS, complaint, GSSAPI, with_others=is_only)
    rules = _value(config, listener, GSSAPI, RULES)
    return Kerberos(principal, options.get("keyTab", ""), tuple(config[RULES] if rules is None else rules))


def _oauth(config: BrokerConfig, listener: str) -> OAuth:
    """Returns the settings of OAUTHBEARER.

    CVE-2026-110985: a token is valid only if a known key has signed it and, unless the settings say otherwise, if it
    has the expected issuer and audience.
    """

    def value(name: str) -> Any:
        found = _value(config, listener, OAUTHBEARER, name)
        return config[name] if found is None else found

    url, issuer, audience = value(JWKS), value(ISSUER), value(AUDIENCE)
    if not url:
        raise _error(config, listener, JWKS, "is not set: without keys no token can be checked", OAUTHBEARER)
    if not url.startswith(_FILE) and http_call.parse(url) is None:
        raise _error(config, listener, JWKS, "must be file:///…, https://… or http://…", OAUTHBEARER)
    if _NAMED.search(url):
        raise _error(config, listener, JWKS, "must not have a name or password", OAUTHBEARER)
    allowed = _ALLOWED.search(os.environ.get(JAVA_OPTIONS, ""))
    if allowed is not None and url not in map(str.strip, allowed[1].split(",")):  # CVE-2025-27817
        raise _error(config, listener, JWKS, f"is {url}, which is not in -D{ALLOWED} of {JAVA_OPTIONS}", OAUTHBEARER)
    for name, any_name, expected in ((ISSUER, ANY_ISSUER, issuer), (AUDIENCE, ANY_AUDIENCE, audience)):
        if not expected and not value(any_name):
            raise _error(config, listener, name, f"is not set, and {any_name} is not true", OAUTHBEARER)
    common = (issuer or None, tuple(audience), value(SKEW), value(USER_CLAIM))
    if not url.startswith(_FILE):
        return OAuth("", *common, Remote(url, *(value(name) / 1000 for name in (REFRESH, RETRY, LONGEST_RETRY))))
    return OAuth(unquote("/" + url.removeprefix(_FILE).lstrip("/")), *common)


def _choice() -> str:
    return f"{', '.join(BUILT[:-1])} or {BUILT[-1]}"


def _options(config: BrokerConfig, listener: str, mechanism: str, *, is_only: bool) -> Mapping[str, str]:
    """Returns the options of the login module. The key for all listeners is used only if there is a single mechanism,
    to which it must apply.
    """
    text = _value(config, listener, mechanism, JAAS, with_others=is_only)
    if text is None:
        return {}
    try:
        login = jaas.parse(text)
    except ValueError as error:
        raise _error(config, listener, JAAS, f"is malformed: {error}", mechanism) from None
    if login.class_name != _MODULES[mechanism]:
        raise _error(config, listener, JAAS, f"is not of {_MODULES[mechanism]}, the only supported class", mechanism)
    return login.options


def _value(config: BrokerConfig, listener: str, mechanism: str, name: str, *, with_others: bool = True) -> Any:
    own = of_mechanism(listener, mechanism, name)
    if config.is_set(own):
        return config[own]
    return config.of_listener(listener, name) if with_others else None


def _error(
    config: BrokerConfig, listener: str, name: str, complaint: str, mechanism: str = "", *, with_others: bool = True
) -> ConfigError:
    """Returns the error with the name under which the setting was given, or should be. Without a mechanism, this is the
    name for all listeners. ``with_others`` allows names for other mechanisms too.
    """
    names = [of_mechanism(listener, mechanism, name)] if mechanism else []
    names += [of_listener(listener, name), name] if with_others else []
    given = next((each for each in names if config.where(each)), names[0 if mechanism else -1])
    return ConfigError(f"listener {listener}{_from(config, 'listeners')}: {given}{_from(config, given)} {complaint}")


def _from(config: BrokerConfig, name: str) -> str:
    where = config.where(name)
    return f" (from {where})" if where else ""


def slips(config: BrokerConfig) -> Iterator[tuple[str, str]]:
    """Yields keys about SASL that have no effect because a name in them is wrong, each with a suggestion or "".

    Raises ConfigError for bad listeners.
    """
    for name in config.ignored:
        if name.startswith(_FAMILY):
            yield name, suggestion(name, _OF_ALL)
    names = [each.listener.lower() for each in listeners(config)]
    others = {each.lower() for each in controllers(config)}
    keys = (MECHANISMS, MAX_REAUTH, JAAS, HANDLER)
    meant = [of_listener(each, key) for each in names for key in keys]
    meant += [of_mechanism(each, mechanism, key) for each in names for mechanism in BUILT for key in keys]
    for name in (*config.given(), *config.ignored):
        if not name.startswith(LISTENER_PREFIX) or not any(each in name for each in _OF_SASL):
            continue
        listener, rest = _split(name, (*names, *others))
        mechanism, _, key = rest.partition(".")
        is_known = rest in KEYS or (mechanism in _KAFKAS and key in KEYS)
        is_about = any(each in rest for each in _OF_SASL)
        if is_about and listener not in others and not (listener and is_known):
            yield name, suggestion(name, meant)


def _split(name: str, names: Iterable[str]) -> tuple[str, str]:
    """Returns the listener of a key (empty if it does not exist), and the rest of the key."""
    rest = name.removeprefix(LISTENER_PREFIX)
    for listener in sorted(names, key=len, reverse=True):
        if rest.startswith(f"{listener}."):
            return listener, rest.removeprefix(f"{listener}.")
    return "", rest.partition(".")[2]
