"""Sets protocols and cipher suites of an ``ssl.SSLContext`` by Java's names."""

from __future__ import annotations

import re
import ssl
from collections.abc import Iterable, Mapping
from typing import Any, Final

from pyclient.security.trouble import TlsConfigError

PROTOCOLS: Final = "ssl.enabled.protocols"
SUITES: Final = "ssl.cipher.suites"
_VERSIONS: Final = {"TLSv1.2": ssl.TLSVersion.TLSv1_2, "TLSv1.3": ssl.TLSVersion.TLSv1_3}
_OUTDATED: Final = ("SSLv2Hello", "SSLv3", "TLSv1", "TLSv1.1")
"""Protocols that are too old to be used. Java rejects them too, but ignores their names."""
_OF_TLS_1_3: Final = re.compile(r"TLS_(AES|CHACHA20)_\w+")
_FINITE_FIELD: Final = ("kx-dhe", "kx-dhe-psk")
_JAVA_NAME: Final = re.compile(r"(?:TLS|SSL)_(\w+)_WITH_(\w+)")


def apply(context: ssl.SSLContext, settings: Mapping[str, Any]) -> None:
    """Applies ``ssl.enabled.protocols`` and ``ssl.cipher.suites``. Before Python 3.15, the suites of TLS 1.3 are on or
    off together. Raises TlsConfigError.
    """
    named = _names(settings.get(PROTOCOLS)) or list(_VERSIONS)
    for name in named:
        if name not in _VERSIONS and name not in _OUTDATED:
            raise TlsConfigError(PROTOCOLS, f"{name} is not one of {', '.join(_VERSIONS)}")
    versions = {_VERSIONS[name] for name in named if name in _VERSIONS}
    suites = _names(settings.get(SUITES))
    if suites:
        versions &= _of_suites(context, suites)
    if not versions:
        blamed = f"no protocol of {', '.join(named)} has one of them" if suites else "all of them are outdated"
        raise TlsConfigError(SUITES if suites else PROTOCOLS, blamed)
    context.minimum_version, context.maximum_version = min(versions), max(versions)


def without_finite_fields(context: ssl.SSLContext) -> None:
    """Removes the suites with finite-field key exchange, whose cost is the server's."""
    kept = [each["name"] for each in context.get_ciphers() if each["kea"] not in _FINITE_FIELD]
    context.set_ciphers(":".join(kept))


def _of_suites(context: ssl.SSLContext, suites: list[str]) -> set[ssl.TLSVersion]:
    """Sets the suites. Returns the versions that have one of them."""
    newer = [name for name in suites if _OF_TLS_1_3.fullmatch(name)]
    older = [_openssl_name(name) for name in suites if name not in newer]
    for name, shown in zip(older, [name for name in suites if name not in newer], strict=True):
        try:
            context.set_ciphers(name)
        except ssl.SSLError:
            raise TlsConfigError(SUITES, f"{shown} is unknown") from None
    if older:
        context.set_ciphers(":".join(older))
    if newer and hasattr(context, "set_ciphersuites"):  # from Python 3.15
        try:
            context.set_ciphersuites(":".join(newer))
        except ssl.SSLError:
            raise TlsConfigError(SUITES, f"{', '.join(newer)}: not all are known") from None
    found = {_VERSIONS["TLSv1.3"]} if newer else set()
    return found | ({_VERSIONS["TLSv1.2"]} if older else set())


def _openssl_name(name: str) -> str:
    """Returns OpenSSL's name: ``ECDHE-RSA-AES128-GCM-SHA256`` for ``TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256``. Other
    names are unchanged.
    """
    found = _JAVA_NAME.fullmatch(name)
    if found is None:
        return name
    exchange, cipher = found[1], found[2]
    cipher = re.sub(r"^AES_(\d+)_", r"AES\1_", cipher)
    cipher = cipher.replace("_CBC_", "_").replace("CHACHA20_POLY1305_SHA256", "CHACHA20_POLY1305")
    parts = cipher if exchange == "RSA" else f"{exchange}_{cipher}"
    return parts.replace("_", "-")


def _names(value: Any) -> list[str]:
    if not value:
        return []
    parts: Iterable[str] = value.split(",") if isinstance(value, str) else value
    return [part.strip() for part in parts if part.strip()]
