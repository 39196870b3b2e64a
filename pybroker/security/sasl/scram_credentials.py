"""The stored form of a user's password, which is Kafka's: ``salt=…,stored_key=…,server_key=…,iterations=4096``."""

from __future__ import annotations

import base64
import re
from typing import Final

from pyclient.protocol.scram import Credential

MOST_ITERATIONS: Final = 16_384
"""How many iterations AlterUserScramCredentials accepts, as in Kafka. Clients must compute so many hashes."""
_ITERATIONS: Final = re.compile(r"(?:\A|,)iterations=([0-9]{1,9})(?:,|\Z)")
_FIELDS: Final = ("salt", "stored_key", "server_key", "iterations")


def to_text(credential: Credential) -> str:
    """Returns the value under a mechanism's name in ``/config/users/<user>``."""
    keys = (credential.salt, credential.stored_key, credential.server_key)
    values = (*(base64.b64encode(key).decode() for key in keys), str(credential.iterations))
    return ",".join(f"{name}={value}" for name, value in zip(_FIELDS, values, strict=True))


def iterations_of(text: str) -> int:
    """Returns the number of iterations in a value; 0 if there is none."""
    found = _ITERATIONS.search(text)
    return int(found[1]) if found else 0


def from_text(text: str) -> Credential:
    """Parses a value. Raises ValueError, which contains no part of the text."""
    pairs = dict(part.partition("=")[::2] for part in text.split(","))
    if sorted(pairs) != sorted(_FIELDS) or not pairs["iterations"].isdecimal():
        raise ValueError("not salt=…,stored_key=…,server_key=…,iterations=…")
    salt, stored_key, server_key = (base64.b64decode(pairs[name], validate=True) for name in _FIELDS[:3])
    return Credential(salt, stored_key, server_key, int(pairs["iterations"]))
