"""A connected socket on a loop: frames in, frames out. Clients, and brokers that connect to brokers, use it. It is the
only part of this package that does I/O.

A frame is passed on in the turn in which it arrived. Its view is valid until ``_on_frame`` returns, and longer if it is
not ``reused``.
"""

from __future__ import annotations

import asyncio
import socket
from abc import ABC, abstractmethod
from collections.abc import Callable
from errno import EINPROGRESS, EINTR
from functools import partial
from typing import Any, Final

from cy.wire.buffer import DecodeError
from cy.wire.frames import AGAIN, FrameError, FrameReader, ReceiveMemory
from cy.wire.send_queue import SendQueue
from pyclient.protocol.readiness import writable
from pyclient.protocol.threads import on_thread
from pyclient.protocol.tls import TlsPipe

MAX_FRAME: Final = 1 << 30  # "HTTP", read as a length, is larger


class BrokenStream(Exception):
    """The response does not belong to the request."""


class FrameStream(ABC):
    """Owns the socket. A subclass handles frames and the end, which comes once. With a ``pipe`` after its handshake,
    the data is encrypted.
    """

    __slots__ = ("_fd", "_loop", "_out", "_reader", "_receive", "_send", "_sock", "_writing")

    def __init__(
        self, loop: asyncio.AbstractEventLoop, sock: socket.socket, memory: ReceiveMemory, pipe: TlsPipe | None = None
    ) -> None:
        self._loop = loop
        self._sock: socket.socket | None = sock
        self._fd = sock.fileno()
        self._reader = FrameReader(memory, MAX_FRAME)
        self._out = SendQueue()
        self._receive: Callable[[int], int] = self._reader.receive
        self._send: Callable[[int], bool] = self._out.flush
        if pipe is not None:
            self._receive = partial(pipe.receive, self._reader)
            self._send = partial(pipe.flush, self._out)
        self._writing = False
        loop.add_reader(self._fd, self._on_readable)

    @abstractmethod
    def _on_frame(self, view: memoryview, start: int, end: int, reused: bool) -> None:
        """Handles a whole frame, without its length. May raise BrokenStream or DecodeError, which end the stream."""

    @abstractmethod
    def _on_end(self, cause: Exception | str) -> None:
        """Handles the end of the stream."""

    @property
    def is_closed(self) -> bool:
        """Whether the socket has ended."""
        return self._sock is None

    # -- out ---------------------------------------------------------------------------------------

    def _push(self) -> None:
        """Sends as much of ``_out`` as the socket takes, and the rest when it is writable."""
        if not self._writing:
            self._flush()

    def _flush(self) -> None:
        try:
            done = self._send(self._fd)
        except (OSError, EOFError) as error:
            self._loop.call_soon(self.lose, error)
            return
        if self._writing is done:
            self._watch_writable(not done)

    def _watch_writable(self, wanted: bool) -> None:
        if wanted:
            self._loop.add_writer(self._fd, self._on_writable)
        else:
            self._loop.remove_writer(self._fd)
        self._writing = wanted

    def _on_writable(self) -> None:
        if self._sock is not None:
            self._flush()

    # -- in ----------------------------------------------------------------------------------------

    def _on_readable(self) -> None:
        if self._sock is None:
            return
        try:
            count = self._receive(self._fd)
            if count > 0:
                self._reader.hand_on(self._on_frame)
            elif count == 0:
                self.lose(EOFError("closed by the broker"))
            else:
                assert count == AGAIN  # the memory has no limit
        except (FrameError, DecodeError, BrokenStream, OSError) as error:
            self.lose(error)

    # -- the end -----------------------------------------------------------------------------------

    def lose(self, cause: Exception | str) -> None:
        """Ends the stream, and calls ``_on_end``."""
        if self._sock is not None:
            self.close()
            self._on_end(cause)

    def close(self) -> None:
        """Closes the socket without a callback."""
        if self._sock is None:
            return
        self._loop.remove_reader(self._fd)
        if self._writing:
            self._watch_writable(False)
        self._sock.close()
        self._sock = None
        self._reader.close()
        self._out.close()


async def resolve(
    loop: asyncio.AbstractEventLoop, host: str, port: int
) -> list[tuple[socket.AddressFamily, Any]]:
    """Returns the addresses of a name; a literal address needs no thread. Raises OSError and UnicodeError."""
    try:
        socket.inet_pton(socket.AF_INET, host)
        return [(socket.AF_INET, (host, port))]
    except OSError:
        try:
            found = await look_up(loop, host, port)
        except RuntimeError:  # Python starts no threads any more, because the program ends
            found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
        return [(row[0], row[4]) for row in found]


async def look_up(loop: asyncio.AbstractEventLoop, host: str, port: int) -> list[Any]:
    """Runs ``socket.getaddrinfo`` on a Python thread. uvloop's own look-up runs on threads of libuv. A forked child
    does not have these threads, but waits for their end when it exits, and dies of SIGSEGV. Raises OSError,
    UnicodeError, and RuntimeError if no thread can start.
    """
    return await on_thread(loop, "look-up", lambda: socket.getaddrinfo(host, port, type=socket.SOCK_STREAM))


async def connect(
    loop: asyncio.AbstractEventLoop,
    family: socket.AddressFamily,
    address: Any,
    send_buffer: int = -1,
    receive_buffer: int = -1,
) -> socket.socket:
    """Returns a connected, non-blocking socket. Buffers are in bytes; -1 leaves them to the kernel. Raises OSError."""
    sock = socket.socket(family, socket.SOCK_STREAM)
    try:
        sock.setblocking(False)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        if send_buffer >= 0:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, send_buffer)
        if receive_buffer >= 0:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
        await reach(loop, sock, address)
    except BaseException:
        sock.close()
        raise
    return sock


async def reach(loop: asyncio.AbstractEventLoop, sock: socket.socket, address: Any) -> None:
    """Connects a non-blocking socket to an address (not a name). uvloop's ``sock_connect`` does that too, but starts
    threads of libuv (see ``look_up``). Raises OSError.
    """
    code = sock.connect_ex(address)
    if code in (EINPROGRESS, EINTR):
        await writable(loop, sock)
        code = sock.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
    if code:
        raise OSError(code, f"Connect call failed {address}")
