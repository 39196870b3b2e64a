"""The nodes of delegation tokens: the paths and JSON of Kafka on ZooKeeper. A token's HMAC is not stored."""

from __future__ import annotations

import json
from typing import Any, Final
from urllib.parse import unquote

from pybroker.cluster.metadata.znodes import sanitized
from pybroker.security.tokens import USER, Token

TOKENS: Final = "/delegation_token/tokens"
FOLDERS: Final = (TOKENS.rpartition("/")[0], TOKENS)
"""The folders of tokens, which are created when they are first needed."""
WITH_REQUESTERS: Final = 3
"""The version that is written. Older versions have no requester: then the owner is the requester."""
_compact = json.JSONEncoder(separators=(",", ":")).encode


def path(token_id: str) -> str:
    """Returns the token's node."""
    return f"{TOKENS}/{token_id}"


def encode(token: Token) -> bytes:
    """Encodes a token."""
    fields = {
        "version": WITH_REQUESTERS,
        "owner": sanitized(token.owner),
        "tokenRequester": sanitized(token.requester),
        "renewers": [sanitized(each) for each in token.renewers],
        "issueTimestamp": token.issued_ms,
        "maxTimestamp": token.most_ms,
        "expiryTimestamp": token.expires_ms,
        "tokenId": token.id,
    }
    return _compact(fields).encode()


def decode(token_id: str, data: bytes) -> Token:
    """Decodes a token. Raises ValueError and others for malformed data."""
    fields = json.loads(data)
    version = fields["version"]
    if not 0 < version <= WITH_REQUESTERS:
        raise ValueError(f"version {version} is unknown")
    if fields["tokenId"] != token_id:
        raise ValueError("it contains another token")
    owner = fields["owner"]
    requester = fields["tokenRequester"] if version >= WITH_REQUESTERS else owner
    return Token(
        token_id,
        _principal(owner),
        _principal(requester),
        tuple(map(_principal, fields["renewers"])),
        *(_time(fields[name]) for name in ("issueTimestamp", "expiryTimestamp", "maxTimestamp")),
    )


def _principal(text: str) -> str:
    found = unquote(text, errors="strict")
    if not found.startswith(USER):
        raise ValueError("a principal is not a user")
    return found


def _time(value: Any) -> int:
    if type(value) is not int:
        raise ValueError("a time is not a number")
    return value
