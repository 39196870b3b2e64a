"""The user as which tests and their processes connect to brokers that only serve SASL_SSL.

Loads and drivers have no settings for a login. So the environment names the user, and processes inherit it. If the
environment names none, they do not log in.
"""

from __future__ import annotations

import json
import os
import socket
import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import Final, NamedTuple

VARIABLE: Final = "CONFORMANCE_ENTRANCE"
MECHANISM: Final = "PLAIN"


class Entrance(NamedTuple):
    """A user, and the file with the certificate of the trusted authority; without it, the connection has no TLS."""

    user: str
    password: str
    ca: str = ""

    def by_tls(self, connected: socket.socket, host: str) -> ssl.SSLSocket:
        """Returns the encrypted connection to that host."""
        return _context(self.ca).wrap_socket(connected, server_hostname=host)

    def over(self, connected: socket.socket, host: str) -> socket.socket:
        """Returns the connection to that host over which the user logs in."""
        return self.by_tls(connected, host) if self.ca else connected

    @property
    def proof(self) -> bytes:
        """Returns the bytes that PLAIN sends."""
        return f"\0{self.user}\0{self.password}".encode()


@cache
def _context(ca: str) -> ssl.SSLContext:
    return ssl.create_default_context(cafile=ca)


def current() -> Entrance | None:
    """Returns the user of the environment, or None."""
    text = os.environ.get(VARIABLE)
    return Entrance(*json.loads(text)) if text else None


@contextmanager
def used_by_all(entrance: Entrance) -> Iterator[None]:
    """Lets this process, and the ones that it starts meanwhile, log in as this user."""
    os.environ[VARIABLE] = json.dumps(entrance)
    try:
        yield
    finally:
        del os.environ[VARIABLE]
