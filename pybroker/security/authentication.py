"""How the client of one connection says who it is: which requests may come when, and what follows from its messages.

    nobody -> SaslHandshake -> messages of a mechanism -> known, or refused
    known  -> SaslHandshake -> messages again          -> known, or refused      where its session ends some time

It does no I/O and reads no clock: seconds of a clock that only goes on are arguments. A mechanism's part is an
``Exchange``. Where that takes long, a thread makes its answer, and its client says nothing meanwhile. Whatever is wrong
with a user, a password or a proof, the client hears the same.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from concurrent.futures import Future
from contextlib import contextmanager
from typing import Final, Protocol

from pyclient.protocol.errors import IllegalSaslState, SaslAuthenticationFailed, UnsupportedSaslMechanism

API_VERSIONS, SASL_HANDSHAKE, SASL_AUTHENTICATE = 18, 17, 36
AGAIN_AFTER_S: Final = 1.0
"""A client may not say more often who it is."""


class BadMessage(ValueError):
    """A message that nobody can have meant, a wrong password or proof, or an unknown user: its text is for the log."""


class Exchange(Protocol):
    """The messages of one authentication."""

    user: str | None
    """The name of the client, once that is proved."""
    lifetime_ms: int
    """For how long that is so; 0: for ever."""
    is_by_token: bool
    """It is proved by a delegation token."""

    def on_message(self, message: bytes) -> bytes | Future[bytes]:
        """The answer. Raises BadMessage, or SaslAuthenticationFailed with a text for the client. So may the future."""


class Mechanism(Protocol):
    """A way to say who one is."""

    def begin(self) -> Exchange: ...


class Authentication:
    """That of one connection.

    user: who it is. lifetime_ms: how long that was true when it was said; 0: for ever. is_by_token: a delegation token
    says so.
    """

    __slots__ = (
        *("_exchange", "_expires_at", "_is_framed", "_is_peer", "_last", "_listener", "_max_reauth_ms", "_mechanism"),
        *("_mechanisms", "is_by_token", "is_over", "is_strange", "lifetime_ms", "user"),
    )

    def __init__(
        self, listener: str, mechanisms: Mapping[str, Mechanism], max_reauth_ms: Mapping[str, int]
    ) -> None:
        """``max_reauth_ms``: the time after which a client has to say again who it is, by mechanism; 0: never."""
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
        """Nobody knows yet who it is."""
        self.is_over = False
        """It was refused."""

    @property
    def mechanisms(self) -> list[str]:
        """Those of the listener."""
        return list(self._mechanisms)

    @property
    def takes_tokens(self) -> bool:
        """What comes next are a mechanism's messages themselves, without a request around them."""
        return self._exchange is not None and not self._is_framed

    @property
    def is_known(self) -> bool:
        """The client's name is known, and nothing more is to be said now."""
        return not self.is_strange and self._exchange is None

    @property
    def is_open(self) -> bool:
        """Any request may come, and may for ever."""
        return self.is_known and self._expires_at is None

    def admit(self, api_key: int, now_s: float) -> None:
        """Looks whether a request may come. Raises IllegalSaslState."""
        if self.is_over:
            raise IllegalSaslState("it was refused")
        if self._exchange is not None or self._is_peer:
            if api_key != SASL_AUTHENTICATE:
                raise IllegalSaslState(f"API {api_key} came while it said who it is")
        elif self.is_strange:
            if api_key not in (API_VERSIONS, SASL_HANDSHAKE):
                what = f"API {api_key} came before it said who it is"
                raise IllegalSaslState(f"{what}: set its security.protocol, sasl.mechanism and what that needs")
        elif self._expires_at is not None and now_s >= self._expires_at and api_key != SASL_HANDSHAKE:
            raise IllegalSaslState("its session has expired (connections.max.reauth.ms)")

    def on_handshake(self, mechanism: str, *, is_framed: bool, now_s: float) -> None:
        """Begins. ``is_framed``: messages come in SaslAuthenticate. Raises IllegalSaslState, where the client goes on
        as it was, and UnsupportedSaslMechanism, which is the end.
        """
        if not self.is_strange:
            if self._expires_at is None:
                raise IllegalSaslState("its session has no end")
            if now_s - self._last < AGAIN_AFTER_S:
                raise IllegalSaslState("it says too often who it is")
        found = self._mechanisms.get(mechanism)
        if found is None:
            self.is_over = True
            raise UnsupportedSaslMechanism(f"listener {self._listener} has {', '.join(self._mechanisms)} only")
        self._last = now_s
        self._exchange = found.begin()
        if not self.is_strange and mechanism != self._mechanism:
            self._exchange = _Never(mechanism, self._mechanism)
        self._is_framed = is_framed
        self._mechanism = mechanism

    def on_peer(self) -> None:
        """A broker begins to prove that it is one, which others look after. Raises IllegalSaslState."""
        if not self.is_strange or self._exchange is not None:
            raise IllegalSaslState("it has said already who it is")
        self._is_peer = True

    def on_proved(self) -> None:
        """It is a broker."""
        self._is_peer = self.is_strange = False

    def on_message(self, message: bytes, now_s: float) -> bytes | Future[bytes]:
        """The answer to a message of the mechanism; ``user`` and ``lifetime_ms`` stand after the last. A future is to
        be given to ``on_answer`` when it is done. Raises SaslAuthenticationFailed, with the text for the client, which
        is the end, and IllegalSaslState.
        """
        exchange = self._exchange
        if exchange is None:
            raise IllegalSaslState("SaslAuthenticate request received after successful authentication")
        with self._judged():
            answer = exchange.on_message(message)
            return answer if isinstance(answer, Future) else self._answered(exchange, answer, now_s)

    def on_answer(self, answer: Future[bytes], now_s: float) -> bytes:
        """That of a future of ``on_message`` which is done. Raises SaslAuthenticationFailed."""
        assert self._exchange is not None
        with self._judged():
            return self._answered(self._exchange, answer.result(), now_s)

    def _answered(self, exchange: Exchange, answer: bytes, now_s: float) -> bytes:
        if exchange.user is not None:
            self._know(exchange, exchange.user, now_s)
        return answer

    @contextmanager
    def _judged(self) -> Iterator[None]:
        """What is refused is the end."""
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
    """A client that comes again with another mechanism."""

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
