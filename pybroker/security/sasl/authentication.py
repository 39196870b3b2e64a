"""The authentication of one connection's client: checks which requests are valid, and handles the client's messages.

    nobody -> SaslHandshake -> messages of a mechanism -> known, or refused
    known  -> SaslHandshake -> messages again          -> known, or refused      if sessions have a limit

It does no I/O and reads no clock: seconds of a monotonic clock are arguments. An ``Exchange`` is a mechanism's part. If
its answer takes long, a thread makes it, and the client must wait. The client gets the same answer for a wrong user, a
wrong password and a wrong proof.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from concurrent.futures import Future
from contextlib import contextmanager
from typing import Final, Protocol

from pyclient.protocol import sasl
from pyclient.protocol.errors import IllegalSaslState, SaslAuthenticationFailed, UnsupportedSaslMechanism

API_VERSIONS, SASL_HANDSHAKE, SASL_AUTHENTICATE = 18, 17, 36
AGAIN_AFTER_S: Final = 1.0
"""The shortest time between two authentications of a client."""


class BadMessage(ValueError):
    """Raised for a malformed message, a wrong password or proof, or an unknown user. The text is for the log only."""


class Exchange(Protocol):
    """The messages of one authentication."""

    user: str | None
    """The client's user name, once the client has proved it."""
    lifetime_ms: int
    """How long the authentication is valid; 0 means without limit."""
    is_by_token: bool
    """True if the client has authenticated with a delegation token."""

    def on_message(self, message: bytes) -> bytes | Future[bytes]:
        """Returns the answer, or a future of it. The call and the future may raise BadMessage, or
        SaslAuthenticationFailed with a text for the client.
        """


class Mechanism(Protocol):
    """A SASL mechanism."""

    def begin(self) -> Exchange: ...


class Authentication:
    """The authentication of one connection.

    ``user`` is the user name. ``lifetime_ms`` is how long the authentication is valid from its start, 0 without
    limit. ``is_by_token`` is True if the client has authenticated with a delegation token.
    """

    __slots__ = (
        *("_exchange", "_expires_at", "_is_framed", "_is_peer", "_last", "_listener", "_max_reauth_ms", "_mechanism"),
        *("_mechanisms", "is_by_token", "is_over", "is_strange", "lifetime_ms", "user"),
    )

    def __init__(
        self, listener: str, mechanisms: Mapping[str, Mechanism], max_reauth_ms: Mapping[str, int]
    ) -> None:
        """``max_reauth_ms`` is, by mechanism, the time after which a client must authenticate again; 0 means never."""
        self._listener = listener
        self._mechanisms = mechanisms
        self._max_reauth_ms = max_reauth_ms
        self._exchange: Exchange | None = None
        self._mechanism = ""
        self._is_framed = True
        self._is_peer = False
        self._expires_at: float | None = None
        self._last = 0.0
        self.user: str | None = None
        self.lifetime_ms = 0
        self.is_by_token = False
        self.is_strange = True
        """True until the client is authenticated."""
        self.is_over = False
        """True if the client was refused."""

    @property
    def mechanisms(self) -> list[str]:
        """The mechanisms of the listener."""
        return list(self._mechanisms)

    @property
    def mechanism(self) -> str:
        """The mechanism by which the client logs in; empty if it has not begun."""
        return self._mechanism

    @property
    def takes_tokens(self) -> bool:
        """True if the next bytes are a mechanism's message without a request around it."""
        return self._exchange is not None and not self._is_framed

    @property
    def is_known(self) -> bool:
        """True if the client is authenticated and no authentication is in progress."""
        return not self.is_strange and self._exchange is None

    @property
    def is_open(self) -> bool:
        """True if every request is valid for an unlimited time."""
        return self.is_known and self._expires_at is None

    def admit(self, api_key: int, now_s: float) -> None:
        """Checks whether a request is valid now. Raises IllegalSaslState."""
        if self.is_over:
            raise IllegalSaslState("its authentication was refused")
        if self._exchange is not None or self._is_peer:
            if api_key != SASL_AUTHENTICATE:
                raise IllegalSaslState(f"API {api_key} came during its authentication")
        elif self.is_strange:
            if api_key not in (API_VERSIONS, SASL_HANDSHAKE):
                what = f"API {api_key} came before its authentication"
                raise IllegalSaslState(f"{what}: set its security.protocol, sasl.mechanism and what that needs")
        elif self._expires_at is not None and now_s >= self._expires_at and api_key != SASL_HANDSHAKE:
            raise IllegalSaslState("its session has expired (connections.max.reauth.ms)")

    def on_handshake(self, mechanism: str, *, is_framed: bool, now_s: float) -> None:
        """Begins an authentication. ``is_framed`` is True if the messages come in SaslAuthenticate requests.

        Raises IllegalSaslState, after which the client may continue, and UnsupportedSaslMechanism, which ends the
        connection.
        """
        if not self.is_strange:
            if self._expires_at is None:
                raise IllegalSaslState("its session has no end")
            if now_s - self._last < AGAIN_AFTER_S:
                raise IllegalSaslState("it authenticates too often")
        found = self._mechanisms.get(mechanism)
        if found is None:
            self.is_over = True
            raise UnsupportedSaslMechanism(f"listener {self._listener} has only {', '.join(self._mechanisms)}")
        self._last = now_s
        self._exchange = found.begin()
        if not self.is_strange and mechanism != self._mechanism:
            self._exchange = _Never(mechanism, self._mechanism)
        self._is_framed = is_framed
        self._mechanism = mechanism

    def on_peer(self) -> None:
        """Notes that a broker begins its proof, which another module handles. It may have logged in by Kerberos before.

        Raises IllegalSaslState.
        """
        if self._exchange is not None or not (self.is_strange or self._mechanism == sasl.GSSAPI):
            raise IllegalSaslState("it has already authenticated")
        self._is_peer = True

    def on_proved(self) -> None:
        """Notes that the client is a broker of this cluster."""
        self._is_peer = self.is_strange = False

    def on_message(self, message: bytes, now_s: float) -> bytes | Future[bytes]:
        """Returns the answer to a message of the mechanism. The last message sets ``user`` and ``lifetime_ms``.

        Give a returned future to ``on_answer`` when it is done. Raises IllegalSaslState. Raises
        SaslAuthenticationFailed, with the text for the client; then the authentication is over.
        """
        exchange = self._exchange
        if exchange is None:
            raise IllegalSaslState("SaslAuthenticate request received after successful authentication")
        with self._judged():
            answer = exchange.on_message(message)
            return answer if isinstance(answer, Future) else self._answered(exchange, answer, now_s)

    def on_answer(self, answer: Future[bytes], now_s: float) -> bytes:
        """Returns the answer of a finished future of ``on_message``. Raises SaslAuthenticationFailed."""
        assert self._exchange is not None
        with self._judged():
            return self._answered(self._exchange, answer.result(), now_s)

    def _answered(self, exchange: Exchange, answer: bytes, now_s: float) -> bytes:
        if exchange.user is not None:
            self._know(exchange, exchange.user, now_s)
        return answer

    @contextmanager
    def _judged(self) -> Iterator[None]:
        """Within ``with``, an error refuses the client and ends the authentication."""
        try:
            yield
        except BadMessage as error:
            self.is_over = True
            again = "authentication" if self.is_strange else "re-authentication"
            reason = f"due to invalid credentials with SASL mechanism {self._mechanism}"
            raise SaslAuthenticationFailed(f"Authentication failed during {again} {reason}") from error
        except SaslAuthenticationFailed:
            self.is_over = True
            raise

    def _know(self, exchange: Exchange, user: str, now_s: float) -> None:
        if not self.is_strange and user != self.user:
            raise SaslAuthenticationFailed("Cannot change principals during re-authentication")
        self._exchange = None
        self.user, self.is_strange, self.is_by_token = user, False, exchange.is_by_token
        lifetime_ms = exchange.lifetime_ms
        most_ms = max(self._max_reauth_ms.get(self._mechanism, 0), 0)
        self.lifetime_ms = min(lifetime_ms, most_ms) or max(lifetime_ms, most_ms)
        self._expires_at = now_s + self.lifetime_ms / 1000 if self.lifetime_ms else None


class _Never:
    """Refuses a client that authenticates again with another mechanism."""

    user: str | None = None
    lifetime_ms = 0
    is_by_token = False

    def __init__(self, mechanism: str, before: str) -> None:
        self._text = (
            f"SASL mechanism '{mechanism}' requested by client is not supported for re-authentication of mechanism "
            f"'{before}'"
        )

    def on_message(self, message: bytes) -> bytes:
        raise SaslAuthenticationFailed(self._text)
