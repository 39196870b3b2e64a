"""How a connection of kazoo says who this broker is: by SASL's DIGEST-MD5, or by ZooKeeper's scheme ``digest``.

kazoo needs a further package for SASL, tells of the connection before the login, and takes a network that breaks
meanwhile for a wrong password. So the login is made here, between its greeting and its first request.
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
from pybroker.security.digest_md5 import DigestError, DigestMd5

_URI: Final = "zookeeper/zk-sasl-md5"
"""Which ZooKeeper's servers have, whatever their host."""
_NONCE_SIZE: Final = 24


class KazooLogin:
    """Logs each connection of a client in."""

    def __init__(
        self, client: KazooClient, login: Login, on_done: Callable[[], None], on_refused: Callable[[str], None]
    ) -> None:
        """``on_done``, ``on_refused``: called on kazoo's thread; after the latter, with the reason, it ends."""
        self._connection = client._connection
        self._login = login
        self._on_done = on_done
        self._on_refused = on_refused
        self._connection.sasl_options = {}
        self._connection._authenticate_with_sasl = self._authenticate

    def _authenticate(self, host: str, timeout: float) -> None:
        """What kazoo calls when it has a session."""
        try:
            if self._login.is_sasl:
                self._by_sasl(timeout)
            else:
                credentials = f"{self._login.user}:{self._login.password}"
                self._connection._invoke(timeout, Auth(0, "digest", credentials), xid=AUTH_XID)
        except (AuthFailedError, DigestError) as error:
            why = str(error) or "it accepts neither user nor password"
            refusal = f"{host} does not let in {self._login.user} ({self._login.source}): {why}"
            self._on_refused(refusal)
            raise AuthFailedError(refusal) from error
        self._on_done()

    def _by_sasl(self, timeout: float) -> None:
        """Raises AuthFailedError, DigestError, and what kazoo raises where the connection ends."""
        digest = DigestMd5(self._login.user, self._login.password, _URI, secrets.token_urlsafe(_NONCE_SIZE))
        challenge = self._exchange(1, b"", timeout)
        if not challenge:
            raise DigestError("it knows no passwords, its JAAS section Server is missing")
        digest.check(self._exchange(2, digest.answer(challenge), timeout))

    def _exchange(self, xid: int, message: bytes, timeout: float) -> bytes:
        self._connection._submit(SASL(message), timeout, xid)
        header, reply, offset = self._connection._read_header(timeout)
        if header.err:
            raise AuthFailedError
        return SASL.deserialize(reply, offset)[0] or b""
