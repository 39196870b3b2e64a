"""The broker's side of SCRAM (``pyclient.protocol.scram``), with the stored passwords of users.

An unknown user gets a salt and iterations like any other, the same ones each time, and fails at the proof. So nobody
learns which users exist. The broker computes only a few HMACs; the client computes the iterations.
"""

from __future__ import annotations

import hmac
import logging
import secrets
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, NamedTuple

from pybroker.security.sasl.authentication import BadMessage
from pybroker.security.sasl.scram_credentials import from_text, iterations_of, to_text
from pybroker.security.tokens import USER, TokenLogins
from pyclient.protocol import scram
from pyclient.protocol.errors import SaslAuthenticationFailed
from pyclient.protocol.scram import Credential, ScramError

NONCE_BYTES: Final = 24

logger = logging.getLogger("pybroker.security")


class Stored(NamedTuple):
    """The configurations of users, which have the stored password under the mechanism's name."""

    of: Callable[[str], Mapping[str, str]]
    """Returns the configuration of a user, empty if there is none."""
    all: Callable[[], Mapping[Any, Mapping[str, str]]]
    """Returns the configurations of all users, and perhaps of other resources. After a change it is a new object."""


class ScramUsers:
    """The mechanism, with the users of the cluster."""

    def __init__(
        self, mechanism: scram.Mechanism, stored: Stored, secret: bytes, tokens: TokenLogins | None = None
    ) -> None:
        """``secret`` is the cluster's, so that all brokers make up the same credential for an unknown user. ``tokens``
        is None without delegation tokens.
        """
        self.mechanism = mechanism
        self.tokens = tokens
        self._stored = stored
        self._secret = hmac.digest(secret, b"unknown users", mechanism.hash)
        self._iterations: tuple[object, Sequence[int]] = None, ()

    def begin(self) -> ScramExchange:
        """Begins one authentication."""
        return ScramExchange(self, secrets.token_urlsafe(NONCE_BYTES))

    def credential(self, user: str) -> Credential:
        """Returns the stored credential, or one for which no password exists. Both take the same time."""
        nobody = to_text(self.nobody(user))
        try:
            return from_text(self._stored.of(user).get(self.mechanism.name, nobody))
        except ValueError as error:
            logger.error("the stored password of user %r for %s is malformed: %s", user, self.mechanism.name, error)
            return from_text(nobody)

    def nobody(self, user: str) -> Credential:
        """Returns a credential for which no password exists."""
        keys = [hmac.digest(self._secret, b"%d" % n + user.encode(), self.mechanism.hash) for n in range(3)]
        known = self._of_all()
        place = int.from_bytes(keys[2]) * len(known) >> 8 * len(keys[2])
        return Credential(scram.salt_of(keys[0]), keys[1], keys[1], known[place] if known else scram.LEAST_ITERATIONS)

    def _of_all(self) -> Sequence[int]:
        """Returns the iterations of all users, sorted. Unknown users get iterations in the same proportions."""
        everything, (before, iterations) = self._stored.all(), self._iterations
        if everything is not before:
            texts = (each.get(self.mechanism.name) for each in everything.values())
            iterations = sorted(filter(None, map(iterations_of, filter(None, texts))))
            self._iterations = everything, iterations
        return iterations


class ScramExchange:
    """The two messages of an authentication."""

    def __init__(self, users: ScramUsers, nonce: str) -> None:
        """``nonce`` is the broker's part of the nonce."""
        self.lifetime_ms = 0
        self.is_by_token = False
        self._users = users
        self._nonce = nonce
        self._begun: tuple[scram.ClientFirst, scram.ServerFirst, Credential] | None = None
        self.user: str | None = None

    def on_message(self, message: bytes) -> bytes:
        """Returns the challenge, then the broker's signature. Raises BadMessage, SaslAuthenticationFailed."""
        try:
            if self._begun is None:
                return self._challenge(scram.read_client_first(message))
            return self._signature(scram.read_client_final(message), *self._begun)
        except ScramError as error:
            raise BadMessage(str(error)) from None

    def _challenge(self, first: scram.ClientFirst) -> bytes:
        if first.authorization_id not in ("", first.user):
            text = "Authentication failed: Client requested an authorization id that is different from username"
            raise SaslAuthenticationFailed(text)
        self.is_by_token = first.extensions.get(scram.TOKENAUTH, "").lower() == "true"
        credential = self._of_token(first.user) if self.is_by_token else self._users.credential(first.user)
        challenge = scram.server_first(first.nonce + self._nonce, credential.salt, credential.iterations)
        self._begun = first, challenge, credential
        return challenge.message

    def _of_token(self, token_id: str) -> Credential:
        tokens = self._users.tokens
        token = None if tokens is None else tokens.living(token_id)
        if tokens is None or token is None:
            return self._users.nobody(token_id)
        return tokens.credential(self._users.mechanism, token)

    def _owner(self, token_id: str) -> str:
        """Returns the owner of the token; the client gets the owner's user name. Raises BadMessage."""
        tokens = self._users.tokens
        token = None if tokens is None else tokens.living(token_id)
        if tokens is None or token is None:
            raise BadMessage("a delegation token that is unknown or has expired")
        self.lifetime_ms = tokens.lifetime_ms(token)
        return token.owner.removeprefix(USER)

    def _signature(
        self, final: scram.ClientFinal, first: scram.ClientFirst, challenge: scram.ServerFirst, credential: Credential
    ) -> bytes:
        mechanism, said = self._users.mechanism, scram.auth_message(first, challenge, final)
        is_proved = scram.is_proved(mechanism, credential.stored_key, said, final.proof)
        # # CVE-2024-56128: the nonce is compared. librdkafka before 2.6.1 puts its own part before it once more.
        is_ours = any(
            hmac.compare_digest(final.nonce, nonce) for nonce in (challenge.nonce, first.nonce + challenge.nonce)
        )
        header = first.message[: len(first.message) - len(first.bare.encode())]
        if not (is_proved and is_ours and final.binding == header):
            raise BadMessage("an unknown user, or a wrong password")
        self.user = self._owner(first.user) if self.is_by_token else first.user
        return scram.ServerFinal(scram.server_signature(mechanism, credential.server_key, said)).message
