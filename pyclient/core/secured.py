"""The client's TLS: its context, by the client's settings, and the handshake of a connection."""

from __future__ import annotations

import asyncio
import socket
import ssl
from typing import Final

from pyclient.config import Config
from pyclient.config.security import SSL
from pyclient.errors import ConfigError, ConnectionFailed
from pyclient.protocol.tls import Tls, TlsPipe
from pyclient.security import TlsConfigError, client_context

PHASE: Final = "TLS handshake"


class Secured:
    """How the connections of one client are encrypted, which they share."""

    def __init__(self, context: ssl.SSLContext) -> None:
        self._tls = Tls(context)

    async def shake(
        self, loop: asyncio.AbstractEventLoop, sock: socket.socket, host: str, port: int, timeout: float
    ) -> TlsPipe:
        """Agrees on keys with the server at ``host`` within ``timeout`` seconds. Raises ConnectionFailed, and closes
        the socket then.
        """
        name = f"{host}:{port}"
        try:
            pipe = TlsPipe(self._tls, sock, host)
            async with asyncio.timeout(timeout):
                await pipe.handshake(loop)
        except TimeoutError:
            sock.close()
            raise ConnectionFailed(name, PHASE, "no answer in time") from None
        except (OSError, ValueError) as error:  # a host that cannot be in a certificate is a ValueError
            sock.close()
            raise ConnectionFailed(name, PHASE, error) from error
        except BaseException:
            sock.close()
            raise
        return pipe


def secured(config: Config) -> Secured | None:
    """As security.protocol and the keys ssl.* say; None for PLAINTEXT. Raises ConfigError."""
    if config.security_protocol == "PLAINTEXT":
        return None
    try:
        return Secured(client_context({key.name: config[key.name] for key in SSL}))
    except TlsConfigError as error:
        raise ConfigError(str(error)) from None
