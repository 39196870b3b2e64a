"""PLAIN (RFC 4616): the client sends its name and its password, which are compared with the configuration.

The comparison takes as long for an unknown user as for a wrong password: CVE-2021-38153.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
from collections.abc import Mapping
from typing import Final

from pybroker.security.sasl.authentication import BadMessage
from pyclient.protocol.errors import SaslAuthenticationFailed

PARTS: Final = 3
MOST_BYTES: Final = 16 * 1024
"""How long a message may be. A longer message is refused without being parsed."""
DIGEST: Final = "sha256"


class Plain:
    """The mechanism, with the users of one listener."""

    def __init__(self, passwords: Mapping[str, str]) -> None:
        self._digests = {user: _digest(password) for user, password in passwords.items()}
        self._nobody = secrets.token_bytes(hashlib.new(DIGEST).digest_size)

    def begin(self) -> PlainExchange:
        """Begins one authentication."""
        return PlainExchange(self)

    def fits(self, user: str, password: str) -> bool:
        """Returns whether that is the user's password."""
        known = self._digests.get(user)
        return hmac.compare_digest(_digest(password), known or self._nobody) and known is not None


class PlainExchange:
    """The one message of an authentication."""

    lifetime_ms = 0
    is_by_token = False

    def __init__(self, users: Plain) -> None:
        self._users = users
        self.user: str | None = None

    def on_message(self, message: bytes) -> bytes:
        """Returns an empty answer. Raises BadMessage, SaslAuthenticationFailed."""
        if len(message) > MOST_BYTES:
            raise BadMessage(f"a message has more than {MOST_BYTES} bytes")
        try:
            parts = message.decode().split("\0")
        except UnicodeDecodeError:
            raise BadMessage("not UTF-8") from None
        if len(parts) != PARTS:
            raise BadMessage(f"{len(parts)} parts, not {PARTS}")
        authorization_id, user, password = parts
        if not user:
            raise SaslAuthenticationFailed("Authentication failed: username not specified")
        if not password:
            raise SaslAuthenticationFailed("Authentication failed: password not specified")
        if not self._users.fits(user, password):
            raise SaslAuthenticationFailed("Authentication failed: Invalid username or password")
        if authorization_id not in ("", user):  # CVE-2017-12610
            text = "Authentication failed: Client requested an authorization id that is different from username"
            raise SaslAuthenticationFailed(text)
        self.user = user
        return b""


def _digest(password: str) -> bytes:
    """Returns a digest, which has the same size for all passwords."""
    return hashlib.new(DIGEST, password.encode()).digest()
