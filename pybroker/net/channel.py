"""The socket of a client's connection, with the received bytes that wait to be served, and the replies to be sent.

A *muted* channel receives nothing, because its ``connection`` wants that or the server's memory is at its limit. Frames
that were received already stay in the reader. A muted channel leaves the loop's read set only when bytes do arrive:
most channels are resumed before that.
"""

from __future__ import annotations

import asyncio
import logging
import socket
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from cy.wire.frames import AGAIN, STARVED, FrameError, FrameReader, ReceiveMemory
from cy.wire.send_queue import SendQueue
from pybroker.net import complaint
from pybroker.net.large_messages import LargeMessages
from pybroker.net.limits import Limits
from pybroker.net.ratelimit import RateLimitedLog
from pybroker.net.routes import Route, Routes

if TYPE_CHECKING:
    from pybroker.net.strangers import Strangers

ANONYMOUS = "User:ANONYMOUS"
"""The principal of an unauthenticated client."""


class Accepted(NamedTuple):
    """An accepted socket, from which a TLS handshake or a connection is made."""

    sock: socket.socket
    listener_name: str
    local_address: tuple[str, int]
    peer_address: tuple[str, int]
    reader: FrameReader | None = None
    """With TLS, this replaces the reader of a plain socket, and ``out`` replaces its send queue."""
    out: SendQueue | None = None
    principal: str = ANONYMOUS
    """The principal that the client's certificate gives."""


class Server(Protocol):
    """The part of ``server.SocketServer`` that connections use."""

    loop: asyncio.AbstractEventLoop
    routes: Routes
    limits: Limits
    memory: ReceiveMemory
    large_messages: LargeMessages
    log: RateLimitedLog
    silent: dict[Any, None]
    """Connections without SASL that have sent no request yet, the oldest first."""
    strangers: dict[str, Strangers[Any]]
    throttling: Any
    """``throttling.Throttling`` while there are quotas of clients, else None."""
    notable_s: float
    """The shortest time of a visit that is reported to ``visited``."""

    def closed(self, connection: Any) -> None: ...

    def visited(self, route: Route | None, call: Any, took_s: float) -> None: ...

    def starve(self, connection: Any) -> None: ...


class Channel(ABC):
    """A connected socket, in the loop's sets of readers and writers. A ``Connection`` serves the requests from it."""

    __slots__ = (
        "_fd",
        "_out",
        "_partial_since",
        "_reader",
        "_reading",
        "_server",
        "_socket",
        "_stopped",
        "_writing",
        "active_at",
        "listener_name",
        "local_address",
        "number",
        "peer_address",
    )

    def __init__(self, server: Server, number: int, accepted: Accepted) -> None:
        self._server = server
        self._socket: socket.socket | None = accepted.sock
        self._fd = accepted.sock.fileno()
        self._reader = accepted.reader or FrameReader(server.memory, server.limits.max_request_bytes)
        self._out = accepted.out or SendQueue()
        self._reading = self._writing = self._stopped = False
        self._partial_since = 0.0
        self.active_at = server.loop.time()
        self.number = number
        self.listener_name = accepted.listener_name
        self.local_address = accepted.local_address
        self.peer_address = accepted.peer_address

    @property
    def id(self) -> str:
        """The connection in Kafka's form: local and remote address, and a number."""
        local, peer = self.local_address, self.peer_address
        return f"{local[0]}:{local[1]}-{peer[0]}:{peer[1]}-{self.number}"

    @property
    def unsent(self) -> int:
        """The bytes of replies that the socket has not taken."""
        return self._out.unsent

    @property
    def partial_since(self) -> float:
        """When the incomplete frame began to arrive, by the loop's time; negative if there is none."""
        return self._partial_since if self._reader.pending else -1.0

    @property
    def closed(self) -> bool:
        return self._socket is None

    # -- what a connection does with it ----------------------------------------------------------------

    @property
    @abstractmethod
    def unanswered(self) -> int:
        """The number of requests whose replies are not being sent yet."""

    @abstractmethod
    def _visit(self) -> None:
        """Serves the received frames and sends the replies, as far as the limits allow."""

    @abstractmethod
    def _is_full(self) -> bool:
        """Returns whether no further request may be served now."""

    @abstractmethod
    def _malformed(self, error: Exception) -> None:
        """Handles bytes of the peer that are not a frame."""

    @abstractmethod
    def _cancel(self) -> None:
        """Cancels the waiting requests."""

    # -- in ----------------------------------------------------------------------------------------

    def _on_readable(self) -> None:
        if self._stopped:
            self._read(False)
            return
        try:
            count = self._reader.receive(self._fd)
        except FrameError as error:
            self._malformed(error)
            return
        except OSError:
            self.close()
            return
        if count > 0:
            self.active_at = self._server.loop.time()
            self._visit()
        elif count == 0:
            self.close()
        elif count == STARVED:
            self._read(False)
            self._server.starve(self)
        else:
            assert count == AGAIN

    def resume(self) -> None:
        """Resumes after a wait for the server's memory, or after the handshake, when TLS may already have bytes."""
        if self._socket is not None and not self._stopped:
            self._read(True)
            self._server.loop.call_soon(self.receive_now)

    def receive_now(self) -> None:
        """Receives as if the socket had become readable."""
        if self._socket is not None:
            self._read(True)
            self._on_readable()

    def _go_on(self) -> None:
        """Resumes reading if it was stopped and the limits allow it again."""
        if self._socket is not None and self._stopped and not self._is_full():
            self._partial_since = 0.0  # the rest of a frame could not arrive meanwhile
            self.active_at = self._server.loop.time()
            self._reader.go_on()
            self._visit()
            if self._socket is not None and not self._stopped:
                self._read(True)

    # -- out ---------------------------------------------------------------------------------------

    def _flush(self) -> None:
        try:
            done = self._out.flush(self._fd)
        except EOFError as error:
            complaint.short_file(self._server.log, self, error)
            self.close()
            return
        except OSError:
            self.close()
            return
        if self._writing is done:
            self._write(not done)

    def _on_writable(self) -> None:
        self.active_at = self._server.loop.time()
        self._flush()
        self._go_on()

    # -- the loop ----------------------------------------------------------------------------------

    def _read(self, wanted: bool) -> None:
        if wanted and not self._reading:
            self._server.loop.add_reader(self._fd, self._on_readable)
        elif self._reading and not wanted:
            self._server.loop.remove_reader(self._fd)
        self._reading = wanted

    def _write(self, wanted: bool) -> None:
        if wanted:
            self._server.loop.add_writer(self._fd, self._on_writable)
        else:
            self._server.loop.remove_writer(self._fd)
        self._writing = wanted

    # -- the end -----------------------------------------------------------------------------------

    def is_overdue(self, now: float) -> str | None:
        """Returns why the sweep should close this connection at ``now`` (the loop's time), or None."""
        limits = self._server.limits
        if self._reader.pending and not self._stopped:
            allowed = limits.frame_grace_s + self._reader.pending / limits.frame_rate
            if now - self._partial_since > allowed:
                return f"a frame was not whole after {allowed:.0f} s"
        quiet = now - self.active_at > limits.idle_ms / 1000
        if quiet and self._out.unsent:
            return "the client does not read its replies"
        if quiet and not self.unanswered:
            return "idle"
        return None

    def give_way(self, why: str = "it had sent no request") -> None:
        """Closes the connection, because there are too many connections."""
        self._server.log(logging.INFO, "gives way", f"closed {self.id}: {why}, and gives way to others")
        self.close()

    def close(self) -> None:
        """Closes the socket and cancels waiting requests."""
        if self._socket is None:
            return
        self._read(False)
        if self._writing:
            self._write(False)
        self._out.close()  # TLS sends a last message
        self._socket.close()
        self._socket = None
        self._reader.close()
        self._cancel()
        self._server.closed(self)
