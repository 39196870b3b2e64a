"""The users of ``pybroker.run(sasl="SCRAM-SHA-256", users={"alice": "secret"})``: settings for broker and clients.

It imports nothing of the broker, like ``embedded``, which uses it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

PLAIN: Final = "PLAIN"
SCRAM: Final = ("SCRAM-SHA-256", "SCRAM-SHA-512")
MODULES: Final = {
    PLAIN: "org.apache.kafka.common.security.plain.PlainLoginModule",
    **dict.fromkeys(SCRAM, "org.apache.kafka.common.security.scram.ScramLoginModule"),
}


@dataclass(frozen=True)
class Login:
    """The credentials with which a client logs in."""

    mechanism: str
    user: str
    password: str = field(repr=False)

    def jaas(self) -> str:
        """Returns the credentials in Java's syntax."""
        return f"{MODULES[self.mechanism]} required username={quoted(self.user)} password={quoted(self.password)};"


@dataclass(frozen=True)
class Passwords:
    """The passwords of one mechanism, by user."""

    mechanism: str
    users: Mapping[str, str] = field(repr=False)

    def settings(self, listener: str) -> dict[str, str]:
        """Returns the settings of the broker's listener."""
        found = {"sasl.enabled.mechanisms": self.mechanism}
        if self.mechanism == PLAIN:
            users = " ".join(f"{quoted(f'user_{name}')}={quoted(secret)}" for name, secret in self.users.items())
            found[f"listener.name.{listener.lower()}.plain.sasl.jaas.config"] = f"{MODULES[PLAIN]} required {users};"
        return found

    def first_users(self) -> str:
        """Returns the SCRAM users in the form of ``--add-scram``, one per line."""
        if self.mechanism == PLAIN:
            return ""
        pairs = [f"[name={quoted(name)},password={quoted(secret)}]" for name, secret in self.users.items()]
        return "\n".join(f"{self.mechanism}={pair}" for pair in pairs)

    def login(self, user: str | None) -> Login:
        """Returns the credentials of a user. If there is only one user, ``user`` may be None. Raises ValueError."""
        if user is None and len(self.users) == 1:
            (user,) = self.users
        if user is None or user not in self.users:
            raise ValueError(f"user={user!r} is unknown: the users are {', '.join(self.users)}")
        return Login(self.mechanism, user, self.users[user])


def passwords(sasl: str | None, users: Mapping[str, str] | None) -> Passwords | None:
    """Checks the arguments of ``run``; returns None without them. Raises ValueError, and TypeError for values that are
    not strings.
    """
    if sasl is None and users is None:
        return None
    if not sasl or not users:
        raise ValueError("sasl and users go together: run(sasl='SCRAM-SHA-256', users={'alice': 'secret'})")
    mechanism = str(sasl).upper()
    if mechanism not in MODULES:
        raise ValueError(f"sasl={sasl!r} is not one of {', '.join(MODULES)}")
    if not isinstance(users, Mapping) or not all(isinstance(text, str) for pair in users.items() for text in pair):
        raise TypeError("users are passwords by name, both as str: users={'alice': 'secret'}")
    if any("\n" in text or not text for pair in users.items() for text in pair):
        raise ValueError("a name or password in users is empty, or has a line break")
    return Passwords(mechanism, dict(users))


def quoted(text: str) -> str:
    """Returns a text with quotes, as in Java's JAAS and in ``--add-scram``."""
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'
