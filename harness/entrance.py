"""The user as whom tests, their bare client and the processes they start connect to brokers that serve SASL_SSL alone.

Loads and drivers have no settings for a login. So the environment names the user, and processes inherit it. Without it,
nobody logs in.
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
    """A user, and the file with the certificate of the authority that is trusted."""

    user: str
    password: str
    ca: str

    def by_tls(self, connected: socket.socket, host: str) -> ssl.SSLSocket:
        """Returns the connection to that host, encrypted."""
        return _context(self.ca).wrap_socket(connected, server_hostname=host)

    @property
    def proof(self) -> bytes:
        """The bytes that PLAIN sends."""
        return f"\0{self.user}\0{self.password}".encode()


@cache
def _context(ca: str) -> ssl.SSLContext:
    return ssl.create_default_context(cafile=ca)


def current() -> Entrance | None:
    """Returns the user of the environment, None if there is none."""
    text = os.environ.get(VARIABLE)
    return Entrance(*json.loads(text)) if text else None


@contextmanager
def used_by_all(entrance: Entrance) -> Iterator[None]:
    """Lets this process, and those that it starts meanwhile, log in as this user."""
    os.environ[VARIABLE] = json.dumps(entrance)
    try:
        yield
    finally:
        del os.environ[VARIABLE]
