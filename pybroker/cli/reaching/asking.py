"""Asks one address for the brokers of its cluster, and connects to no other.

A client goes from its bootstrap address to the addresses that it gets there, so its errors may be about another
address. This module asks over its own connection, and goes nowhere else.
"""

from __future__ import annotations

import socket
import ssl
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyclient.admin.types import ClusterDescription

VERSION = 5
"""The version of the Metadata request. Every broker since Kafka 1.0 knows it."""
MOST = 100 << 20
"""How many bytes an answer may have."""
ANSWER_ID = 1
HANDSHAKE_VERSION = 1
NO_MECHANISM = "?"
"""The name of a mechanism that does not exist: the answer to it lists the existing ones."""
MOST_NAMED = 10


class Foreign(Exception):
    """Raised if the server does not speak Kafka's protocol. The text says what was seen instead."""


def brokers(host: str, port: int, timeout: float) -> ClusterDescription:
    """Returns the cluster as the broker at ``host:port`` describes it. ``timeout``: seconds for each step.

    Raises:
        OSError: the address cannot be reached.
        Foreign: the answer is not Kafka's, or there is none.
    """
    from pyclient.protocol import Metadata

    request = Metadata.Request(topics=[], allow_auto_topic_creation=False)
    frame = Metadata.encode_request(VERSION, ANSWER_ID, "pybroker-doctor", request)
    assert isinstance(frame, bytes)  # the request has no large part
    with socket.create_connection((host, port), timeout) as connection:
        connection.settimeout(timeout)
        try:
            connection.sendall(frame)
            return parsed(answer(connection))
        except TimeoutError:
            raise Foreign(f"no answer in {timeout:g} s") from None
        except OSError as error:
            raise Foreign(f"the connection ended before the answer: {error.strerror or error}") from None


def speaks_tls(host: str, port: int, timeout: float) -> bool:
    """Says whether a TLS handshake succeeds there."""
    try:
        with socket.create_connection((host, port), timeout) as plain, by_tls(plain):
            return True
    except OSError:
        return False


def by_tls(plain: socket.socket) -> ssl.SSLSocket:
    """Performs a handshake and trusts any certificate, only to learn what the port serves. It sends no secret."""
    context = ssl.create_default_context()
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context.wrap_socket(plain)


def mechanisms(host: str, port: int, timeout: float, is_tls: bool) -> list[str]:
    """Returns a listener's SASL mechanisms; none if it requires no SASL, or does not answer."""
    from pyclient.protocol import SaslHandshake, errors
    from pyclient.protocol.sasl import told

    request = SaslHandshake.Request(mechanism=NO_MECHANISM)
    frame = SaslHandshake.encode_request(HANDSHAKE_VERSION, ANSWER_ID, "pybroker-doctor", request)
    assert isinstance(frame, bytes)
    try:
        with socket.create_connection((host, port), timeout) as plain, by_tls(plain) if is_tls else plain as connection:
            connection.sendall(frame)
            there = answer(connection)
            found = SaslHandshake.decode_response(HANDSHAKE_VERSION, memoryview(there), 4, len(there))
    except Exception:  # bytes that are not Kafka's may raise any error
        return []
    is_told = found.error_code == errors.UnsupportedSaslMechanism.code
    return [told(each) for each in found.mechanisms[:MOST_NAMED]] if is_told else []


def answer(connection: socket.socket) -> bytes:
    """Reads an answer, and returns its frame without the length. Raises Foreign, OSError."""
    head = exactly(connection, 4)
    size = int.from_bytes(head, "big")
    if head == b"HTTP":
        raise Foreign("it speaks HTTP")
    if not 8 <= size <= MOST:
        raise Foreign(f"its answer begins with {head!r}")
    return exactly(connection, size)


def exactly(connection: socket.socket, size: int) -> bytes:
    """Reads ``size`` bytes. Raises Foreign if the connection ends before."""
    found = b""
    while len(found) < size:
        part = connection.recv(size - len(found))
        if not part:
            raise Foreign("it closed the connection")
        found += part
    return found


def parsed(frame: bytes) -> ClusterDescription:
    """Parses the answer in a frame. Raises Foreign."""
    from pyclient.admin.types import BrokerDescription, ClusterDescription
    from pyclient.protocol import Metadata

    try:
        found = Metadata.decode_response(VERSION, memoryview(frame), 4, len(frame))
    except Exception as error:  # bytes that are not Kafka's may raise any error
        raise Foreign(f"it does not answer as Kafka does: {error}") from None
    rows = sorted(BrokerDescription(row.node_id, row.host, row.port, row.rack, False) for row in found.brokers)
    return ClusterDescription(found.cluster_id, found.controller_id, tuple(rows))
