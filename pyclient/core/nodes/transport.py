"""A connected socket on a loop, and the way to connect it: address, TCP, ApiVersions."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable
from typing import Any, Final, NamedTuple

from cy.client.held_signals import readable
from cy.wire.frames import ReceiveMemory
from pyclient.core.nodes.addresses import Addresses
from pyclient.core.nodes.connection import Connection, Pending
from pyclient.core.nodes.versions import Versions
from pyclient.errors import ConnectionFailed, KafkaError, UnsupportedByBroker, check
from pyclient.protocol import ApiVersions, stream
from pyclient.protocol.answers import answer_on
from pyclient.protocol.errors import RebootstrapRequired
from pyclient.protocol.stream import MAX_FRAME, FrameStream
from pyclient.protocol.tls import TlsPipe

SOFTWARE: Final = ("pyclient", "0.1.0")
MOST_GREETING: Final = 1 << 20
"""The most bytes of a frame before the handshake with the broker has ended."""
_UNSUPPORTED_VERSION: Final = 35

OnLost = Callable[["Transport", Exception | str], None]
Meant = tuple[str | None, int]
"""A cluster and a broker of it; (None, -1) leaves the broker unchecked."""
ANY_BROKER: Final[Meant] = (None, -1)


class SocketOptions(NamedTuple):
    """Kernel buffers in bytes; -1 leaves the choice to the kernel."""

    send_buffer: int = -1
    receive_buffer: int = -1


class Transport(FrameStream):
    """Sends requests and delivers responses. Calls ``on_lost(transport, cause)`` once, when the socket ends."""

    __slots__ = ("_on_lost", "connection", "used_at")

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        sock: socket.socket,
        memory: ReceiveMemory,
        connection: Connection,
        on_lost: OnLost,
        pipe: TlsPipe | None = None,
    ) -> None:
        super().__init__(loop, sock, memory, pipe)
        self.connection = connection
        """The requests in flight; they stay here when the socket is closed."""
        self._on_lost = on_lost
        self._reader.max_frame = MOST_GREETING
        self.used_at = loop.time()

    def greeted(self) -> None:
        """Accepts frames of any size from now on."""
        self._reader.max_frame = MAX_FRAME

    def send(self, request: Pending, version: int) -> None:
        """Encodes and sends one request. Raises EncodeError, and errors of the function that makes the message."""
        connection = self.connection
        request.end = self._out.append(connection.encode(request, version))
        self._push()
        if connection.departing:
            self._depart()

    def _on_writable(self) -> None:
        super()._on_writable()
        self._depart()

    def _depart(self) -> None:
        """Completes requests that have no response, as soon as they are sent."""
        for request in self.connection.departed(self._out.gone):
            self.used_at = self._loop.time()
            self._loop.call_soon(deliver, self._loop, request, None, None)

    def serve(self, timeout_ms: int) -> bool:
        """Waits for data of the broker and handles them on this thread, instead of the loop's. Returns False if no data
        came within ``timeout_ms``, or the socket has ended.
        """
        if self._sock is None or not readable(self._fd, timeout_ms):
            return False
        self._on_readable()
        return self._sock is not None

    def _on_frame(self, view: memoryview, start: int, end: int, reused: bool) -> None:
        request, response = self.connection.decode(view, start, end, reused)
        self.used_at = self._loop.time()
        deliver(self._loop, request, response, None)

    def _on_end(self, cause: Exception | str) -> None:
        self._on_lost(self, cause)


def deliver(
    loop: asyncio.AbstractEventLoop, request: Pending, response: Any, error: KafkaError | None
) -> None:
    """Calls the request's callback. Its exceptions go to the loop's exception handler."""
    try:
        request.on_done(response, error)
    except Exception as fault:
        loop.call_exception_handler(
            {"message": f"a callback of {request.api.name} failed", "exception": fault}
        )


async def open_socket(
    loop: asyncio.AbstractEventLoop,
    host: str,
    port: int,
    timeout: float,
    options: SocketOptions,
    addresses: Addresses,
) -> socket.socket:
    """Returns a connected, non-blocking socket. Within ``timeout`` seconds, it tries the addresses of the name in the
    order of ``addresses``, which it tells about each attempt. Raises ConnectionFailed.
    """
    name = f"{host}:{port}"
    phase, trouble = "resolve", None
    try:
        async with asyncio.timeout(timeout):
            resolved = await stream.resolve(loop, host, port)
            phase = "connect"
            for family, address in addresses.ordered(resolved):
                addresses.begin(address)
                try:
                    return await stream.connect(loop, family, address, *options)
                except OSError as error:
                    trouble = error
    except TimeoutError:
        raise ConnectionFailed(name, phase, trouble or f"no answer in {timeout:.3g} s") from trouble
    except (OSError, UnicodeError) as error:
        raise ConnectionFailed(name, phase, error) from error
    raise ConnectionFailed(name, phase, trouble) from trouble


async def handshake(transport: Transport, loop: asyncio.AbstractEventLoop, meant: Meant = ANY_BROKER) -> Versions:
    """Asks for the API versions, in the newest version that the broker knows (KIP-511). Raises KafkaError:
    RebootstrapRequired if another broker than ``meant`` answers. A broker before ApiVersions v5 does not check that.
    """
    response = await _ask_versions(transport, loop, ApiVersions.max_version, meant)
    if response.error_code == _UNSUPPORTED_VERSION:
        response = await _ask_versions(transport, loop, _version_offered(response), meant)
    if response.error_code == RebootstrapRequired.code:
        cluster, broker = meant
        raise RebootstrapRequired(f"another server than broker {broker} of cluster {cluster} has this address now")
    check(response.error_code)
    return Versions(response)


def _version_offered(response: ApiVersions.Response) -> int:
    try:
        return Versions(response).choose(ApiVersions)
    except UnsupportedByBroker:
        return 0


async def _ask_versions(
    transport: Transport, loop: asyncio.AbstractEventLoop, version: int, meant: Meant
) -> ApiVersions.Response:
    answer, on_done = answer_on(loop)
    name, software_version = SOFTWARE
    cluster, broker = meant
    message = ApiVersions.Request(
        client_software_name=name, client_software_version=software_version, cluster_id=cluster, node_id=broker
    )
    transport.send(Pending(ApiVersions, message, on_done, float("inf"), None), version)
    response: ApiVersions.Response = await answer
    return response
