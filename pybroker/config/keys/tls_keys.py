"""The broker keys of TLS: for all listeners, or, with ``listener.name.<name in small letters>.`` before them, for one.

Texts of certificates and keys, as well as passwords, cannot be changed while the broker runs, because the coordination
store would contain them in plain text.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from pybroker.config.keys.key import (
    ANY,
    BOOLEAN,
    LIST,
    LOW,
    MEDIUM,
    PASSWORD,
    PER_BROKER,
    READ_ONLY,
    STRING,
    Key,
    one_of,
)

LISTENER_PREFIX: Final = "listener.name."
_FAMILY: Final = ".ssl."
CLIENT_AUTH: Final = "ssl.client.auth"
ALLOW_DN: Final = "ssl.allow.dn.changes"
ALLOW_SAN: Final = "ssl.allow.san.changes"

TLS_KEYS: Final[tuple[Key, ...]] = (
    Key("ssl.enabled.protocols", LIST, ("TLSv1.2", "TLSv1.3"), ANY, MEDIUM, PER_BROKER,
        "The protocols of SSL listeners."),
    Key("ssl.cipher.suites", LIST, (), ANY, MEDIUM, PER_BROKER,
        "The cipher suites of SSL listeners; empty, those of OpenSSL."),
    Key("ssl.keystore.type", STRING, "JKS", ANY, MEDIUM, PER_BROKER,
        "PEM, PKCS12 or JKS; unset, the first bytes of the file tell."),
    Key("ssl.keystore.location", STRING, None, ANY, MEDIUM, PER_BROKER,
        "The file with the broker's private key and its certificates. It is read again when it changes."),
    Key("ssl.keystore.password", PASSWORD, None, ANY, MEDIUM, READ_ONLY,
        "The password of the file ssl.keystore.location; a PEM has none."),
    Key("ssl.keystore.key", PASSWORD, None, ANY, MEDIUM, READ_ONLY,
        "The private key itself, as PEM (PKCS#8), in place of a file."),
    Key("ssl.keystore.certificate.chain", PASSWORD, None, ANY, MEDIUM, READ_ONLY,
        "The certificates of ssl.keystore.key, as PEM, its own first."),
    Key("ssl.key.password", PASSWORD, None, ANY, MEDIUM, READ_ONLY,
        "The password of the private key, if it has one of its own."),
    Key("ssl.truststore.type", STRING, "JKS", ANY, MEDIUM, PER_BROKER,
        "PEM, PKCS12 or JKS; unset, the first bytes of the file tell."),
    Key("ssl.truststore.location", STRING, None, ANY, MEDIUM, PER_BROKER,
        "The file with the certificates that clients' certificates are checked against. It is read again when it "
        "changes."),
    Key("ssl.truststore.password", PASSWORD, None, ANY, MEDIUM, READ_ONLY,
        "The password of the file ssl.truststore.location; a PEM has none."),
    Key("ssl.truststore.certificates", PASSWORD, None, ANY, MEDIUM, READ_ONLY,
        "Those certificates themselves, as PEM, in place of a file."),
    Key(CLIENT_AUTH, STRING, "none", one_of("required", "requested", "none"), MEDIUM, PER_BROKER,
        "Whether a client must show a certificate (required), may show one (requested), or is not asked (none)."),
    Key("ssl.principal.mapping.rules", STRING, "DEFAULT", ANY, LOW, READ_ONLY,
        "Rules that turn the name in a certificate into the name of its user: RULE:pattern/replacement/[LU] and "
        "DEFAULT, comma-separated; the first match counts."),
    Key(ALLOW_DN, BOOLEAN, False, ANY, LOW, READ_ONLY,
        "Whether AlterConfigs may give a listener a certificate with another distinguished name."),
    Key(ALLOW_SAN, BOOLEAN, False, ANY, LOW, READ_ONLY,
        "Whether AlterConfigs may give a listener a certificate that lacks host names of the earlier one."),
    Key("ssl.endpoint.identification.algorithm", STRING, "https", ANY, LOW, PER_BROKER,
        "https: another broker's certificate must name its host; empty: it need not."),
)

_ROWS: Final = {key.name: key for key in TLS_KEYS}


def of_listener(listener: str, name: str) -> str:
    """Returns the name of a TLS key for one listener."""
    return f"{LISTENER_PREFIX}{listener.lower()}.{name}"


def split(name: str, listeners: Iterable[str]) -> tuple[str, str]:
    """Returns the listener in ``listener.name.<name>.<key>``, preferably one of ``listeners``, and the key. The
    listener is "" if the key names none.
    """
    rest = name.removeprefix(LISTENER_PREFIX)
    for listener in sorted(listeners, key=len, reverse=True):
        if rest.startswith(f"{listener}."):
            return listener, rest.removeprefix(f"{listener}.")
    listener, family, key = rest.partition(_FAMILY)
    return (listener, _FAMILY[1:] + key) if family else ("", rest)


def key_of_listener(name: str) -> Key | None:
    """Returns the row of ``listener.name.<name>.ssl.…``, None for other names."""
    listener, family, rest = name.removeprefix(LISTENER_PREFIX).partition(_FAMILY)
    row = _ROWS.get(_FAMILY[1:] + rest) if family and listener and name.startswith(LISTENER_PREFIX) else None
    return None if row is None else row._replace(name=name, default=None)
