"""SCRAM users that a start adds: ``SCRAM-SHA-256=[name=admin,password=secret]``, as in Kafka's storage tool.

A salted password is possible too: ``iterations=8192,salt="…",saltedpassword="…"``. A value with commas must be quoted.
Errors contain no part of the text, because it is secret.
"""

from __future__ import annotations

import base64
import re
import secrets
from typing import Final, NamedTuple

from pybroker.config import ConfigError
from pybroker.security.sasl.scram_credentials import MOST_ITERATIONS, from_text
from pyclient.protocol import scram

OPTION: Final = "--add-scram"
_WHOLE: Final = re.compile(r"\s*([A-Z0-9-]+)\s*=\s*\[(.*)\]\s*", re.DOTALL)
_FIELD: Final = re.compile(r'\s*(\w+)\s*=\s*(?:"((?:[^"\\]|\\.)*)"|([^",]*))\s*(?:,|\Z)', re.DOTALL)
_ESCAPE: Final = re.compile(r"\\(.)", re.DOTALL)
_FIELDS: Final = {"name", "password", "iterations", "salt", "saltedpassword"}


class FirstUser(NamedTuple):
    """One user and one mechanism."""

    name: str
    mechanism: scram.Mechanism
    iterations: int
    salt: bytes
    password: str = ""
    salted_password: bytes = b""
    is_new_only: bool = True
    """True if an existing password must stay."""

    def __repr__(self) -> str:
        return f"FirstUser(name={self.name!r}, mechanism={self.mechanism.name})"

    def salted(self) -> bytes:
        """Returns the salted password. To compute it takes a millisecond or more."""
        if self.salted_password:
            return self.salted_password
        return scram.salted_password(self.mechanism, self.password, self.salt, self.iterations)

    def is_met(self, stored: str | None) -> bool:
        """Returns whether the stored value already matches. It may take a millisecond or more."""
        if stored is None or self.is_new_only:
            return stored is not None
        try:
            known = from_text(stored)
        except ValueError:
            return False
        salted = self._replace(salt=known.salt, iterations=known.iterations).salted()
        return scram.credential(self.mechanism, salted, known.salt, known.iterations) == known


def parse(text: str) -> FirstUser:
    """Parses one user. Raises ConfigError."""
    found = _WHOLE.fullmatch(text)
    mechanism = scram.MECHANISMS.get(found[1]) if found else None
    if found is None or mechanism is None:
        form = "=[name=…,password=…]"
        raise ConfigError(f"{OPTION} is not of the form {f'{form} or '.join(scram.MECHANISMS)}{form}")
    fields = _fields(found[2])
    name, password = fields.get("name", ""), fields.get("password", "")
    salt, salted = _decoded(fields, "salt"), _decoded(fields, "saltedpassword")
    if not name:
        raise ConfigError(f"{OPTION}: name is missing")
    if bool(password) == bool(salted) or (salted and not salt):
        raise ConfigError(f"{OPTION} of user {name} needs a password, or a saltedpassword with its salt")
    iterations = fields.get("iterations", str(scram.LEAST_ITERATIONS))
    if not iterations.isdecimal() or not scram.LEAST_ITERATIONS <= int(iterations) <= MOST_ITERATIONS:
        raise ConfigError(
            f"{OPTION} of user {name}: iterations must be {scram.LEAST_ITERATIONS} to {MOST_ITERATIONS}"
        )
    salt = salt or scram.salt_of(secrets.token_bytes(scram.SALT_BYTES))
    return FirstUser(name, mechanism, int(iterations), salt, password, salted)


def _fields(text: str) -> dict[str, str]:
    fields: dict[str, str] = {}
    position = 0
    while position < len(text):
        found = _FIELD.match(text, position)
        if found is None or found[1] not in _FIELDS or found[1] in fields:
            raise ConfigError(
                f"{OPTION}: field {len(fields) + 1} must be one of {', '.join(sorted(_FIELDS))}, each only once"
            )
        quoted = found[2]
        fields[found[1]] = found[3].strip() if quoted is None else _ESCAPE.sub(r"\1", quoted)
        position = found.end()
    return fields


def _decoded(fields: dict[str, str], name: str) -> bytes:
    try:
        return base64.b64decode(fields.get(name, ""), validate=True)
    except ValueError:
        raise ConfigError(f"{OPTION}: {name} is not base64") from None
