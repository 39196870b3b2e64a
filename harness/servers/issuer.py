"""An issuer of OAUTHBEARER tokens: a key, and an endpoint that grants tokens for client credentials."""

from __future__ import annotations

import base64
import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from joserfc import jwt
from joserfc.jwk import RSAKey

from harness.servers.guarded import AUDIENCE, ISSUER

LIFETIME_S = 3600


class Issuer:
    """Signs tokens. ``url`` is its endpoint."""

    def __init__(self) -> None:
        self._key = RSAKey.generate_key(2048, {"kid": "one"})
        self.url = ""

    def write_keys(self, path: Path) -> Path:
        """Writes the public key in the form that brokers read (JWKS)."""
        path.write_text(json.dumps({"keys": [self._key.as_dict(private=False)]}))
        return path

    def token(self, user: str) -> str:
        """Returns a token of that user."""
        now_s = int(time.time())
        claims = {"sub": user, "iss": ISSUER, "aud": AUDIENCE, "iat": now_s, "exp": now_s + LIFETIME_S}
        return str(jwt.encode({"alg": "RS256", "kid": "one"}, claims, self._key))


@contextmanager
def serving() -> Iterator[Issuer]:
    """Runs an issuer whose endpoint gives each client a token for the user that is named like its client id."""
    issuer = Issuer()

    class Endpoint(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["Content-Length"]))
            credentials = base64.b64decode(self.headers["Authorization"].removeprefix("Basic "))
            token = issuer.token(credentials.decode().partition(":")[0])
            reply = json.dumps({"access_token": token, "expires_in": LIFETIME_S}).encode()
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(reply)))
            self.end_headers()
            self.wfile.write(reply)

        def log_message(self, format: str, *arguments: object) -> None:
            """Logs nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Endpoint) as server:
        issuer.url = f"http://127.0.0.1:{server.server_port}/token"
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield issuer
        finally:
            server.shutdown()
            thread.join()
