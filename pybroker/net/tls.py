"""TLS between a socket and the frames of a connection: to its users a ``FrameReader`` and a ``SendQueue`` as any other.

What has arrived is decrypted into the reader's own memory. What is to be sent is read, encrypted and sent in pieces, so
a connection holds one piece at most, whatever waits. The handshake is over before (``handshakes``). What client and
broker share is in ``pyclient.protocol.tls``.
"""

from __future__ import annotations

import ssl

from cy.wire.frames import FrameError, FrameReader, ReceiveMemory
from cy.wire.send_queue import SendQueue
from pyclient.protocol.tls import TlsLayer


class TlsReader(FrameReader):
    """Frames of what is decrypted."""

    __slots__ = ("_layer",)
    _layer: TlsLayer

    def __new__(cls, layer: TlsLayer, memory: ReceiveMemory, max_frame: int) -> TlsReader:
        self = super().__new__(cls, memory, max_frame)  # type: ignore[call-arg]  # Cython's takes them
        self._layer = layer
        return self

    def receive(self, fd: int) -> int:
        """As that of a socket."""
        try:
            return self._layer.receive(self, fd)
        except ssl.SSLError as error:
            raise FrameError(f"what came is no TLS that was agreed upon: {error.reason}", b"") from None


class TlsSendQueue(SendQueue):
    """What is encrypted before it is sent. ``unsent`` counts what the socket has not taken, before encryption."""

    __slots__ = ("_layer",)
    _layer: TlsLayer

    def __new__(cls, layer: TlsLayer) -> TlsSendQueue:
        self = super().__new__(cls)
        self._layer = layer
        return self

    def flush(self, fd: int) -> bool:
        """As that of a socket."""
        return self._layer.flush(self, fd)

    def close(self) -> None:
        """Forgets what was not sent, and ends TLS."""
        super().close()
        self._layer.end()
