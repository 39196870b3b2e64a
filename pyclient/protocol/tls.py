"""TLS between frames and a socket: decrypts what comes, encrypts what goes. Stands where a plain stream has the socket
itself (``pyclient.protocol.stream``).
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
"""Bytes of one visit to the socket. Decrypted, twice as many fit into the memory that all connections receive into."""
RECORD_BYTES: Final = 16 * 1024
"""Bytes that OpenSSL gets at a time to encrypt, as its memory for them never shrinks."""
WHOLE_RECORD: Final = 5 + RECORD_BYTES + 256
"""Bytes that it gets at a time to decrypt: the largest record, with its header."""
LITTLE: Final = 2 * RECORD_BYTES
"""Bytes of a visit to the socket where the last one has brought little."""
PIECE: Final = 64 * 1024
"""Bytes that are encrypted ahead of the socket."""
TURN: Final = 4 << 20
"""Bytes that one connection may send before others do."""
MOST_UNASKED: Final = 16 * 1024
"""Bytes that TLS itself may want to send, as answers to updates of keys."""
MOST_WITHOUT_DATA: Final = 64 * 1024
"""Encrypted bytes that may come without data; updates of keys are such."""
OVERHEAD: Final = 32
"""So many encrypted bytes may come for each byte of data."""
_NOTHING: Final = memoryview(b"")
"""Holds no memory, as an empty rest of much does."""
_FLAGS: Final = getattr(socket, "MSG_NOSIGNAL", 0)


class Tls:
    """What the connections of one loop share: the context, and memory that encrypted bytes are received into."""

    def __init__(self, context: ssl.SSLContext) -> None:
        self.context = context
        self.memory = memoryview(bytearray(MEMORY))


class TlsLayer:
    """One end of TLS on a connected socket that does not block, and belongs to who made it."""

    __slots__ = (
        *("_barren", "_incoming", "_left", "_memory", "_most", "_outgoing", "_piece", "_received", "_sock"),
        "ssl",
    )

    def __init__(
        self, sock: socket.socket, memory: memoryview, wrap: Callable[[ssl.MemoryBIO, ssl.MemoryBIO], ssl.SSLObject]
    ) -> None:
        """``memory``: what encrypted bytes are received into; ``wrap`` makes a client's or a server's end."""
        self._sock = sock
        self._memory = memory
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self.ssl = wrap(self._incoming, self._outgoing)
        """Says what was agreed on."""
        self._received = _NOTHING
        """Encrypted bytes that OpenSSL has not got yet; those that outlast a visit are a copy."""
        self._most = LITTLE
        self._barren = 0
        """Encrypted bytes that have brought no data, less what data allows."""
        self._left = _NOTHING
        """Encrypted bytes that the socket has not taken yet."""
        self._piece = 0
        """So many bytes of the queue are on their way when these are."""

    # -- in ----------------------------------------------------------------------------------------

    def receive(self, reader: FrameReader, fd: int) -> int:
        """As ``reader.receive(fd)``: what the socket has, decrypted. Raises ssl.SSLError too.

        What has come before, and found no memory for its frames, goes first.
        """
        if not self._received and not self._fetch():
            return AGAIN
        try:
            count = reader.receive_by(self._read)
        finally:
            self._received = memoryview(bytes(self._received)) if self._received else _NOTHING
        self._most = len(self._memory) if count >= RECORD_BYTES else LITTLE
        if count and self._outgoing.pending:
            self._answer()
        return count

    def _fetch(self) -> bool:
        """Receives once; False where there is nothing, also of before. Raises OSError."""
        try:
            count = self._sock.recv_into(self._memory, self._most)
        except (BlockingIOError, InterruptedError):
            return bool(self._incoming.pending or self.ssl.pending())
        if count:
            self._received = self._memory[:count]
        else:
            self._incoming.write_eof()
        return True

    def _answer(self) -> None:
        """Sends what TLS itself has to say, or leaves it to the next flush. Raises OSError."""
        if not self.push() and self._outgoing.pending > MOST_UNASKED:
            raise ConnectionAbortedError("the peer has TLS change its keys again and again")

    def pull(self) -> None:
        """Receives once, for a handshake. Raises OSError."""
        with suppress(BlockingIOError, InterruptedError):
            count = self._sock.recv_into(self._memory, RECORD_BYTES)
            if count:
                self.feed(self._memory[:count])
            else:
                self._incoming.write_eof()

    def feed(self, data: bytearray | memoryview) -> None:
        """Hands over what was received for a handshake."""
        self._incoming.write(data)

    def _read(self, size: int, view: memoryview) -> int:
        if self._received and (pending := self._incoming.pending) < WHOLE_RECORD // 2:
            self._feed_up_to(WHOLE_RECORD - pending)  # sooner than OpenSSL asks, which costs an exception
        while True:
            try:
                count: int = self.ssl.read(size, view)  # type: ignore[assignment]
            except ssl.SSLWantReadError:
                if not self._received:
                    return AGAIN
                self._feed_up_to(WHOLE_RECORD)
            except (ssl.SSLZeroReturnError, ssl.SSLEOFError):
                return 0
            else:
                self._barren = max(0, self._barren - OVERHEAD * count)
                return count

    def _feed_up_to(self, count: int) -> None:
        """Hands over so many bytes of what was received, or all. Raises ConnectionAbortedError."""
        piece, self._received = self._received[:count], self._received[count:]
        self._barren += len(piece)
        if self._barren > MOST_WITHOUT_DATA:
            raise ConnectionAbortedError("the peer sends TLS without data, again and again")
        self._incoming.write(piece)

    # -- out ---------------------------------------------------------------------------------------

    def flush(self, queue: SendQueue, fd: int) -> bool:
        """As ``queue.flush(fd)``: sends what is queued, encrypted, in pieces. Raises ssl.SSLError too."""
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
        """Sends what is encrypted; True when nothing is left. Raises OSError."""
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
        """Tells the peer that nothing more comes, as far as its socket takes it."""
        with suppress(OSError, ValueError):  # it has gone
            if self.push():
                with suppress(ssl.SSLError):  # it has not said so itself yet
                    self.ssl.unwrap()
                self.push()


class TlsPipe(TlsLayer):
    """A client's end, for a stream."""

    __slots__ = ()

    def __init__(self, tls: Tls, sock: socket.socket, host: str) -> None:
        super().__init__(sock, tls.memory, partial(tls.context.wrap_bio, server_hostname=host))

    async def handshake(self, loop: asyncio.AbstractEventLoop) -> None:
        """Agrees with the server on keys. Raises OSError, which is ssl.SSLError where it is TLS that fails."""
        while True:
            try:
                self.ssl.do_handshake()
            except ssl.SSLWantReadError:
                await self._send_left(loop)
                await readable(loop, self._sock)
                self.pull()
            except ssl.SSLError:
                with suppress(OSError):  # the server learns why
                    self.push()
                raise
            else:
                return await self._send_left(loop)

    async def _send_left(self, loop: asyncio.AbstractEventLoop) -> None:
        while not self.push():
            await writable(loop, self._sock)
