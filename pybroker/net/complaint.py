"""What the broker's log says of a connection that it closes: whose fault it was, and what the peer should know.

Each kind of complaint is limited in rate (``ratelimit``): a client that comes again and again does not fill the log.
"""

from __future__ import annotations

import logging
import traceback
from typing import Protocol

from pybroker.net.ratelimit import RateLimitedLog
from pyclient.protocol.errors import KafkaError


class Accused(Protocol):
    """What is needed of the connection."""

    listener_name: str
    peer_address: tuple[str, int]

    @property
    def id(self) -> str: ...


def malformed(log: RateLimitedLog, connection: Accused, error: Exception) -> None:
    """The peer has sent what is no request that we serve."""
    hint = _hint(getattr(error, "prefix", b""))
    peer = f"{connection.peer_address[0]}:{connection.peer_address[1]}"
    log(
        logging.WARNING,
        "malformed",
        f"closed the connection of {peer} to {connection.listener_name}: {error}{hint}",
    )


def failed(log: RateLimitedLog, connection: Accused, what: str, error: BaseException) -> None:
    """A handler has no answer: a domain error without a place in the response (acks=0), or a bug of ours."""
    if isinstance(error, KafkaError):
        text = f"closed {connection.id}: {what}: {type(error).__name__}: {error}"
        log(logging.INFO, "unanswerable", text)
    else:
        frame = traceback.extract_tb(error.__traceback__)[-1]
        place = f"{frame.filename}:{frame.lineno}"
        text = f"{what} of {connection.id} failed, closed the connection: {error!r}"
        log(logging.ERROR, place, text, exc_info=error)


def short_file(log: RateLimitedLog, connection: Accused, error: EOFError) -> None:
    """A file ended before a reply that was to be sent from it."""
    log(logging.ERROR, "short file", f"{connection.id}: {error}: closed")


def _hint(prefix: bytes) -> str:
    """What a peer that speaks another protocol should know."""
    if prefix[:2] == b"\x16\x03":
        return " (it speaks TLS, and this listener does not: security.protocol=PLAINTEXT)"
    if prefix[:4] in (b"GET ", b"POST", b"HEAD", b"PUT "):
        return " (it speaks HTTP: this is a Kafka listener)"
    return ""
