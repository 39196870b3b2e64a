"""A TLS handshake in memory, to test whether two sides can connect."""

from __future__ import annotations

import ssl
from typing import Final

_ROUNDS: Final = 10
"""How many rounds a handshake may take. None needs so many."""


def meet(server: ssl.SSLContext, client: ssl.SSLContext) -> None:
    """Performs a handshake in memory. ``client`` checks no host name. Raises ssl.SSLError."""
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    client_end = client.wrap_bio(to_client, to_server)
    waiting = [client_end, server.wrap_bio(to_server, to_client, server_side=True)]
    for _ in range(_ROUNDS):
        for side in tuple(waiting):
            try:
                side.do_handshake()
            except ssl.SSLWantReadError:
                continue
            waiting.remove(side)
