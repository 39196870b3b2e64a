"""How brokers prove to each other that they belong to this cluster.

Brokers share a secret (``cluster_secret``). Both sides of a connection prove that they know it, without revealing it:

    SaslHandshake   mechanism PYBROKER-PEER
    SaslAuthenticate  ->  node id, 32 random bytes            <-  node id, 32 random bytes, proof of the server
    SaslAuthenticate  ->  proof of the client                 <-  nothing

A proof is an HMAC-SHA256 over its role and both greetings. So nobody can use it again, for another broker, or as the
other side. All later requests on the connection count as sent by that broker. If the connection uses TLS, TLS protects
the proof as well. If the listener for brokers requires it, TLS also asks for a certificate
(``security.tls.broker_tls``).

Pure functions: random bytes are an argument.
"""

from __future__ import annotations

import hmac
import struct
from typing import Final

MECHANISM: Final = "PYBROKER-PEER"
NONCE_SIZE: Final = 32

_greeting = struct.Struct(f">i{NONCE_SIZE}s")


class NotAPeer(Exception):
    """Raised if the other side is not a broker of this cluster, or not the expected one."""


def greeting(node_id: int, nonce: bytes) -> bytes:
    """Returns the first message of either side."""
    return _greeting.pack(node_id, nonce)


def proof(secret: bytes, role: bytes, client: bytes, server: bytes) -> bytes:
    """Returns the proof that ``role`` knows the secret; ``client`` and ``server`` are the greetings."""
    return hmac.digest(secret, role + client + server, "sha256")


class Server:
    """The accepting side of one authentication."""

    def __init__(self, secret: bytes, node_id: int, nonce: bytes, refusal: str | None = None) -> None:
        """``refusal`` is the reason why the client cannot be a broker, even if it knows the secret."""
        self._secret = secret
        self._refusal = refusal
        self._own = greeting(node_id, nonce)
        self._client: bytes | None = None

    def on_message(self, message: bytes) -> tuple[bytes, int | None]:
        """Returns the answer, and the client's node id once the client has proved it. Raises NotAPeer."""
        if self._refusal is not None:
            raise NotAPeer(self._refusal)
        if self._client is None:
            if len(message) != _greeting.size:
                raise NotAPeer("the message is not a broker's greeting")
            self._client = message
            return self._own + proof(self._secret, b"server", message, self._own), None
        if not hmac.compare_digest(message, proof(self._secret, b"client", self._client, self._own)):
            raise NotAPeer("the proof is wrong: it may be a broker of another cluster")
        return b"", int(_greeting.unpack(self._client)[0])


class Client:
    """The connecting side of one authentication with the broker ``wanted``."""

    def __init__(self, secret: bytes, node_id: int, wanted: int, nonce: bytes) -> None:
        self._secret = secret
        self._wanted = wanted
        self.first = greeting(node_id, nonce)
        """The first message of the proof."""

    def on_answer(self, answer: bytes) -> bytes:
        """Returns the second message. Raises NotAPeer."""
        server, its_proof = answer[: _greeting.size], answer[_greeting.size :]
        if len(server) != _greeting.size:
            raise NotAPeer("the message is not a broker's greeting")
        if not hmac.compare_digest(its_proof, proof(self._secret, b"server", self.first, server)):
            raise NotAPeer("the proof is wrong: it may be a broker of another cluster")
        found = _greeting.unpack(server)[0]
        if found != self._wanted:
            raise NotAPeer(f"it is broker {found}")
        return proof(self._secret, b"client", self.first, server)
