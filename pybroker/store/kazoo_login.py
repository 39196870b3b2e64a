"""Logs a kazoo connection in: by SASL's DIGEST-MD5, or by ZooKeeper's scheme ``digest``.

kazoo would need another package for SASL, reports the connection before the login, and treats a network failure during
the login as a wrong password. So this module logs in itself, between kazoo's greeting and its first request.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable
from typing import Final

from kazoo.client import KazooClient
from kazoo.exceptions import AuthFailedError
from kazoo.protocol.connection import AUTH_XID
from kazoo.protocol.serialization import SASL, Auth

from pybroker.config.zookeeper_login import Login
from pybroker.security.sasl.digest_md5 import DigestError, DigestMd5

_URI: Final = "zookeeper/zk-sasl-md5"
"""The URI of ZooKeeper's servers, whatever their host."""
_NONCE_SIZE: Final = 24


class KazooLogin:
    """Logs in each connection of a client."""

    def __init__(
        self, client: KazooClient, login: Login, on_done: Callable[[], None], on_refused: Callable[[str], None]
    ) -> None:
        """``on_done`` and ``on_refused`` are called on kazoo's thread, which ends after the latter; it gets the reason.
        """
        self._connection = client._connection
        self._login = login
        self._on_done = on_done
        self._on_refused = on_refused
        self._connection.sasl_options = {}
        self._connection._authenticate_with_sasl = self._authenticate

    def _authenticate(self, host: str, timeout: float) -> None:
        """Called by kazoo when it has a session."""
        try:
            if self._login.is_sasl:
                self._by_sasl(timeout)
            else:
                credentials = f"{self._login.user}:{self._login.password}"
                self._connection._invoke(timeout, Auth(0, "digest", credentials), xid=AUTH_XID)
        except (AuthFailedError, DigestError) as error:
            why = str(error) or "it does not accept the user or the password"
            refusal = f"{host} does not accept the login of {self._login.user} ({self._login.source}): {why}"
            self._on_refused(refusal)
            raise AuthFailedError(refusal) from error
        self._on_done()

    def _by_sasl(self, timeout: float) -> None:
        """Logs in. Raises AuthFailedError, DigestError, and kazoo's errors if the connection ends."""
        digest = DigestMd5(self._login.user, self._login.password, _URI, secrets.token_urlsafe(_NONCE_SIZE))
        challenge = self._exchange(1, b"", timeout)
        if not challenge:
            raise DigestError("it has no passwords, because its JAAS section Server is missing")
        digest.check(self._exchange(2, digest.answer(challenge), timeout))

    def _exchange(self, xid: int, message: bytes, timeout: float) -> bytes:
        self._connection._submit(SASL(message), timeout, xid)
        header, reply, offset = self._connection._read_header(timeout)
        if header.err:
            raise AuthFailedError
        return SASL.deserialize(reply, offset)[0] or b""
