"""The sockets of kazoo: opens them, with TLS if it is set, and tests how far a connection to a server gets."""

from __future__ import annotations

import asyncio
import os
import ssl
from typing import Any

from kazoo.handlers.threading import SequentialThreadingHandler

LOOK_S = 1.0


class Handler(SequentialThreadingHandler):  # type: ignore[misc]
    """Gives up on a server that does not answer in time. So kazoo tries the other servers, or the same one again, while
    the session still lives.

    A server that is just starting accepts connections and may never answer the first request on one. kazoo would wait
    for that answer as long as the session lasts. With ``tls`` this handler wraps connections itself: kazoo checks no
    host names by default, and supports PEM only.
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
        """Like ``select``, with a limit for a single socket: it waits for a message's rest, or the greeting's answer.
        """
        if len(reading) + len(writing) == 1:
            timeout = min(timeout, self._connect_s)
        decrypted = [each for each in reading if isinstance(each, ssl.SSLSocket) and each.pending()]
        if not decrypted:
            return super().select(reading, writing, failing, timeout)
        others = [each for each in reading if each not in decrypted]  # select does not see their decrypted data
        found, *more = super().select(others, writing, failing, 0)
        return decrypted + found, *more


async def way_to(host: str, port: int, tls: ssl.SSLContext | None) -> str:
    """Returns a text that says how far a connection to the server gets."""
    try:
        async with asyncio.timeout(LOOK_S):
            _, writer = await asyncio.open_connection(host, port, ssl=tls)
        writer.close()
        found = "listens, but serves no session"
    except TimeoutError:
        found = "cannot be reached"
    except ssl.SSLError as error:
        why = getattr(error, "verify_message", "") or error.reason or str(error)
        found = f"listens, but the TLS handshake fails: {why} (zookeeper.ssl.*)"
    except OSError as error:
        found = os.strerror(error.errno) if error.errno and error.errno > 0 else error.strerror or str(error)
        if not found:
            found = "closes the connection: is that its secureClientPort (zookeeper.ssl.client.enable)?"
    return f"{host}:{port} {found}"
