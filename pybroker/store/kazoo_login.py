"""Logs a kazoo connection in: by SASL's DIGEST-MD5 or GSSAPI (Kerberos), or by ZooKeeper's scheme ``digest``.

kazoo would need another package for SASL. It also reports the connection before the login, and treats a network failure
during the login as a wrong password. So this module logs in itself, between kazoo's greeting and its first request.
"""

from __future__ import annotations

import logging
import secrets
from collections.abc import Callable
from typing import Final, NoReturn

from kazoo.client import KazooClient
from kazoo.exceptions import AuthFailedError, ConnectionDropped
from kazoo.protocol.connection import AUTH_XID
from kazoo.protocol.serialization import SASL, Auth

from pybroker.config.zookeeper_login import Login, TicketLogin
from pybroker.security.sasl.digest_md5 import DigestError, DigestMd5
from pyclient.protocol import gssapi
from pyclient.protocol.sasl import Away, SaslError
from pyclient.security import kerberos
from pyclient.security.kerberos import KerberosError
from pyclient.security.tickets import Initiator

_URI: Final = "zookeeper/zk-sasl-md5"
"""The URI of every ZooKeeper server. It does not depend on the host."""
_NONCE_SIZE: Final = 24
_NOT_ACCEPTED: Final = {
    Login: "it does not accept the user or the password",
    TicketLogin: "it does not accept the ticket; its log has the reason",
}

logger = logging.getLogger(__name__)


class KazooLogin:
    """Logs in each connection of a client."""

    def __init__(
        self,
        client: KazooClient,
        login: Login | TicketLogin,
        on_done: Callable[[], None],
        on_refused: Callable[[str], None],
    ) -> None:
        """``on_done()`` and ``on_refused(reason)`` are called on kazoo's thread, which ends after a refusal.
        """
        self._connection = client._connection
        self._login = login
        self._on_done = on_done
        self._on_refused = on_refused
        self._told = ""
        """The error that was logged last; empty after a login."""
        self._connection.sasl_options = {}
        self._connection._authenticate_with_sasl = self._authenticate

    def _authenticate(self, host: str, timeout: float) -> None:
        """Authenticates the connection. Kazoo calls this when it has a session."""
        login = self._login
        try:
            if isinstance(login, TicketLogin):
                self._by_ticket(login, host, timeout)
            elif login.is_sasl:
                self._by_sasl(login, timeout)
            else:
                credentials = f"{login.user}:{login.password}"
                self._connection._invoke(timeout, Auth(0, "digest", credentials), xid=AUTH_XID)
        except KerberosError as error:
            why = f"no login at {host} of {login.user} ({login.source}): {error}"
            if error.lasts:
                self._refuse(why, error)
            if why != self._told:
                self._told = why
                logger.warning("%s", why)
            raise ConnectionDropped(why) from error
        except (AuthFailedError, DigestError, SaslError) as error:
            why = str(error) or _NOT_ACCEPTED[type(login)]
            self._refuse(f"{host} does not accept the login of {login.user} ({login.source}): {why}", error)
        self._told = ""
        self._on_done()

    def _refuse(self, why: str, error: Exception) -> NoReturn:
        self._on_refused(why)
        raise AuthFailedError(why) from error

    def _by_ticket(self, login: TicketLogin, host: str, timeout: float) -> None:
        """Logs in. Raises AuthFailedError, KerberosError, SaslError, and kazoo's errors if the connection ends."""
        exchange = gssapi.client(Initiator(kerberos.library(), f"{login.service}@{host}", login.tickets))
        step, xid = next(exchange), 0
        while True:
            if isinstance(step, Away):
                answer = step.run()
            else:
                xid += 1
                answer = self._exchange(xid, step, timeout)
            try:
                step = exchange.send(answer)
            except StopIteration:
                return

    def _by_sasl(self, login: Login, timeout: float) -> None:
        """Logs in. Raises AuthFailedError, DigestError, and kazoo's errors if the connection ends."""
        digest = DigestMd5(login.user, login.password, _URI, secrets.token_urlsafe(_NONCE_SIZE))
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
