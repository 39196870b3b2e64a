"""A broker's side of SASL for a scripted broker: it knows one user, and gives false answers if a test wants them."""

from __future__ import annotations

from typing import Any

from pyclient.core.tests.scripted import ScriptedBroker
from pyclient.protocol import SaslAuthenticate, SaslHandshake, errors, scram

USER, PASSWORD = "alice", "pen,cil="
SALT, ITERATIONS = b"a salt of a user", 4096
REFUSED_CODE = errors.SaslAuthenticationFailed.code
REFUSED = "Authentication failed during authentication due to invalid credentials"


class Door:
    """Authenticates clients. ``lifetime_ms``: session lifetime; ``tokens``: valid OAUTHBEARER tokens; ``said``:
    received messages; ``entered``: number of successful logins.
    """

    def __init__(self, broker: ScriptedBroker, *mechanisms: str) -> None:
        self.mechanisms = list(mechanisms)
        self.lifetime_ms = 0
        self.tokens: set[str] = set()
        self.said: list[bytes] = []
        self.entered = 0
        self.password = PASSWORD
        self.iterations = ITERATIONS
        self._mechanism = ""
        self._first: scram.ClientFirst | None = None
        self._refused = False
        broker.handlers[SaslHandshake] = self._handshake
        broker.handlers[SaslAuthenticate] = self._authenticate

    def _handshake(self, request: Any, version: int) -> SaslHandshake.Response:
        assert version == 1
        self._mechanism, self._first, self._refused = request.mechanism, None, False
        if request.mechanism not in self.mechanisms:
            code = errors.UnsupportedSaslMechanism.code
            return SaslHandshake.Response(error_code=code, mechanisms=list(self.mechanisms))
        return SaslHandshake.Response(mechanisms=list(self.mechanisms))

    def _authenticate(self, request: Any, version: int) -> SaslAuthenticate.Response:
        said = bytes(request.auth_bytes)
        self.said.append(said)
        if self._mechanism == "PLAIN":
            return self._ended(b"" if said == f"\0{USER}\0{self.password}".encode() else None)
        if self._mechanism == "OAUTHBEARER":
            return self._on_token(said)
        return self._on_scram(scram.MECHANISMS[self._mechanism], said)

    def _on_token(self, said: bytes) -> SaslAuthenticate.Response:
        if self._refused:
            return self._ended(None)
        token = said.split(b"\x01")[1].removeprefix(b"auth=Bearer ").decode()
        if token in self.tokens:
            return self._ended(b"")
        self._refused = True
        return SaslAuthenticate.Response(auth_bytes=b'{"status":"invalid_token"}')

    def _on_scram(self, mechanism: scram.Mechanism, said: bytes) -> SaslAuthenticate.Response:
        if self._first is None:
            self._first = scram.read_client_first(said)
            self._challenge = scram.server_first(f"{self._first.nonce}ours", SALT, self.iterations)
            return SaslAuthenticate.Response(auth_bytes=self._challenge.message)
        salted = scram.salted_password(mechanism, self.password, SALT, self.iterations)
        known = scram.credential(mechanism, salted, SALT, self.iterations)
        final = scram.read_client_final(said)
        message = scram.auth_message(self._first, self._challenge, final)
        if self._first.user != USER or not scram.is_proved(mechanism, known.stored_key, message, final.proof):
            return self._ended(None)
        return self._ended(scram.ServerFinal(self.signature(mechanism, known, message)).message)

    def signature(self, mechanism: scram.Mechanism, known: scram.Credential, message: bytes) -> bytes:
        return scram.server_signature(mechanism, known.server_key, message)

    def _ended(self, answer: bytes | None) -> SaslAuthenticate.Response:
        if answer is None:
            return SaslAuthenticate.Response(error_code=REFUSED_CODE, error_message=REFUSED)
        self.entered += 1
        return SaslAuthenticate.Response(auth_bytes=answer, session_lifetime_ms=self.lifetime_ms)
