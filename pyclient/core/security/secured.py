"""The client's TLS: its context from the client's settings, and the handshake of a connection.

It also warns about settings for TLS and SASL that have no effect, because security.protocol is not set.
"""

from __future__ import annotations

import asyncio
import logging
import socket
import ssl
from typing import Final

from pyclient.config import Config
from pyclient.config.security import BY_TLS, PROTOCOL, SASL, SSL
from pyclient.core.reports.last_resort import URGENT
from pyclient.core.security import tls_trouble
from pyclient.errors import ConfigError, ConnectionFailed, TlsRefused
from pyclient.protocol.tls import Tls, TlsPipe
from pyclient.security import TlsConfigError, client_context

LOG: Final = logging.getLogger("pyclient")
PHASE: Final = "TLS handshake"


class Secured:
    """The TLS that all connections of a client share. ``has_key`` tells that the client can show a certificate."""

    def __init__(self, context: ssl.SSLContext, has_key: bool, protocol: str) -> None:
        self.context = context
        self._tls = Tls(context)
        self.has_key = has_key
        self.protocol = protocol
        """The client's ``security.protocol``."""

    async def shake(
        self, loop: asyncio.AbstractEventLoop, sock: socket.socket, host: str, port: int, timeout: float
    ) -> TlsPipe:
        """Does the handshake with the server at ``host`` within ``timeout`` seconds. If that fails, closes the socket
        and raises ConnectionFailed.
        """
        name, pipe = f"{host}:{port}", None
        try:
            pipe = TlsPipe(self._tls, sock, host)
            async with asyncio.timeout(timeout):
                await pipe.handshake(loop)
        except TimeoutError:
            sock.close()
            advice = tls_trouble.IS_PROTOCOL_RIGHT.format(self.protocol)
            raise ConnectionFailed(name, PHASE, "no answer in time", advice) from None
        except (OSError, ValueError) as error:  # a host that cannot be in a certificate is a ValueError
            sock.close()
            raise self.failure(error, host, port, pipe) from error
        except BaseException:
            sock.close()
            raise
        return pipe

    def failure(self, error: Exception, host: str, port: int, pipe: TlsPipe | None) -> ConnectionFailed:
        """Returns the error to raise if a handshake fails, or the first answer after it."""
        shown = {} if pipe is None else tls_trouble.certificate_of(pipe.ssl)
        trouble = tls_trouble.of_tls(error, host, shown, self.has_key, self.protocol)
        if trouble is None:
            return ConnectionFailed(f"{host}:{port}", PHASE, error)
        kind = TlsRefused if trouble.lasts else ConnectionFailed
        return kind(f"{host}:{port}", PHASE, trouble.why, trouble.advice)


def secured(config: Config) -> Secured | None:
    """Returns the TLS that security.protocol and the keys ssl.* configure, or None. Raises ConfigError."""
    if PROTOCOL.name not in config.given:
        _warn_of_idle(config)
    if config.security_protocol not in BY_TLS:
        return None
    try:
        settings = {key.name: config[key.name] for key in SSL}
        has_key = any(settings[name] for name in ("ssl.keystore.location", "ssl.keystore.key"))
        return Secured(client_context(settings), has_key, config.security_protocol)
    except TlsConfigError as error:
        raise ConfigError(str(error)) from None


def _warn_of_idle(config: Config) -> None:
    """Warns about settings that have no effect without a security.protocol."""
    for keys, why, right in ((SSL, "nothing is encrypted", "SSL"), (SASL, "no name is sent", "SASL_SSL")):
        if idle := [key.name for key in keys if key.name in config.given]:
            text = "%s has no effect, %s: set security.protocol=%s (or PLAINTEXT, to confirm)"
            LOG.warning(text, ", ".join(idle), why, right, extra={URGENT: True})
