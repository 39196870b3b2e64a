"""One HTTP request for tokens or keys. It blocks and follows no redirect. The size of the answer and the time for it
are limited.
"""

from __future__ import annotations

import http.client
import io
import ssl
import time
from collections.abc import Callable, Mapping
from socket import socket
from typing import Any
from urllib.parse import SplitResult, urlsplit

MOST_BYTES = 1 << 20
"""The most bytes of an answer."""


class TooLong(ValueError):
    """The answer has more than ``MOST_BYTES``."""


def parse(url: str) -> SplitResult | None:
    """Returns the parts of the URL; None if it is not ``http://…`` or ``https://…`` with a host."""
    try:
        parts = urlsplit(url)
        return parts if parts.scheme in ("http", "https") and parts.hostname and parts.port != 0 else None
    except ValueError:
        return None


class _InTime:
    """A connected socket for http.client, whose answer must be complete by ``due_s``."""

    def __init__(self, sock: socket, due_s: float, time_s: Callable[[], float]) -> None:
        self._sock = sock
        self._due_s = due_s
        self._time_s = time_s

    def sendall(self, data: Any) -> None:
        self.limit()
        self._sock.sendall(data)

    def makefile(self, _mode: str) -> io.BufferedReader:
        """Returns the reader of the answer."""
        return io.BufferedReader(_Answer(self._sock.makefile("rb", buffering=0), self.limit))

    def close(self) -> None:
        self._sock.close()

    def limit(self) -> None:
        """Limits the next step to the remaining time. Raises TimeoutError if there is none."""
        left_s = self._due_s - self._time_s()
        if left_s <= 0:
            raise TimeoutError("the answer was not complete in time")
        self._sock.settimeout(left_s)


class _Answer(io.RawIOBase):
    """Reads from a socket, each time after ``limit``."""

    def __init__(self, received: io.RawIOBase, limit: Callable[[], None]) -> None:
        self._received = received
        self._limit = limit

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int | None:
        self._limit()
        return self._received.readinto(buffer)

    def close(self) -> None:
        self._received.close()
        super().close()


def ask(
    url: SplitResult,
    headers: Mapping[str, str],
    form: str | None = None,
    *,
    connect_s: float,
    read_s: float,
    time_s: Callable[[], float] = time.monotonic,
) -> tuple[int, bytes]:
    """Returns status and body of the answer to GET, or with a ``form`` to POST. ``read_s`` limits the whole answer.
    ``https`` checks the certificate with the system's authorities. Raises OSError if another attempt may succeed, and
    TooLong.
    """
    host, port = url.hostname or "", url.port
    connection: http.client.HTTPConnection
    if url.scheme == "https":
        connection = http.client.HTTPSConnection(host, port, timeout=connect_s, context=ssl.create_default_context())
    else:
        connection = http.client.HTTPConnection(host, port, timeout=connect_s)
    try:
        connection.connect()
        connection.sock = _InTime(connection.sock, time_s() + read_s, time_s)
        path = (url.path or "/") + (f"?{url.query}" if url.query else "")
        connection.request("GET" if form is None else "POST", path, form, dict(headers))
        answer = connection.getresponse()
        body = answer.read(MOST_BYTES + 1)
    except http.client.HTTPException as error:
        raise OSError(f"its answer is not HTTP: {type(error).__name__}") from None
    finally:
        connection.close()
    if len(body) > MOST_BYTES:
        raise TooLong(f"its answer has more than {MOST_BYTES} bytes")
    return answer.status, body
