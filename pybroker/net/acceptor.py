"""The broker's listening sockets, and when connections are accepted there.

They are bound first (``bind``), so that ports are known and occupied ones are found early. They begin to listen when
the broker takes requests. While the server is full, or the process has no descriptors left, connections wait in the
backlog. They also wait there while clients connect to a listener more often than its rate allows.
"""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, Final, Protocol

from cy.counted import counted
from pybroker.config import Endpoint
from pybroker.config.keys.tls_keys import of_listener
from pybroker.descriptors import EXHAUSTED
from pybroker.net.limits import CONNECTIONS, Limits
from pybroker.net.ratelimit import RateLimitedLog

if TYPE_CHECKING:  # so that a broker without quotas does not import it
    from pybroker.net.quotas.arrival_limits import ArrivalLimits

ACCEPTS_PER_TURN: Final = 64
RETRY_S: Final = 0.25


class BoundSocket(socket.socket):
    """A bound socket and its configured listener, with the real port."""

    endpoint: Endpoint


def bind(endpoint: Endpoint) -> BoundSocket:
    """Returns a socket bound to ``endpoint``, not listening yet. Raises OSError.

    If the host is a name, it uses one of its addresses, an IPv4 one if possible. ``::`` accepts IPv4 as well.
    """
    host = endpoint.host or ("::" if socket.has_dualstack_ipv6() else "0.0.0.0")
    found = socket.getaddrinfo(host, endpoint.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    family, *_, address = min(found, key=lambda each: each[0] != socket.AF_INET)
    sock = BoundSocket(family, socket.SOCK_STREAM)
    try:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family == socket.AF_INET6:
            sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, int(host != "::"))
        sock.bind(address)
    except OSError:
        sock.close()
        raise
    sock.setblocking(False)
    sock.endpoint = endpoint._replace(port=sock.getsockname()[1])
    return sock


class Server(Protocol):
    """The part of ``server.SocketServer`` that this module uses."""

    loop: asyncio.AbstractEventLoop
    limits: Limits
    log: RateLimitedLog
    silent: dict[Any, None]
    """Connections without SASL that have sent no request yet."""
    arrivals: ArrivalLimits | None
    """Set while connection rates are limited."""

    def count(self) -> int: ...

    def is_full(self) -> bool: ...

    def has_all(self, listener: BoundSocket) -> bool: ...

    def is_full_for(self, listener: BoundSocket) -> bool: ...

    def is_protected(self, listener: BoundSocket) -> bool: ...

    def who_gives_way(self, listener: BoundSocket) -> Callable[[], object] | None: ...

    def admit(self, listener: BoundSocket, sock: socket.socket, address: tuple[str, int]) -> None: ...


class Acceptor:
    """All listening sockets of one server."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self._listeners: list[BoundSocket] = []
        self._accepting: set[BoundSocket] = set()
        self._paused: dict[BoundSocket, asyncio.TimerHandle] = {}
        self._again: asyncio.TimerHandle | None = None

    def start(self, listeners: Iterable[BoundSocket]) -> None:
        """Listens. Raises OSError if another process has taken a port since it was bound."""
        for listener in listeners:
            listener.listen(self._server.limits.backlog)
            self._listeners.append(listener)
        self._accept(self._listeners)

    @property
    def listening(self) -> list[Endpoint]:
        """The endpoints of the listeners, with real ports."""
        return [listener.endpoint for listener in self._listeners]

    def _accept(self, wanted: Iterable[BoundSocket]) -> None:
        """Accepts connections at these listeners only."""
        before, self._accepting = self._accepting, set(wanted)
        for listener in before - self._accepting:
            self._server.loop.remove_reader(listener.fileno())
        for listener in self._accepting - before:
            if listener not in self._paused:
                self._server.loop.add_reader(listener.fileno(), self._on_acceptable, listener)

    def _on_acceptable(self, listener: BoundSocket) -> None:
        server = self._server
        for _ in range(ACCEPTS_PER_TURN):
            if server.is_full_for(listener) and server.who_gives_way(listener) is None:
                self._let_wait(listener)
                return
            try:
                sock, address = listener.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return
            except OSError as error:
                self._accept_failed(error)
                return
            if server.arrivals is None:
                server.admit(listener, sock, address)
            elif server.arrivals.put_off(sock, plain(address)[0]):
                text = f"{plain(address)[0]} connects more often than its quota connection_creation_rate allows"
                server.log(logging.WARNING, "connection rate of an address", text)
            else:
                server.admit(listener, sock, address)
                if self._pause(listener, server.arrivals.pause_s(listener.endpoint.listener)):
                    return

    def _let_wait(self, listener: BoundSocket) -> None:
        """Lets connections to this listener wait in the backlog. If the broker is full, it lets those to others wait
        too.
        """
        server, name = self._server, listener.endpoint.listener
        if server.has_all(listener):
            key = of_listener(name, CONNECTIONS)
            most = server.limits.of_listener(name)
            open_ones = counted(most, "connection")
            server.log(logging.WARNING, key, f"{open_ones} to {name}, the most that {key} allows: others wait")
        else:
            text = (
                f"{counted(server.count(), 'connection')}, the most that max.connections and the file descriptors "
                "of this process (ulimit -n) allow: others have to wait"
            )
            server.log(logging.WARNING, "max connections", text)
        going_on = self._accepting - {listener}
        self._accept(each for each in going_on if server.is_protected(each) or not server.is_full())
        if server.silent:
            self._try_later(server.limits.silent_s)

    def _pause(self, listener: BoundSocket, pause_s: float) -> bool:
        """Lets connections to the listener wait in the backlog for ``pause_s``; returns False if that is 0."""
        if not pause_s:
            return False
        text = f"more connections come to {listener.endpoint.listener} than max.connection.creation.rate allows"
        self._server.log(logging.INFO, "connection rate", text)
        self._server.loop.remove_reader(listener.fileno())
        self._paused[listener] = self._server.loop.call_later(pause_s, self._go_on, listener)
        return True

    def _go_on(self, listener: BoundSocket) -> None:
        del self._paused[listener]
        if listener in self._accepting:
            self._server.loop.add_reader(listener.fileno(), self._on_acceptable, listener)

    def _accept_failed(self, error: OSError) -> None:
        """Handles a failed accept: if descriptors or memory are exhausted, serves the existing connections and tries
        again later.
        """
        if error.errno not in EXHAUSTED:
            self._server.log(logging.WARNING, "accept", f"a connection could not be accepted: {error}")
            return
        self._server.log(logging.ERROR, "exhausted", f"no more connections for now: {error}")
        self._accept(())
        self._try_later(RETRY_S)

    def _try_later(self, wait_s: float) -> None:
        if self._again is None:
            self._again = self._server.loop.call_later(wait_s, self._on_later)

    def _on_later(self) -> None:
        self._again = None
        self._accept(self._listeners)

    def on_free_place(self) -> None:
        """Resumes accepting connections if a peer that has gone makes room for them."""
        if len(self._accepting) < len(self._listeners):
            self.accept_again()

    def accept_again(self) -> None:
        """Accepts connections at every listener that may have more connections."""
        if not self._server.is_full():
            self._accept(each for each in self._listeners if not self._server.has_all(each))

    def close(self) -> None:
        """Closes the listening sockets. Open connections remain."""
        self._accept(())
        if self._again is not None:
            self._again.cancel()
        for timer in self._paused.values():
            timer.cancel()
        self._paused.clear()
        for listener in self._listeners:
            listener.close()
        self._listeners = []


def plain(address: tuple[str, int] | tuple[str, int, int, int]) -> tuple[str, int]:
    """Returns host and port. An IPv4 address has the form of IPv4, even if the connection came in over IPv6."""
    return address[0].removeprefix("::ffff:"), address[1]
