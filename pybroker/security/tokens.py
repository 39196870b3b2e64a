"""Delegation tokens (KIP-48): what is known of one, and how its holder logs in by SCRAM.

A token's password is a MAC over its id, by a key that all brokers have. It is computed where it is needed, and never
stored. It reads no clock: the time is an argument, or a function.
"""

from __future__ import annotations

import base64
import hmac
from collections import Counter
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Final, NamedTuple

from pyclient.protocol import scram

USER: Final = "User:"
"""Begins a principal. No other kind has tokens."""
HASH: Final = "sha512"
KEPT: Final = 1_000
"""What is derived from so many tokens is kept: it costs a millisecond."""


class Token(NamedTuple):
    """``owner``, ``requester``, ``renewers``: principals, ``User:alice``. ``most_ms``: no renewal leads past it."""

    id: str
    owner: str
    requester: str
    renewers: tuple[str, ...]
    issued_ms: int
    expires_ms: int
    most_ms: int

    def is_expired(self, now_ms: int) -> bool:
        """Whether nobody may use it any more."""
        return now_ms > min(self.expires_ms, self.most_ms)

    @property
    def principals(self) -> tuple[str, ...]:
        """Those who may renew and expire it, and see it."""
        return self.owner, self.requester, *self.renewers


Tokens = Mapping[str, Token]
"""By id."""


def mac(key: str, token_id: str) -> bytes:
    """What proves that one has the token. It is as secret as a password."""
    return hmac.digest(key.encode(), token_id.encode(), HASH)


class KnownTokens:
    """Finds tokens by their MACs, and counts them. It knows what ``update`` has told it."""

    def __init__(self, key: str) -> None:
        """``key``: ``delegation.token.secret.key``."""
        self._key = key
        self._ids: dict[bytes, str] = {}
        self._requesters: dict[str, str] = {}
        self._counts = Counter[str]()

    def update(self, tokens: Mapping[str, Token | None]) -> None:
        """These tokens are others now; those that are None are gone."""
        for token_id, token in tokens.items():
            if (before := self._requesters.pop(token_id, None)) is not None:
                self._counts[before] -= 1
                if not self._counts[before]:
                    del self._counts[before]
            if token is None:
                self._ids.pop(mac(self._key, token_id), None)
            else:
                self._requesters[token_id] = token.requester
                self._counts[token.requester] += 1
                if before is None:
                    self._ids[mac(self._key, token_id)] = token_id

    def id_of(self, proof: bytes) -> str | None:
        """The token with this MAC, None where there is none."""
        return self._ids.get(proof)

    def requested_by(self, principal: str) -> int:
        """How many there are for which the principal has asked."""
        return self._counts[principal]


class TokenLogins:
    """Logs in who has a token."""

    def __init__(self, key: str, tokens: Callable[[], Tokens], now_ms: Callable[[], int]) -> None:
        """``key``: ``delegation.token.secret.key``. ``tokens``: those of now."""
        self._key = key
        self._tokens = tokens
        self._now_ms = now_ms
        self._derived = lru_cache(KEPT)(self._derive)

    def lifetime_ms(self, token: Token) -> int:
        """For how long the token still counts."""
        return token.expires_ms - self._now_ms()

    def living(self, token_id: str) -> Token | None:
        """The token, if it is there and has time left."""
        token = self._tokens().get(token_id)
        return None if token is None or token.is_expired(self._now_ms()) or self.lifetime_ms(token) <= 0 else token

    def credential(self, mechanism: scram.Mechanism, token: Token) -> scram.Credential:
        """What a broker would keep if the token were a user with a password."""
        return self._derived(mechanism, token.id)

    def _derive(self, mechanism: scram.Mechanism, token_id: str) -> scram.Credential:
        secret = mac(self._key, token_id)
        salt = scram.salt_of(hmac.digest(secret, b"salt", HASH))
        password = base64.b64encode(secret).decode()
        salted = scram.salted_password(mechanism, password, salt, scram.LEAST_ITERATIONS)
        return scram.credential(mechanism, salted, salt, scram.LEAST_ITERATIONS)
