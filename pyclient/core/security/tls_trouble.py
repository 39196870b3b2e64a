"""Explains why TLS with a broker failed, and what to set on which side. No I/O."""

from __future__ import annotations

import ssl
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from cy.wire.frames import FrameError, protocol_of

# X509_V_ERR codes, as in OpenSSL's x509_vfy.h
_NOT_YET_VALID, _EXPIRED = 9, 10
_UNKNOWN_AUTHORITY: Final = frozenset({2, 18, 19, 20, 21})
_OTHER_NAME: Final = frozenset({62, 64})

_NO_TLS: Final = (
    "WRONG_VERSION_NUMBER",
    "HTTP_REQUEST",
    "PACKET_LENGTH_TOO_LONG",
    "RECORD_LAYER_FAILURE",
    "BAD_RECORD_TYPE",
    "UNEXPECTED_MESSAGE",
)
_NO_PROTOCOL: Final = ("PROTOCOL_VERSION", "UNSUPPORTED_PROTOCOL", "NO_PROTOCOLS_AVAILABLE")
_REFUSED: Final = ("UNKNOWN_CA", "BAD_CERTIFICATE", "CERTIFICATE_UNKNOWN", "CERTIFICATE_EXPIRED", "CERTIFICATE_REVOKED")
_ALERT: Final = "ALERT"
_TLS: Final = "TLS"

IS_PROTOCOL_RIGHT: Final = "; is security.protocol right? This client's is {0}"
_SHOW_ONE: Final = "set ssl.keystore.location"


class Trouble(NamedTuple):
    """The reason why TLS failed, and advice. ``lasts`` tells that only a change of a setting or certificate helps."""

    why: str
    advice: str
    lasts: bool


def of_tls(
    error: Exception, host: str, certificate: Mapping[str, Any], has_key: bool, protocol: str = "SSL"
) -> Trouble | None:
    """Explains an error of the handshake, or of the first read after it, where a client learns that the broker rejects
    its certificate. ``certificate`` is the broker's, as ``SSLSocket.getpeercert`` returns it. ``protocol`` is the
    client's security.protocol. Returns None for an error that is not about TLS.
    """
    if isinstance(error, ssl.SSLCertVerificationError):
        return _of_certificate(error, host, certificate)
    if isinstance(error, ssl.SSLEOFError | ConnectionError | EOFError):
        return Trouble("the peer closed the connection", IS_PROTOCOL_RIGHT.format(protocol), False)
    if isinstance(error, ssl.SSLError):
        return _of_alert(error.reason or "", has_key, protocol) or Trouble(_plain(error), "", True)
    return None


def advice(error: Exception, has_key: bool | None, protocol: str) -> str:
    """Returns advice if the first answer is missing: the listener has another protocol, or requires certificates.
    ``has_key`` is None in plain text; ``protocol`` is the client's security.protocol.
    """
    if has_key is None:
        speaks_tls = isinstance(error, FrameError) and _TLS in protocol_of(error.prefix)
        if speaks_tls or isinstance(error, EOFError | ConnectionResetError | BrokenPipeError):
            return IS_PROTOCOL_RIGHT.format(protocol)
    elif not has_key and isinstance(error, EOFError | ConnectionResetError | BrokenPipeError):
        return f"; does the broker require a certificate of clients? Then {_SHOW_ONE}"
    return ""


def certificate_of(side: ssl.SSLObject | ssl.SSLSocket) -> dict[str, Any]:
    """Returns the peer's certificate as ``ssl.SSLSocket.getpeercert`` does, even if it was rejected. Empty if there is
    none, or this Python does not provide it.
    """
    told = getattr(getattr(side, "_sslobj", None), "get_unverified_chain", None)
    chain = told() if told is not None else None
    return chain[0].get_info() if chain and hasattr(chain[0], "get_info") else {}


def _of_certificate(error: ssl.SSLCertVerificationError, host: str, certificate: Mapping[str, Any]) -> Trouble:
    code = error.verify_code
    if code in _OTHER_NAME:
        names = ", ".join(name for _, name in certificate.get("subjectAltName", ())) or "no host"
        return Trouble(
            f"the certificate is for {names}, not for {host}",
            "; connect to one of its names, give the broker a certificate for this one, or set "
            "ssl.endpoint.identification.algorithm to an empty value, which disables the check",
            True,
        )
    if code in _UNKNOWN_AUTHORITY:
        issuer = _name(certificate.get("issuer", ()))
        return Trouble(
            f"the certificate is signed by an unknown authority{f', {issuer}' if issuer else ''}",
            "; set ssl.truststore.location, or ssl.truststore.certificates, to the certificate of its authority",
            True,
        )
    if code == _EXPIRED:
        end = certificate.get("notAfter")
        return Trouble(f"the certificate has expired{f': {end}' if end else ''}", "; the broker needs a new one", True)
    if code == _NOT_YET_VALID:
        begin = certificate.get("notBefore")
        why = f"the certificate is not valid yet{f', only from {begin}' if begin else ''}"
        return Trouble(why, "; are the clocks right?", True)
    return Trouble(f"the certificate is rejected: {error.verify_message}", "", True)


def _of_alert(reason: str, has_key: bool, protocol: str) -> Trouble | None:
    is_alert = _ALERT in reason
    if "CERTIFICATE_REQUIRED" in reason or (is_alert and not has_key and reason.endswith(_REFUSED)):
        return Trouble("the broker requires a certificate of this client", f"; {_SHOW_ONE}", True)
    if is_alert and reason.endswith(_REFUSED):
        said = reason.partition(f"{_ALERT}_")[2].replace("_", " ").lower()
        return Trouble(
            f"the broker rejects the certificate of this client: {said}",
            "; its ssl.truststore.location needs the authority that signed this client's certificate",
            True,
        )
    if reason.endswith(_NO_PROTOCOL):
        return Trouble("there is no common TLS version", "; compare ssl.enabled.protocols on both sides", True)
    if is_alert and reason.endswith("HANDSHAKE_FAILURE"):
        return Trouble(
            "the broker has no cipher suite in common with this client, or requires its certificate",
            f"; compare ssl.cipher.suites and ssl.enabled.protocols on both sides{'' if has_key else f'; {_SHOW_ONE}'}",
            True,
        )
    if reason in _NO_TLS:
        return Trouble("the peer's answer is not TLS", IS_PROTOCOL_RIGHT.format(protocol), True)
    return None


def _plain(error: ssl.SSLError) -> str:
    return error.reason.replace("_", " ").lower() if error.reason else str(error)


def _name(rows: Any) -> str:
    """Returns ``organizationName=Example, commonName=ca`` for a name from ``getpeercert``."""
    return ", ".join(f"{kind}={value}" for row in rows for kind, value in row)
