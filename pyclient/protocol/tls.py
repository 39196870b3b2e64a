"""TLS between frames and a socket: decrypts received bytes, encrypts sent ones. A stream uses it in place of the socket
(``pyclient.protocol.stream``).
"""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Final

from cy.wire.frames import AGAIN, FrameReader
from cy.wire.send_queue import SendQueue
from pyclient.protocol.readiness import readable, writable

MEMORY: Final = 128 * 1024
"""The most bytes of one read from the socket. Twice as many decrypted bytes fit into the memory that all connections
receive into.
"""
RECORD_BYTES: Final = 16 * 1024
"""Bytes that OpenSSL gets at a time to encrypt, because its memory for them never shrinks."""
WHOLE_RECORD: Final = 5 + RECORD_BYTES + 256
"""Bytes that OpenSSL gets at a time to decrypt: the largest record, with its header."""
LEAST: Final = 4 * 1024
"""Bytes of a read from the socket at the limit of the memory for incomplete frames."""
LITTLE: Final = 2 * RECORD_BYTES
"""Bytes of a read from the socket after one that yielded little data."""
PIECE: Final = 64 * 1024
"""Bytes that are encrypted ahead of the socket."""
TURN: Final = 4 << 20
"""Bytes that one connection may send before others do."""
MOST_UNASKED: Final = 16 * 1024
"""Bytes that TLS itself may have waiting, such as answers to key updates."""
MOST_WITHOUT_DATA: Final = 64 * 1024
"""Encrypted bytes that may come without data, such as key updates."""
KEY_UPDATES: Final = "the peer requests key updates again and again"
OVERHEAD: Final = 32
"""Encrypted bytes that may come for each byte of data."""
_NOTHING: Final = memoryview(b"")
"""Used for an empty rest, because a slice would keep its memory."""
_FLAGS: Final = getattr(socket, "MSG_NOSIGNAL", 0)


class Tls:
    """What the connections of one loop share: the context, and the memory that receives encrypted bytes."""

    def __init__(self, context: ssl.SSLContext) -> None:
        self.context = context
        self.memory = memoryview(bytearray(MEMORY))


class TlsLayer:
    """One end of TLS on a connected, non-blocking socket, which its creator owns."""

    __slots__ = (
        *("_barren", "_credited", "_left", "_memory", "_most", "_outgoing", "_piece", "_received", "_sock"),
        *("incoming", "ssl"),
    )

    def __init__(
        self, sock: socket.socket, memory: memoryview, wrap: Callable[[ssl.MemoryBIO, ssl.MemoryBIO], ssl.SSLObject]
    ) -> None:
        """``memory`` receives encrypted bytes; ``wrap`` creates a client's or a server's end."""
        self._sock = sock
        self._memory = memory
        self.incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self.ssl = wrap(self.incoming, self._outgoing)
        """Has the result of the handshake."""
        self._received = _NOTHING
        """Encrypted bytes that OpenSSL has not got yet; those that are kept after a read are a copy."""
        self._most = LITTLE
        self._barren = 0
        """Encrypted bytes without data, minus the allowance for data."""
        self._credited = 0
        """The bytes of this visit that have reduced ``_barren``."""
        self._left = _NOTHING
        """Encrypted bytes that the socket has not taken yet."""
        self._piece = 0
        """The number of bytes of the queue that are sent once ``_left`` is."""

    # -- in ----------------------------------------------------------------------------------------

    def receive(self, reader: FrameReader, fd: int) -> int:
        """Like ``reader.receive(fd)``, but decrypts. Also raises ssl.SSLError. Bytes that came before, when there was
        no memory for their frames, are first.
        """
        if not self._received and not self._fetch(LEAST if reader.receives_little else self._most):
            return AGAIN
        received, self._credited = len(self._received), 0
        try:
            count = reader.receive_by(self)
        finally:
            self._received = memoryview(bytes(self._received)) if self._received else _NOTHING
        self._most = len(self._memory) if count >= max(RECORD_BYTES, received // 2) else LITTLE
        if count > 0:
            self._credit(count)
        if count and self._outgoing.pending:
            self._answer()
        return count

    def _fetch(self, most: int) -> bool:
        """Receives at most so many bytes. Returns False if there is nothing, not even from before. Raises OSError."""
        try:
            count = self._sock.recv_into(self._memory, most)
        except (BlockingIOError, InterruptedError):
            return bool(self.incoming.pending or self.ssl.pending())
        if count:
            self._received = self._memory[:count]
        else:
            self.incoming.write_eof()
        return True

    def _answer(self) -> None:
        """Sends TLS's own messages, or leaves them to the next flush. Raises OSError."""
        if not self.push() and self._outgoing.pending > MOST_UNASKED:
            raise ConnectionAbortedError(KEY_UPDATES)

    def pull(self) -> None:
        """Receives once, for a handshake. Raises OSError."""
        with suppress(BlockingIOError, InterruptedError):
            count = self._sock.recv_into(self._memory, RECORD_BYTES)
            if count:
                self.feed(self._memory[:count])
            else:
                self.incoming.write_eof()

    def feed(self, data: bytearray | memoryview) -> None:
        """Passes on bytes that were received for a handshake."""
        self.incoming.write(data)

    @property
    def read(self) -> Callable[[int, memoryview], int]:
        """Decrypts into a view, as ``ssl.SSLObject.read`` does."""
        return self.ssl.read  # type: ignore[return-value]  # an int with a view

    def feed_next(self, count: int) -> None:
        """Gives OpenSSL the next of the received bytes, if there are any: up to the largest record. This visit has read
        ``count`` bytes so far. Raises ConnectionAbortedError.
        """
        if not self._received:
            return
        self._credit(count)
        size = WHOLE_RECORD - self.incoming.pending
        piece, self._received = self._received[:size], self._received[size:]
        self._barren += len(piece)
        if self._barren > MOST_WITHOUT_DATA:
            raise ConnectionAbortedError("the peer sends TLS without data, again and again")
        if self._outgoing.pending > MOST_UNASKED:
            raise ConnectionAbortedError(KEY_UPDATES)
        self.incoming.write(piece)

    def _credit(self, count: int) -> None:
        """Lowers ``_barren`` for the bytes read since the last call; the visit has read ``count`` so far."""
        self._barren = max(0, self._barren - OVERHEAD * (count - self._credited))
        self._credited = count

    def cannot_read(self, error: Exception) -> int | None:
        """Returns AGAIN if nothing is left to decrypt, 0 at the end of the stream, 1 if ``feed_next`` has more, and
        None for other errors.
        """
        if isinstance(error, ssl.SSLWantReadError):
            return 1 if self._received else AGAIN
        if isinstance(error, (ssl.SSLZeroReturnError, ssl.SSLEOFError)):
            return 0
        return None

    def end_reading(self) -> None:
        """Lets the socket report the end, which came with data: no other event may follow."""
        with suppress(OSError):
            self._sock.shutdown(socket.SHUT_RD)

    # -- out ---------------------------------------------------------------------------------------

    def flush(self, queue: SendQueue, fd: int) -> bool:
        """Like ``queue.flush(fd)``, but encrypts, in pieces. Also raises ssl.SSLError."""
        turn = 0
        while self.push():
            if self._piece:
                turn += self._piece
                is_done, self._piece = queue.drop(self._piece), 0
                if is_done or turn >= TURN:
                    return is_done
            piece = queue.peek(PIECE)
            if not piece:
                return True
            self._left = memoryview(self._encrypted(memoryview(piece)))
            self._piece = len(piece)
        return False

    def _encrypted(self, rest: memoryview) -> bytes:
        parts = []
        while rest:
            rest = rest[self.ssl.write(rest[:RECORD_BYTES]) :]
            parts.append(self._outgoing.read())
        return b"".join(parts)

    def push(self) -> bool:
        """Sends encrypted bytes. Returns whether none are left. Raises OSError."""
        while True:
            if not self._left:
                self._left = _NOTHING
                if not self._outgoing.pending:
                    return True
                self._left = memoryview(self._outgoing.read())
            try:
                self._left = self._left[self._sock.send(self._left, _FLAGS) :]
            except (BlockingIOError, InterruptedError):
                return False

    def end(self) -> None:
        """Tells the peer that nothing more comes, if its socket takes that."""
        with suppress(OSError, ValueError):  # the peer is gone
            if self.push():
                with suppress(ssl.SSLError):  # the peer has not sent its end yet
                    self.ssl.unwrap()
                self.push()


class TlsPipe(TlsLayer):
    """A client's end of TLS, for a stream."""

    __slots__ = ()

    def __init__(self, tls: Tls, sock: socket.socket, host: str) -> None:
        super().__init__(sock, tls.memory, partial(tls.context.wrap_bio, server_hostname=host))

    async def handshake(self, loop: asyncio.AbstractEventLoop) -> None:
        """Performs the handshake with the server. Raises OSError; ssl.SSLError is one of them."""
        while True:
            try:
                self.ssl.do_handshake()
            except ssl.SSLWantReadError:
                await self._send_left(loop)
                await readable(loop, self._sock)
                self.pull()
            except ssl.SSLError:
                with suppress(OSError):  # tells the server the reason
                    self.push()
                raise
            else:
                return await self._send_left(loop)

    async def _send_left(self, loop: asyncio.AbstractEventLoop) -> None:
        while not self.push():
            await writable(loop, self._sock)
