"""TLS between a socket and the frames of a connection, with the interfaces of ``FrameReader`` and ``SendQueue``.

Received data are decrypted into the reader's own memory. Data to send are read, encrypted and sent in pieces, so a
connection has at most one piece in memory. The handshake happens before (``handshakes``). ``pyclient.protocol.tls`` has
the code that client and broker share.
"""

from __future__ import annotations

import ssl

from cy.wire.frames import FrameError, FrameReader, ReceiveMemory
from cy.wire.send_queue import SendQueue
from pyclient.protocol.tls import TlsLayer


class TlsReader(FrameReader):
    """Reads the frames of decrypted data."""

    __slots__ = ("_layer",)
    _layer: TlsLayer

    def __new__(cls, layer: TlsLayer, memory: ReceiveMemory, max_frame: int) -> TlsReader:
        self = super().__new__(cls, memory, max_frame)  # type: ignore[call-arg]  # Cython's takes them
        self._layer = layer
        return self

    def receive(self, fd: int) -> int:
        """Receives like a plain socket's reader."""
        try:
            return self._layer.receive(self, fd)
        except ssl.SSLError as error:
            raise FrameError(f"the data are not those of the agreed TLS session: {error.reason}", b"") from None


class TlsSendQueue(SendQueue):
    """Encrypts data before it sends them. ``unsent`` counts bytes before encryption that the socket has not taken."""

    __slots__ = ("_layer",)
    _layer: TlsLayer

    def __new__(cls, layer: TlsLayer) -> TlsSendQueue:
        self = super().__new__(cls)
        self._layer = layer
        return self

    def flush(self, fd: int) -> bool:
        """Sends like a plain socket's queue."""
        return self._layer.flush(self, fd)

    def close(self) -> None:
        """Drops unsent data, and ends TLS."""
        super().close()
        self._layer.end()
