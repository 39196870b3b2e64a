"""An HTTP server for keys, whose answers the test sets."""

from __future__ import annotations

import json
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any, Final

POLL_S: Final = 0.01


def jwks(*keys: Any) -> bytes:
    return json.dumps({"keys": [key.as_dict(private=False) for key in keys]}).encode()


class KeysServer:
    """``url``: its address; ``status``, ``body``, ``headers``: its answer; ``asked``: the number of requests."""

    def __init__(self, body: bytes) -> None:
        self.status, self.body = 200, body
        self.headers: dict[str, str] = {}
        self.asked = 0
        self.url = ""


@contextmanager
def serving(body: bytes = b"", context: ssl.SSLContext | None = None) -> Iterator[KeysServer]:
    """Starts the server; with a ``context``, it uses TLS."""
    known = KeysServer(body)

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            known.asked += 1
            self.send_response(known.status)
            for name, text in {"Content-Length": str(len(known.body)), **known.headers}.items():
                self.send_header(name, text)
            self.end_headers()
            self.wfile.write(known.body)

        def log_message(self, *_: object) -> None:
            pass

    class Server(HTTPServer):
        def handle_error(self, *_: object) -> None:
            """Ignores a client that closes the connection early."""

    server = Server(("127.0.0.1", 0), Handler)
    if context is not None:
        server.socket = context.wrap_socket(server.socket, server_side=True, do_handshake_on_connect=False)
    known.url = f"http{'' if context is None else 's'}://localhost:{server.server_port}/keys?x=1"
    thread = threading.Thread(target=server.serve_forever, args=(POLL_S,), daemon=True)
    thread.start()
    try:
        yield known
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
