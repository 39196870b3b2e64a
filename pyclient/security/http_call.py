"""One request by HTTP, to who gives tokens or keys. It blocks, follows no redirect, and reads no endless answer."""

from __future__ import annotations

import http.client
import ssl
from collections.abc import Mapping
from urllib.parse import SplitResult, urlsplit

MOST_BYTES = 1 << 20
"""Of an answer."""


class TooLong(ValueError):
    """The answer has more than ``MOST_BYTES``."""


def parse(url: str) -> SplitResult | None:
    """None where it is not ``http://…`` or ``https://…`` with a host."""
    try:
        parts = urlsplit(url)
        return parts if parts.scheme in ("http", "https") and parts.hostname and parts.port != 0 else None
    except ValueError:
        return None


def ask(
    url: SplitResult, headers: Mapping[str, str], form: str | None = None, *, connect_s: float, read_s: float
) -> tuple[int, bytes]:
    """Status and body of the answer to GET, or with a ``form`` to POST. ``https`` checks the certificate by the
    system's authorities. Raises OSError, where the next attempt may do better, and TooLong.
    """
    host, port = url.hostname or "", url.port
    connection: http.client.HTTPConnection
    if url.scheme == "https":
        connection = http.client.HTTPSConnection(host, port, timeout=connect_s, context=ssl.create_default_context())
    else:
        connection = http.client.HTTPConnection(host, port, timeout=connect_s)
    try:
        connection.connect()
        connection.sock.settimeout(read_s)
        path = (url.path or "/") + (f"?{url.query}" if url.query else "")
        connection.request("GET" if form is None else "POST", path, form, dict(headers))
        answer = connection.getresponse()
        body = answer.read(MOST_BYTES + 1)
    except http.client.HTTPException as error:
        raise OSError(f"it does not answer as HTTP does: {type(error).__name__}") from None
    finally:
        connection.close()
    if len(body) > MOST_BYTES:
        raise TooLong(f"its answer has more than {MOST_BYTES} bytes")
    return answer.status, body
