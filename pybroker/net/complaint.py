"""The log lines about connections that the broker closes: the cause, and advice for the peer.

Each kind of line is limited in rate (``ratelimit``), so that a client that connects again and again does not fill the
log.
"""

from __future__ import annotations

import logging
import traceback
from typing import Final, Protocol

from pybroker.net.ratelimit import RateLimitedLog
from pyclient.protocol.errors import KafkaError

_REFUSED: Final = (
    "it does not accept this broker's certificate: its trust store must have the CA that signed it, and the "
    "certificate the name of the host that it connects to"
)
_PROTOCOLS: Final = "it shares no protocol and cipher with this listener (ssl.enabled.protocols, ssl.cipher.suites)"
_REASONS: Final = {
    "PEER_DID_NOT_RETURN_A_CERTIFICATE":
        "it has no certificate, and ssl.client.auth=required: give it a key store (ssl.keystore.location)",
    "TLSV1_ALERT_UNKNOWN_CA": _REFUSED,
    "SSLV3_ALERT_BAD_CERTIFICATE": _REFUSED,
    "SSLV3_ALERT_CERTIFICATE_EXPIRED": _REFUSED,
    "SSLV3_ALERT_CERTIFICATE_UNKNOWN": _REFUSED,
    "NO_SHARED_CIPHER": _PROTOCOLS,
    "UNSUPPORTED_PROTOCOL": _PROTOCOLS,
}
"""OpenSSL's reasons, put into words for an administrator."""


class Arrived(Protocol):
    """The part of a socket or connection that this module uses."""

    listener_name: str
    peer_address: tuple[str, int]


class Accused(Arrived, Protocol):
    """The part of a connection that this module uses."""

    @property
    def id(self) -> str: ...


def malformed(log: RateLimitedLog, connection: Accused, error: Exception) -> None:
    """Logs that the peer sent an invalid or unsupported request."""
    advice = _advice(getattr(error, "prefix", b""))
    peer = f"{connection.peer_address[0]}:{connection.peer_address[1]}"
    log(
        logging.WARNING,
        "malformed",
        f"closed the connection of {peer} to {connection.listener_name}: {error}{advice}",
    )


def refused(log: RateLimitedLog, connection: Accused, why: str) -> None:
    """Logs that the client could not authenticate."""
    peer = f"{connection.peer_address[0]}:{connection.peer_address[1]}"
    log(logging.WARNING, "refused", f"closed the connection of {peer} to {connection.listener_name}: {why}")


def no_handshake(log: RateLimitedLog, arrival: Arrived, why: str, level: int) -> None:
    """Logs that a TLS handshake failed."""
    peer = f"{arrival.peer_address[0]}:{arrival.peer_address[1]}"
    text = f"closed the connection of {peer} to {arrival.listener_name}, which speaks TLS: {why}"
    log(level, "handshake", text)


def not_tls(first: bytes) -> str:
    """Returns a guess at the protocol of a peer whose first bytes are not a TLS handshake."""
    if _is_http(first):
        return "it speaks HTTP: this is a Kafka listener"
    if first[:1] == b"\0":
        return "it speaks Kafka's protocol without TLS: set its security.protocol=SSL, or SASL_SSL"
    return "it does not speak TLS: set security.protocol=SSL, if it is a Kafka client"


def of_handshake(error: BaseException) -> str:
    """Returns what an OpenSSL error means and which setting mends it; for any other error, its text."""
    reason = getattr(error, "reason", None)
    if reason == "CERTIFICATE_VERIFY_FAILED":
        return f"its certificate is not accepted: {getattr(error, 'verify_message', '')} (ssl.truststore.location)"
    return str(error) if reason is None else _REASONS.get(reason, f"the handshake failed: {reason}")


def failed(log: RateLimitedLog, connection: Accused, what: str, error: BaseException) -> None:
    """Logs that a handler failed: by a domain error that the response cannot express (acks=0), or by a bug."""
    if isinstance(error, KafkaError):
        text = f"closed {connection.id}: {what}: {type(error).__name__}: {error}"
        log(logging.INFO, "unanswerable", text)
    else:
        frame = traceback.extract_tb(error.__traceback__)[-1]
        place = f"{frame.filename}:{frame.lineno}"
        text = f"{what} of {connection.id} failed, closed the connection: {error!r}"
        log(logging.ERROR, place, text, exc_info=error)


def short_file(log: RateLimitedLog, connection: Accused, error: EOFError) -> None:
    """Logs that a file ended before the reply that was to be sent from it."""
    log(logging.ERROR, "short file", f"{connection.id}: {error}: closed")


def _is_http(prefix: bytes) -> bool:
    return prefix[:4] in (b"GET ", b"POST", b"HEAD", b"PUT ")


def _advice(prefix: bytes) -> str:
    """Returns advice about a peer that speaks another protocol. It follows the text of ``frames.protocol_of``."""
    if prefix[:2] == b"\x16\x03":
        return ", and this listener does not: set its security.protocol=PLAINTEXT, or SASL_PLAINTEXT"
    if _is_http(prefix):
        return ", and this is a Kafka listener"
    return ""
