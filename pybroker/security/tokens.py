"""Delegation tokens (KIP-48): their data, and how their holders log in by SCRAM.

A token's password is an HMAC over its id, by a key that all brokers have. It is computed when needed, and never stored.
Pure functions: the time is an argument, or a function.
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
"""The beginning of a user's principal. Only users have tokens."""
HASH: Final = "sha512"
KEPT: Final = 1_000
"""For how many tokens the credentials are cached: to compute one takes a millisecond."""
USUAL_CHARACTERS: Final = 500
"""A token whose principals have this many characters counts as two, because it takes twice the memory."""


class Token(NamedTuple):
    """A token. ``owner``, ``requester`` and ``renewers`` are principals (``User:alice``). ``most_ms`` is the time
    beyond which it cannot be renewed.
    """

    id: str
    owner: str
    requester: str
    renewers: tuple[str, ...]
    issued_ms: int
    expires_ms: int
    most_ms: int

    def is_expired(self, now_ms: int) -> bool:
        """Returns whether the token has expired."""
        return now_ms > min(self.expires_ms, self.most_ms)

    @property
    def principals(self) -> tuple[str, ...]:
        """The principals that may renew, expire and describe the token."""
        return self.owner, self.requester, *self.renewers

    @property
    def weight(self) -> int:
        """The number of tokens for which this one counts."""
        return 1 + sum(map(len, self.principals)) // USUAL_CHARACTERS


Tokens = Mapping[str, Token]
"""The tokens by id."""


def mac(key: str, token_id: str) -> bytes:
    """Returns the HMAC that proves possession of the token. It is as secret as a password."""
    return hmac.digest(key.encode(), token_id.encode(), HASH)


class KnownTokens:
    """Finds tokens by their HMACs, and counts them. It knows the tokens that were passed to ``update``."""

    def __init__(self, key: str) -> None:
        """``key`` is the setting ``delegation.token.secret.key``, from which the MACs of tokens are made."""
        self._key = key
        self._ids: dict[bytes, str] = {}
        self._counted: dict[str, Token] = {}
        self._counts = Counter[str]()

    def update(self, tokens: Mapping[str, Token | None]) -> None:
        """Replaces these tokens; the value None removes a token."""
        for token_id, token in tokens.items():
            if (before := self._counted.pop(token_id, None)) is not None:
                self._counts[before.requester] -= before.weight
                if not self._counts[before.requester]:
                    del self._counts[before.requester]
            if token is None:
                self._ids.pop(mac(self._key, token_id), None)
            else:
                self._counted[token_id] = token
                self._counts[token.requester] += token.weight
                if before is None:
                    self._ids[mac(self._key, token_id)] = token_id

    def id_of(self, proof: bytes) -> str | None:
        """Returns the id of the token with this HMAC, None if there is none."""
        return self._ids.get(proof)

    def requested_by(self, principal: str) -> int:
        """Returns how many tokens the principal has requested, by their weights."""
        return self._counts[principal]


class TokenLogins:
    """Logs in the holders of tokens."""

    def __init__(self, key: str, tokens: Callable[[], Tokens], now_ms: Callable[[], int]) -> None:
        """``key`` is ``delegation.token.secret.key``. ``tokens()`` returns the current ones."""
        self._key = key
        self._tokens = tokens
        self._now_ms = now_ms
        self._derived = lru_cache(KEPT)(self._derive)

    def lifetime_ms(self, token: Token) -> int:
        """Returns how long the token is still valid."""
        return token.expires_ms - self._now_ms()

    def living(self, token_id: str) -> Token | None:
        """Returns the token if it exists and is still valid."""
        token = self._tokens().get(token_id)
        return None if token is None or token.is_expired(self._now_ms()) or self.lifetime_ms(token) <= 0 else token

    def credential(self, mechanism: scram.Mechanism, token: Token) -> scram.Credential:
        """Returns the credential that a broker would store if the token were a user with a password."""
        return self._derived(mechanism, token.id)

    def _derive(self, mechanism: scram.Mechanism, token_id: str) -> scram.Credential:
        secret = mac(self._key, token_id)
        salt = scram.salt_of(hmac.digest(secret, b"salt", HASH))
        password = base64.b64encode(secret).decode()
        salted = scram.salted_password(mechanism, password, salt, scram.LEAST_ITERATIONS)
        return scram.credential(mechanism, salted, salt, scram.LEAST_ITERATIONS)
