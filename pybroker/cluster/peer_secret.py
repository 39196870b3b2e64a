"""How a broker proves to another that both belong to this cluster.

Brokers share a secret (``cluster_secret``). Both sides of a connection prove that they know it, without revealing it:

    SaslHandshake   mechanism PYBROKER-PEER
    SaslAuthenticate  ->  node id, 32 random bytes            <-  node id, 32 random bytes, proof of the server
    SaslAuthenticate  ->  proof of the client                 <-  nothing

A proof is HMAC-SHA256 over its role and both greetings, so none can be used again, for another
broker, or by the other side. What follows on the connection counts as that broker's; TLS guards these bytes as well,
and asks for a certificate besides, where the listener for brokers does (``security.broker_tls``).

Pure: random bytes are an argument.
"""

from __future__ import annotations

import hmac
import struct
from typing import Final

MECHANISM: Final = "PYBROKER-PEER"
NONCE_SIZE: Final = 32

_greeting = struct.Struct(f">i{NONCE_SIZE}s")


class NotAPeer(Exception):
    """The other side is no broker of this cluster, or not the one that was wanted."""


def greeting(node_id: int, nonce: bytes) -> bytes:
    """What either side says first."""
    return _greeting.pack(node_id, nonce)


def proof(secret: bytes, role: bytes, client: bytes, server: bytes) -> bytes:
    """That ``role`` knows the secret; ``client`` and ``server`` are the greetings."""
    return hmac.digest(secret, role + client + server, "sha256")


class Server:
    """The side that was connected to, during one authentication."""

    def __init__(self, secret: bytes, node_id: int, nonce: bytes, refusal: str | None = None) -> None:
        """``refusal``: why the client is no broker, whatever it knows."""
        self._secret = secret
        self._refusal = refusal
        self._own = greeting(node_id, nonce)
        self._client: bytes | None = None

    def on_message(self, message: bytes) -> tuple[bytes, int | None]:
        """The answer, and who the client is once that is proved. Raises NotAPeer."""
        if self._refusal is not None:
            raise NotAPeer(self._refusal)
        if self._client is None:
            if len(message) != _greeting.size:
                raise NotAPeer("no greeting of a broker")
            self._client = message
            return self._own + proof(self._secret, b"server", message, self._own), None
        if not hmac.compare_digest(message, proof(self._secret, b"client", self._client, self._own)):
            raise NotAPeer("the proof is wrong: another cluster?")
        return b"", int(_greeting.unpack(self._client)[0])


class Client:
    """The side that connects, during one authentication; ``wanted``: the broker it looks for."""

    def __init__(self, secret: bytes, node_id: int, wanted: int, nonce: bytes) -> None:
        self._secret = secret
        self._wanted = wanted
        self.first = greeting(node_id, nonce)
        """The first message."""

    def on_answer(self, answer: bytes) -> bytes:
        """The second message. Raises NotAPeer."""
        server, its_proof = answer[: _greeting.size], answer[_greeting.size :]
        if len(server) != _greeting.size:
            raise NotAPeer("no greeting of a broker")
        if not hmac.compare_digest(its_proof, proof(self._secret, b"server", self.first, server)):
            raise NotAPeer("the proof is wrong: another cluster?")
        found = _greeting.unpack(server)[0]
        if found != self._wanted:
            raise NotAPeer(f"it is broker {found}")
        return proof(self._secret, b"client", self.first, server)
