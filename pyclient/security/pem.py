"""PEM (RFC 7468): blocks of base64 between lines that name what they hold."""

from __future__ import annotations

import base64
import re
from typing import Final

_BLOCK: Final = re.compile(r"-----BEGIN ([A-Z0-9 ]+)-----.*?-----END \1-----", re.DOTALL)
_LINE: Final = 64
CERTIFICATE: Final = "CERTIFICATE"
PRIVATE_KEY: Final = "PRIVATE KEY"
ENCRYPTED_KEY: Final = "ENCRYPTED PRIVATE KEY"
_ENCRYPTED_BY_HEADER: Final = "Proc-Type: 4,ENCRYPTED"
"""The older way of OpenSSL."""


def certificates(text: str) -> list[str]:
    """The blocks of the certificates, in their order."""
    return [block for label, block in _blocks(text) if label == CERTIFICATE]


def keys(text: str) -> list[str]:
    """The blocks of the private keys, of whatever kind."""
    return [block for label, block in _blocks(text) if label.endswith(PRIVATE_KEY)]


def is_encrypted(key: str) -> bool:
    """Whether the block of a key needs a password."""
    return ENCRYPTED_KEY in key or _ENCRYPTED_BY_HEADER in key


def block(label: str, data: bytes) -> str:
    """A block of DER."""
    text = base64.b64encode(data).decode()
    lines = [text[at : at + _LINE] for at in range(0, len(text), _LINE)]
    return "\n".join((f"-----BEGIN {label}-----", *lines, f"-----END {label}-----"))


def _blocks(text: str) -> list[tuple[str, str]]:
    return [(found[1], _lines(found[0])) for found in _BLOCK.finditer(text)]


def _lines(text: str) -> str:
    """Without what a properties file leaves around lines."""
    return "\n".join(line.strip() for line in text.splitlines())
