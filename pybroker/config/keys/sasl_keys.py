"""The broker keys of SASL: for all listeners, for one of them, or for one mechanism of a listener.

    sasl.enabled.mechanisms                                          for all listeners
    listener.name.<listener>.sasl.enabled.mechanisms                 for one listener, in small letters
    listener.name.<listener>.<mechanism>.sasl.jaas.config            for one mechanism of it, in small letters too

Passwords cannot be changed while the broker runs, because the coordination store would contain them in plain text.
"""

from __future__ import annotations

from typing import Final

from pybroker.config.keys.key import (
    ANY,
    BOOLEAN,
    CLASS,
    HIGH,
    INT,
    LIST,
    LONG,
    LOW,
    MEDIUM,
    PASSWORD,
    READ_ONLY,
    STRING,
    Key,
    at_least,
)
from pybroker.config.keys.tls_keys import LISTENER_PREFIX, of_listener

MECHANISMS: Final = "sasl.enabled.mechanisms"
JAAS: Final = "sasl.jaas.config"
HANDLER: Final = "sasl.server.callback.handler.class"
MAX_REAUTH: Final = "connections.max.reauth.ms"
MAX_RECEIVE: Final = "sasl.server.max.receive.size"
FAILED_DELAY: Final = "connection.failed.authentication.delay.ms"
OAUTH: Final = "sasl.oauthbearer."
JWKS: Final = f"{OAUTH}jwks.endpoint.url"
REFRESH: Final = f"{OAUTH}jwks.endpoint.refresh.ms"
RETRY: Final = f"{OAUTH}jwks.endpoint.retry.backoff.ms"
LONGEST_RETRY: Final = f"{OAUTH}jwks.endpoint.retry.backoff.max.ms"
ISSUER: Final = f"{OAUTH}expected.issuer"
AUDIENCE: Final = f"{OAUTH}expected.audience"
ANY_ISSUER: Final = f"{OAUTH}allow.unverified.issuer"
ANY_AUDIENCE: Final = f"{OAUTH}allow.unverified.audience"
SKEW: Final = f"{OAUTH}clock.skew.seconds"
USER_CLAIM: Final = f"{OAUTH}sub.claim.name"
SERVICE: Final = "sasl.kerberos.service.name"
RULES: Final = "sasl.kerberos.principal.to.local.rules"

SASL_KEYS: Final[tuple[Key, ...]] = (
    Key(MECHANISMS, LIST, ("GSSAPI",), ANY, MEDIUM, READ_ONLY,
        "The mechanisms by which a client may authenticate: PLAIN, SCRAM-SHA-256, SCRAM-SHA-512, OAUTHBEARER and "
        "GSSAPI are supported; GSSAPI needs the extra pybroker[gssapi]."),
    Key(JAAS, PASSWORD, None, ANY, MEDIUM, READ_ONLY,
        "The login module of a mechanism and its options, in Java's syntax. Those of PLAIN are users and passwords, "
        "those of GSSAPI keytab and principal. No class is loaded."),
    Key(HANDLER, CLASS, None, ANY, MEDIUM, READ_ONLY,
        "A class that authenticates clients. None can be loaded: with one, a SASL listener does not start."),
    Key(MAX_REAUTH, LONG, 0, ANY, MEDIUM, READ_ONLY,
        "A client must authenticate again after this time; 0 means never."),
    Key(MAX_RECEIVE, INT, 524_288, at_least(1), MEDIUM, READ_ONLY,
        "The longest request of a client that has not authenticated."),
    Key(FAILED_DELAY, INT, 100, at_least(0), LOW, READ_ONLY,
        "A failed authentication is answered after this time."),
    Key(JWKS, STRING, None, ANY, MEDIUM, READ_ONLY,
        "file:///path or https://host/path of the keys (JWKS) that sign the tokens of OAUTHBEARER. A file is read "
        "again when it changes."),
    Key(REFRESH, LONG, 3_600_000, at_least(1), LOW, READ_ONLY,
        "Keys from HTTP are fetched again after this time."),
    Key(RETRY, LONG, 100, at_least(1), LOW, READ_ONLY,
        "The wait after the first failed attempt to fetch keys; each further failure doubles it."),
    Key(LONGEST_RETRY, LONG, 10_000, at_least(1), LOW, READ_ONLY,
        "The longest wait after a failed attempt."),
    Key(ISSUER, STRING, None, ANY, HIGH, READ_ONLY,
        "The issuer that a token must have."),
    Key(AUDIENCE, LIST, (), ANY, HIGH, READ_ONLY,
        "The audiences of which a token must have one."),
    Key(ANY_ISSUER, BOOLEAN, False, ANY, LOW, READ_ONLY,
        "Whether sasl.oauthbearer.expected.issuer may be unset."),
    Key(ANY_AUDIENCE, BOOLEAN, False, ANY, LOW, READ_ONLY,
        "Whether sasl.oauthbearer.expected.audience may be unset."),
    Key(SKEW, INT, 30, at_least(0), LOW, READ_ONLY,
        "By how many seconds the clock of the token's issuer may differ."),
    Key(USER_CLAIM, STRING, "sub", ANY, LOW, READ_ONLY,
        "The claim of a token that is the name of its user."),
    Key(SERVICE, STRING, None, ANY, MEDIUM, READ_ONLY,
        "The name of the broker's Kerberos service, the first part of its principal."),
    Key(RULES, LIST, ("DEFAULT",), ANY, MEDIUM, READ_ONLY,
        "Rules that turn a Kerberos principal into the name of a user; the first matching rule counts."),
)
_OF_LISTENERS: Final = {key.name: key for key in SASL_KEYS if key.name != FAILED_DELAY}


def of_mechanism(listener: str, mechanism: str, name: str) -> str:
    """Returns the name of a key for one mechanism of a listener."""
    return of_listener(listener, f"{mechanism.lower()}.{name}")


def key_of_listener(name: str) -> Key | None:
    """Returns the row of ``listener.name.<listener>[.<mechanism>].<key>``, None for other names."""
    if not name.startswith(LISTENER_PREFIX):
        return None
    for row in _OF_LISTENERS.values():
        if name.endswith(f".{row.name}") and len(name) > len(LISTENER_PREFIX) + len(row.name) + 1:
            is_of_mechanism = "." in name[len(LISTENER_PREFIX) : -len(row.name) - 1]
            if row.name == MAX_RECEIVE and is_of_mechanism:  # a frame may come before its mechanism
                return None
            return row._replace(name=name, default=None)
    return None
