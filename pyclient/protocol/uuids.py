"""Topic ids and other uuids: 16 bytes here, 22 characters of url-safe base64 in Kafka's texts."""

from __future__ import annotations

import base64
import uuid

ZERO_UUID = bytes(16)
_ONE = bytes(15) + b"\x01"  # Kafka's id of the metadata topic


def random_uuid() -> bytes:
    """Returns a random (version 4) uuid whose base64 does not begin with ``-``, as in Kafka."""
    while True:
        candidate = uuid.uuid4().bytes
        if candidate not in (ZERO_UUID, _ONE) and not to_base64(candidate).startswith("-"):
            return candidate


def to_base64(value: bytes) -> str:
    """Returns 16 bytes as 22 characters."""
    return base64.urlsafe_b64encode(value).rstrip(b"=").decode()


def from_base64(text: str) -> bytes:
    """Returns 22 characters as 16 bytes. Raises ValueError if they are not a uuid."""
    value = base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))
    if len(value) != 16:
        raise ValueError(f"{text!r} is not a uuid: {len(value)} bytes instead of 16")
    return value
