"""A connected socket on a loop, and how it is connected: address, TCP, ApiVersions."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable
from typing import Any, Final, NamedTuple

from cy.frames import AGAIN, FrameError, FrameReader, ReceiveMemory, SendQueue
from cy.turn import readable
from pyclient.core.connection import BrokenStream, Connection, Pending
from pyclient.core.versions import Versions
from pyclient.errors import ConnectionFailed, KafkaError, UnsupportedByBroker, check
from pyclient.protocol import ApiVersions

MAX_FRAME: Final = 1 << 30  # "HTTP", read as a length, is more
SOFTWARE: Final = ("pyclient", "0.1.0")
_UNSUPPORTED_VERSION: Final = 35

OnLost = Callable[["Transport", Exception], None]


class SocketOptions(NamedTuple):
    """Buffers of the kernel in bytes; -1 is its own choice."""

    send_buffer: int = -1
    receive_buffer: int = -1


class Transport:
    """Sends requests and delivers responses; ``on_lost(transport, cause)`` once, when the socket ends."""

    __slots__ = (
        "_connection",
        "_fd",
        "_given",
        "_loop",
        "_memory",
        "_on_lost",
        "_out",
        "_reader",
        "_sock",
        "_writing",
        "used_at",
    )

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        sock: socket.socket,
        memory: ReceiveMemory,
        connection: Connection,
        on_lost: OnLost,
    ) -> None:
        self._loop = loop
        self._sock: socket.socket | None = sock
        self._fd = sock.fileno()
        self._memory = memory
        self._connection = connection
        self._on_lost = on_lost
        self._reader = FrameReader(memory, MAX_FRAME)
        self._out = SendQueue()
        self._given = 0
        self._writing = False
        self.used_at = loop.time()
        loop.add_reader(self._fd, self._on_readable)

    @property
    def connection(self) -> Connection:
        """The requests in flight."""
        return self._connection

    @property
    def is_closed(self) -> bool:
        """The socket has ended."""
        return self._sock is None

    def send(self, request: Pending, version: int) -> None:
        """Encodes and sends one request. Raises EncodeError, and what makes the message raises."""
        frame = self._connection.encode(request, version)
        unsent = self._out.unsent
        self._out.append(frame)
        self._given += self._out.unsent - unsent
        request.end = self._given
        self.used_at = self._loop.time()
        if not self._writing:
            self._flush()

    def _flush(self) -> None:
        try:
            done = self._out.flush(self._fd)
        except (OSError, EOFError) as error:
            self._loop.call_soon(self._lose, error)
            return
        if self._writing is done:
            self._watch_writable(not done)
        if self._connection.departing:
            for request in self._connection.departed(self._given - self._out.unsent):
                self._loop.call_soon(deliver, self._loop, request, None, None)

    def _watch_writable(self, wanted: bool) -> None:
        if wanted:
            self._loop.add_writer(self._fd, self._on_writable)
        else:
            self._loop.remove_writer(self._fd)
        self._writing = wanted

    def serve(self, timeout_ms: int) -> bool:
        """Waits for the broker and takes what it sends, in place of the loop. False: nothing came in
        so many milliseconds, or the socket has ended.
        """
        if self._sock is None or not readable(self._fd, timeout_ms):
            return False
        self._on_readable()
        return self._sock is not None

    def _on_writable(self) -> None:
        if self._sock is not None:
            self._flush()

    def _on_readable(self) -> None:
        if self._sock is None:
            return
        try:
            count = self._reader.receive(self._fd)
            if count > 0:
                self._turn()
            elif count == 0:
                self._lose(EOFError("closed by the broker"))
            else:
                assert count == AGAIN  # the memory has no limit
        except (FrameError, BrokenStream, OSError) as error:
            self._lose(error)

    def _turn(self) -> None:
        """Delivers the responses that are whole."""
        reader, memory = self._reader, self._memory
        while (frame := reader.next()) is not None:
            view, start, end = frame
            reused = view.obj is memory.scratch or reader.pending > 0
            request, response = self._connection.decode(view, start, end, reused)
            deliver(self._loop, request, response, None)
            if self._sock is None:
                return
        self.used_at = self._loop.time()
        reader.keep()

    def _lose(self, cause: Exception) -> None:
        if self._sock is not None:
            self.close()
            self._on_lost(self, cause)

    def close(self) -> None:
        """Closes the socket; nobody is told, requests in flight stay with the connection."""
        if self._sock is None:
            return
        self._loop.remove_reader(self._fd)
        if self._writing:
            self._watch_writable(False)
        self._sock.close()
        self._sock = None
        self._reader.close()
        self._out.close()


def deliver(
    loop: asyncio.AbstractEventLoop, request: Pending, response: Any, error: KafkaError | None
) -> None:
    """Calls back; what the callback raises is logged as the loop logs it."""
    try:
        request.on_done(response, error)
    except Exception as fault:
        loop.call_exception_handler(
            {"message": f"a callback of {request.api.name} failed", "exception": fault}
        )


async def open_socket(
    loop: asyncio.AbstractEventLoop, host: str, port: int, timeout: float, options: SocketOptions
) -> socket.socket:
    """A connected, non-blocking socket; all addresses of the name are tried within ``timeout``
    seconds. Raises ConnectionFailed.
    """
    name = f"{host}:{port}"
    phase, trouble = "resolve", None
    try:
        async with asyncio.timeout(timeout):
            addresses = await _resolve(loop, host, port)
            phase = "connect"
            for family, address in addresses:
                try:
                    return await _connect(loop, family, address, options)
                except OSError as error:
                    trouble = error
    except TimeoutError:
        raise ConnectionFailed(name, phase, trouble or f"no answer in {timeout:.3g} s") from trouble
    except (OSError, UnicodeError) as error:
        raise ConnectionFailed(name, phase, error) from error
    raise ConnectionFailed(name, phase, trouble) from trouble


async def _resolve(
    loop: asyncio.AbstractEventLoop, host: str, port: int
) -> list[tuple[socket.AddressFamily, Any]]:
    """The addresses of a name; a literal address needs no thread."""
    try:
        socket.inet_pton(socket.AF_INET, host)
        return [(socket.AF_INET, (host, port))]
    except OSError:
        found = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM)
        return [(row[0], row[4]) for row in found]


async def _connect(
    loop: asyncio.AbstractEventLoop, family: socket.AddressFamily, address: Any, options: SocketOptions
) -> socket.socket:
    sock = socket.socket(family, socket.SOCK_STREAM)
    try:
        sock.setblocking(False)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        if options.send_buffer >= 0:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, options.send_buffer)
        if options.receive_buffer >= 0:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, options.receive_buffer)
        await loop.sock_connect(sock, address)
    except BaseException:
        sock.close()
        raise
    return sock


async def handshake(transport: Transport, loop: asyncio.AbstractEventLoop) -> Versions:
    """Asks for the versions of APIs, in the newest version that the broker knows (KIP-511). Raises
    KafkaError.
    """
    response = await _ask_versions(transport, loop, ApiVersions.max_version)
    if response.error_code == _UNSUPPORTED_VERSION:
        response = await _ask_versions(transport, loop, _version_offered(response))
    check(response.error_code)
    return Versions(response)


def _version_offered(response: ApiVersions.Response) -> int:
    try:
        return Versions(response).choose(ApiVersions)
    except UnsupportedByBroker:
        return 0


async def _ask_versions(
    transport: Transport, loop: asyncio.AbstractEventLoop, version: int
) -> ApiVersions.Response:
    answer: asyncio.Future[ApiVersions.Response] = loop.create_future()

    def on_done(response: ApiVersions.Response | None, error: KafkaError | None) -> None:
        if answer.done():
            return
        if error is not None:
            answer.set_exception(error)
        else:
            assert response is not None
            answer.set_result(response)

    name, software_version = SOFTWARE
    message = ApiVersions.Request(
        client_software_name=name, client_software_version=software_version
    )
    transport.send(Pending(ApiVersions, message, on_done, float("inf"), None), version)
    return await answer
