"""Manages delegation tokens through the tool of Kafka's AdminClient."""

from __future__ import annotations

import re
from typing import NamedTuple

from conformance.drivers.logins import Login
from conformance.security.java import JavaAdministrator

MECHANISMS = ("SCRAM-SHA-256", "SCRAM-SHA-512")
TOOL = "DelegationTokenCommand"
#: A row of the tool's output: id, HMAC, owner, requester and, if there are any, renewers.
ROW = re.compile(r"^(\S{22,})\s+(\S+=*)\s+User:(\S+)\s+User:(\S+)\s+(.*)$", re.MULTILINE)


class Token(NamedTuple):
    """A token as a row of the output."""

    name: str
    hmac: str
    owner: str
    requester: str
    rest: str

    def login(self, owner: Login, mechanism: str) -> Login:
        """Makes the login of a token's holder."""
        return owner._replace(user=self.name, password=self.hmac, mechanism=mechanism, is_token=True)


class Tokens:
    """Manages delegation tokens as one user, through the tool of Kafka's AdminClient."""

    def __init__(self, by: JavaAdministrator, user: Login) -> None:
        self._by = by
        self._user = user

    def create(self) -> Token:
        told = self._tool("--create", "--max-life-time-period", "-1")
        assert ROW.findall(told), told
        return Token(*ROW.findall(told)[0])

    def describe(self) -> dict[str, Token]:
        owner = ("--owner-principal", self._user.principal)
        return {row[0]: Token(*row) for row in ROW.findall(self._tool("--describe", *owner))}

    def renew(self, token: Token) -> str:
        return self._tool("--renew", "--hmac", token.hmac, "--renew-time-period", "-1")

    def expire(self, token: Token) -> str:
        return self._tool("--expire", "--hmac", token.hmac, "--expiry-time-period", "-1")

    def _tool(self, *words: str) -> str:
        return self._by.tool(self._user, TOOL, *words)
