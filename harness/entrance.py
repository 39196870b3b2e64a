"""How everybody comes to brokers that only listen by SASL_SSL: tests, their bare client, and the processes they start.

What talks to brokers in these tests has no settings for that. So the user stands in the environment, which processes
inherit; where it does not, nobody says who he is.
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
        """The connection to that host, encrypted."""
        return _context(self.ca).wrap_socket(connected, server_hostname=host)

    @property
    def proof(self) -> bytes:
        """What PLAIN sends."""
        return f"\0{self.user}\0{self.password}".encode()


@cache
def _context(ca: str) -> ssl.SSLContext:
    return ssl.create_default_context(cafile=ca)


def current() -> Entrance | None:
    """The one of the environment."""
    text = os.environ.get(VARIABLE)
    return Entrance(*json.loads(text)) if text else None


@contextmanager
def used_by_all(entrance: Entrance) -> Iterator[None]:
    """Everybody comes in like that: this process, and those that it starts meanwhile."""
    os.environ[VARIABLE] = json.dumps(entrance)
    try:
        yield
    finally:
        del os.environ[VARIABLE]
