"""TLS between a socket and the frames of a connection: to its users a ``FrameReader`` and a ``SendQueue`` as any other.

What has arrived is decrypted into the reader's own memory. What is to be sent is read, encrypted and sent in pieces, so
a connection holds one piece at most, whatever waits. The handshake is over before (``handshakes``).
"""

from __future__ import annotations

import socket
import ssl
from contextlib import suppress
from typing import Final

from cy.wire.frames import AGAIN, FrameError, FrameReader, ReceiveMemory
from cy.wire.send_queue import SendQueue

AT_ONCE: Final = 64 * 1024
"""Bytes of one receive, and of one piece to be sent."""
TURN: Final = 4 * 1024 * 1024
"""Bytes that one connection may send before others do, as in ``SendQueue``."""
MOST_UNASKED: Final = 16 * 1024
"""Bytes that TLS itself may want to send, as answers to updates of keys."""
FLAGS: Final = socket.MSG_DONTWAIT | getattr(socket, "MSG_NOSIGNAL", 0)


class Tls:
    """One connection's end of TLS, on a connected socket that does not block.

    buffer: where all connections of a loop receive.
    """

    __slots__ = ("_buffer", "_incoming", "_rest", "_sock", "object", "outgoing")

    def __init__(self, context: ssl.SSLContext, sock: socket.socket, buffer: bytearray) -> None:
        self._incoming = ssl.MemoryBIO()
        self.outgoing = ssl.MemoryBIO()
        self.object = context.wrap_bio(self._incoming, self.outgoing, server_side=True)
        self._sock = sock
        self._buffer = buffer
        self._rest = memoryview(b"")

    def receive(self) -> int:
        """Receives once, for OpenSSL: the number of bytes that wait for it, 0 at the end, AGAIN. Raises OSError."""
        waiting = self._incoming.pending
        if waiting >= AT_ONCE:  # there was no memory for what they hold
            return waiting
        try:
            count = self._sock.recv_into(self._buffer, 0, FLAGS)
        except (BlockingIOError, InterruptedError):
            return waiting or AGAIN
        self._incoming.write(memoryview(self._buffer)[:count])
        return count and waiting + count

    def read(self, size: int, view: memoryview) -> int:
        """Decrypts into the view: the number of bytes, 0 at the end, AGAIN. Raises SSLError."""
        try:
            return int(self.object.read(size, view))  # with a buffer it counts
        except ssl.SSLWantReadError:
            return AGAIN
        except ssl.SSLZeroReturnError:
            return 0

    def push(self) -> bool:
        """Sends what was encrypted; True when nothing is left. Raises OSError."""
        if not self._rest:
            if not self.outgoing.pending:
                return True
            self._rest = memoryview(self.outgoing.read())
        try:
            count = self._sock.send(self._rest, FLAGS)
        except (BlockingIOError, InterruptedError):
            return False
        self._rest = self._rest[count:]
        return not self._rest

    def end(self) -> None:
        """Tells the peer that nothing more comes, as far as its socket takes it."""
        with suppress(OSError, ValueError):  # it has gone
            if self.push():
                with suppress(ssl.SSLError):  # it has not said so itself yet
                    self.object.unwrap()
                self.push()


class TlsReader(FrameReader):
    """Frames of what is decrypted."""

    __slots__ = ("_tls",)
    _tls: Tls

    def __new__(cls, tls: Tls, memory: ReceiveMemory, max_frame: int) -> TlsReader:
        self = super().__new__(cls, memory, max_frame)  # type: ignore[call-arg]  # Cython's takes them
        self._tls = tls
        return self

    def receive(self, fd: int) -> int:
        """As that of a socket."""
        count = self._tls.receive()
        if count <= 0:
            return count
        try:
            count = self.receive_by(self._tls.read)
        except ssl.SSLError as error:
            raise FrameError(f"what came is no TLS that was agreed upon: {error.reason}", b"") from None
        if self._tls.outgoing.pending and not self._tls.push() and self._tls.outgoing.pending > MOST_UNASKED:
            raise FrameError("it has TLS change its keys again and again", b"")
        return count


class TlsSendQueue(SendQueue):
    """What is encrypted before it is sent. ``unsent`` counts what the socket has not taken, before encryption."""

    __slots__ = ("_piece", "_tls")
    _tls: Tls
    _piece: int

    def __new__(cls, tls: Tls) -> TlsSendQueue:
        self = super().__new__(cls)
        self._tls, self._piece = tls, 0
        return self

    def flush(self, fd: int) -> bool:
        """As that of a socket."""
        tls, turn = self._tls, 0
        while tls.push():
            done = self.drop(self._piece)
            self._piece = 0
            if done or turn >= TURN:
                return done
            piece = self.peek(AT_ONCE)
            if piece:
                tls.object.write(piece)
            self._piece = len(piece)
            turn += len(piece)
        return False

    def close(self) -> None:
        """Forgets what was not sent, and ends TLS."""
        super().close()
        self._tls.end()
