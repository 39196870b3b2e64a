"""The sockets of kazoo: how they are opened, by TLS where that is set, and how far the way to a server goes."""

from __future__ import annotations

import asyncio
import os
import ssl
from typing import Any

from kazoo.handlers.threading import SequentialThreadingHandler

LOOK_S = 1.0


class Handler(SequentialThreadingHandler):  # type: ignore[misc]
    """Gives up on a server that does not answer in time to try the others, or it again, within the session.

    A server that is just starting takes connections and may leave the first request of one unanswered for good. kazoo
    would wait for that answer as long as the session lasts.

    With ``tls`` it wraps connections itself: kazoo's own way checks no host names by default, and knows PEM only.
    """

    def __init__(self, connect_s: float, tls: ssl.SSLContext | None = None) -> None:
        super().__init__()
        self._connect_s = connect_s
        self._tls = tls

    def create_connection(self, *arguments: Any, timeout: float, hostname: str, **options: Any) -> Any:
        timeout = min(timeout, self._connect_s)
        connected = super().create_connection(*arguments, timeout=timeout, hostname=hostname, **options)
        return connected if self._tls is None else self._tls.wrap_socket(connected, server_hostname=hostname)

    def select(self, reading: list[Any], writing: list[Any], failing: list[Any], timeout: float) -> Any:
        """Waits for one socket: the rest of a message is awaited, or an answer to the session's greeting."""
        if len(reading) + len(writing) == 1:
            timeout = min(timeout, self._connect_s)
        decrypted = [each for each in reading if isinstance(each, ssl.SSLSocket) and each.pending()]
        if not decrypted:
            return super().select(reading, writing, failing, timeout)
        others = [each for each in reading if each not in decrypted]  # of these, select does not know
        found, *more = super().select(others, writing, failing, 0)
        return decrypted + found, *more


async def way_to(host: str, port: int, tls: ssl.SSLContext | None) -> str:
    """In words, how far a connection to that server comes."""
    try:
        async with asyncio.timeout(LOOK_S):
            _, writer = await asyncio.open_connection(host, port, ssl=tls)
        writer.close()
        found = "listens, but serves no session"
    except TimeoutError:
        found = "cannot be reached"
    except ssl.SSLError as error:
        why = getattr(error, "verify_message", "") or error.reason or str(error)
        found = f"listens, but there is no TLS with it: {why} (zookeeper.ssl.*)"
    except OSError as error:
        found = os.strerror(error.errno) if error.errno and error.errno > 0 else error.strerror or str(error)
        if not found:
            found = "hangs up: is that its secureClientPort (zookeeper.ssl.client.enable)?"
    return f"{host}:{port} {found}"
