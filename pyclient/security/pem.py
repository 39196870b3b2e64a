"""PEM (RFC 7468): blocks of base64 between lines that name their contents."""

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
"""The sign of an encrypted key in OpenSSL's older format."""


def certificates(text: str) -> list[str]:
    """Returns the blocks of certificates, in order."""
    return [block for label, block in _blocks(text) if label == CERTIFICATE]


def keys(text: str) -> list[str]:
    """Returns the blocks of private keys of all kinds."""
    return [block for label, block in _blocks(text) if label.endswith(PRIVATE_KEY)]


def is_encrypted(key: str) -> bool:
    """Returns whether a key's block needs a password."""
    return ENCRYPTED_KEY in key or _ENCRYPTED_BY_HEADER in key


def block(label: str, data: bytes) -> str:
    """Returns DER bytes as a block."""
    text = base64.b64encode(data).decode()
    lines = [text[at : at + _LINE] for at in range(0, len(text), _LINE)]
    return "\n".join((f"-----BEGIN {label}-----", *lines, f"-----END {label}-----"))


def _blocks(text: str) -> list[tuple[str, str]]:
    return [(found[1], _lines(found[0])) for found in _BLOCK.finditer(text)]


def _lines(text: str) -> str:
    """Removes the white space that a properties file leaves around lines."""
    return "\n".join(line.strip() for line in text.splitlines())
