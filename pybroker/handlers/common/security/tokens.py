"""What the handlers of delegation tokens share (KIP-48): which clients may use them, and the settings."""

from __future__ import annotations

from typing import Any, Final

from pybroker.cluster.decisions.token_changes import Times
from pybroker.handlers.common.call import Call
from pybroker.security.tokens import USER, KnownTokens
from pyclient.protocol import errors

ANONYMOUS: Final = "User:ANONYMOUS"


def secret_key(call: Call) -> str:
    """Returns the secret key for delegation tokens from the settings.

    Raises DelegationTokenRequestNotAllowed if the client is anonymous or has authenticated with a token, and
    DelegationTokenAuthDisabled if there is no key.
    """
    if call.principal == ANONYMOUS or call.is_by_token:
        raise errors.DelegationTokenRequestNotAllowed
    key: str | None = call.broker.config["delegation.token.secret.key"]
    if not key:
        raise errors.DelegationTokenAuthDisabled
    return key


def times(call: Call) -> Times:
    """Returns how long the settings let tokens live."""
    config = call.broker.config
    return Times(config["delegation.token.max.lifetime.ms"], config["delegation.token.expiry.time.ms"])


def known(call: Call) -> KnownTokens:
    """Returns the tokens of this broker's metadata. Raises the errors of ``secret_key``."""
    secret_key(call)
    assert call.broker.known_tokens is not None  # since there is a key
    return call.broker.known_tokens


def found(call: Call, proof: Any) -> str | None:
    """Returns the id of the token whose MAC the client sent, or None. Raises the errors of ``secret_key``."""
    return known(call).id_of(bytes(proof))


def split(principal: str) -> tuple[str, str]:
    """Splits a principal into type and name, as they are on the wire."""
    return USER.rstrip(":"), principal.removeprefix(USER)


def joined(principal_type: str, name: str) -> str:
    """Joins type and name to a principal. Raises InvalidPrincipalType."""
    if f"{principal_type}:" != USER:
        raise errors.InvalidPrincipalType
    return USER + name
