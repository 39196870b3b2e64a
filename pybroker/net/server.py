"""The connections of clients: how many are accepted, which one is closed to make room, and how long each may stay.

One timer closes overdue connections; it runs only while there are connections.
"""

from __future__ import annotations

import asyncio
import logging
import socket
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from operator import attrgetter, itemgetter
from typing import TYPE_CHECKING, Any, cast

from cy.wire.frames import ReceiveMemory
from pybroker.config import Endpoint
from pybroker.loop_watch import STALL_S, LoopWatch
from pybroker.net.acceptor import Acceptor, BoundSocket, plain
from pybroker.net.channel import Accepted
from pybroker.net.connection import Connection
from pybroker.net.large_messages import LargeMessages
from pybroker.net.limits import UNLIMITED, Limits
from pybroker.net.ratelimit import RateLimitedLog
from pybroker.net.routes import Route, Routes

if TYPE_CHECKING:  # a broker without TLS and quotas saves these imports
    from pybroker.net.quotas.arrival_limits import ArrivalLimits
    from pybroker.net.quotas.throttling import Throttling
    from pybroker.net.sasl_connection import Authenticated, SaslConnection
    from pybroker.net.strangers import Strangers
    from pybroker.net.tls.handshakes import Handshake, Handshakes, Secured
    from pyclient.protocol.tls import TlsLayer

SWEEP_S = (0.02, 5.0)

logger = logging.getLogger("pybroker.net")


class SocketServer:
    """All connections of one event loop."""

    def __init__(
        self,
        routes: Routes,
        limits: Limits,
        loop: asyncio.AbstractEventLoop,
        watch: LoopWatch | None = None,
        on_count: Callable[[int], object] = lambda count: None,
    ) -> None:
        """``on_count`` is called with the number of connections when it has changed."""
        self.routes = routes
        self.watch = watch or LoopWatch(loop)
        self.limits = limits
        self.loop = loop
        self._on_count = on_count
        self.memory = ReceiveMemory(limits.queued_bytes)
        self.log = RateLimitedLog(logger)
        self.connections: set[Connection] = set()
        self.large_messages = LargeMessages(loop)
        self._acceptor = Acceptor(self)
        self._per_ip: Counter[str] = Counter()
        self._per_listener: Counter[str] = Counter()
        self._addresses: dict[tuple[str, int], tuple[str, int]] = {}
        self._authenticated: Mapping[str, Authenticated] = {}
        self.handshakes: dict[str, Handshakes] = {}
        """The handshakes of each TLS listener."""
        self.silent: dict[Connection, None] = {}
        """The connections without SASL that have sent no request yet, the oldest first."""
        self.strangers: dict[str, Strangers[SaslConnection]] = {}
        """The unauthenticated connections of each SASL listener, the oldest first."""
        self.throttling: Throttling | None = None
        """Set while there are quotas of clients."""
        self.notable_s = STALL_S
        self.arrivals: ArrivalLimits | None = None
        """Set while connection rates are limited."""
        self._number = 0
        self._starved: set[Connection] = set()
        self._oldest: tuple[Connection | None, float] = (None, 0.0)
        """The connection whose frame is exempt from the memory limit, and when that frame began to arrive."""
        self._sweep: asyncio.TimerHandle | None = None

    # -- accepting ---------------------------------------------------------------------------------

    def start(
        self,
        listeners: Iterable[BoundSocket],
        secured: Mapping[str, Secured] | None = None,
        authenticated: Mapping[str, Authenticated] | None = None,
    ) -> None:
        """Starts to listen. ``secured`` has the TLS listeners by name, ``authenticated`` the SASL listeners.

        Raises OSError if another process has taken a port since it was bound.
        """
        self._authenticated = authenticated or {}
        for name in self._authenticated:
            from pybroker.net.strangers import Strangers

            self.strangers[name] = Strangers()
        for name, each in (secured or {}).items():
            from pybroker.net.tls.handshakes import Handshakes

            arrived = (self._on_handshake, self._left)
            self.handshakes[name] = Handshakes(name, each, self.loop, self.limits, self.log, *arrived)
        self._on_count(0)
        self._acceptor.start(listeners)

    @property
    def listening(self) -> list[Endpoint]:
        """The endpoints of the listeners, with real ports."""
        return self._acceptor.listening

    def limit(self, limits: Limits) -> None:
        """Applies these limits to later connections and to those that wait in the backlog."""
        self.limits = limits
        self._acceptor.accept_again()

    def count(self) -> int:
        """Returns the number of connections and of handshakes in progress."""
        return len(self.connections) + sum(len(each.open) for each in self.handshakes.values())

    def is_full(self) -> bool:
        """Returns True if a new connection fits only after another one is closed."""
        return self.count() >= self.limits.max_connections

    def has_all(self, listener: BoundSocket) -> bool:
        """Returns True if the listener has as many connections as it may have."""
        name = listener.endpoint.listener
        return self._per_listener[name] >= self.limits.of_listener(name)

    def is_full_for(self, listener: BoundSocket) -> bool:
        """Returns True if a new connection to the listener fits only after another one is closed."""
        return self.is_full() or self.has_all(listener)

    def is_protected(self, listener: BoundSocket) -> bool:
        """Returns True if the listener is the one for the brokers of the cluster."""
        return listener.endpoint.listener == self.limits.protected

    def who_gives_way(self, listener: BoundSocket) -> Callable[[], object] | None:
        """Returns a function that closes one peer for a new one, None if no peer may be closed.

        This is an unauthenticated or silent peer of the largest group, so that such peers keep nobody out. If the
        listener has as many connections as it may have, it is a peer of this listener. If there is no such peer, only
        the listener of brokers may close another connection.
        """
        has_all = self.has_all(listener)
        names = {listener.endpoint.listener} if has_all else {*self.handshakes, *self.strangers}
        handshakes = [each for name, each in self.handshakes.items() if name in names and each.open]
        strangers = [each for name, each in self.strangers.items() if name in names and each]
        crowds: list[tuple[int, Callable[[], object]]] = [(len(each.open), each.give_way) for each in handshakes]
        crowds += [(len(each), next(iter(each)).give_way) for each in strangers]
        oldest = next((each for each in self.silent if not has_all or each.listener_name in names), None)
        if oldest is not None and self.loop.time() - oldest.active_at >= self.limits.silent_s:
            crowds.append((len(self.silent), oldest.give_way))
        if crowds:
            return max(crowds, key=itemgetter(0))[1]
        if has_all or not self.is_protected(listener):
            return None
        others = (each for each in self.connections if each.listener_name != self.limits.protected)
        used = min(others, key=attrgetter("active_at"), default=None)
        return None if used is None else partial(used.give_way, "it was least recently used")

    def admit(self, listener: BoundSocket, sock: socket.socket, address: tuple[str, int]) -> None:
        """Makes a connection of an accepted socket, or begins its handshake. Closes it if its address has too many."""
        peer = plain(address)
        if self._per_ip[peer[0]] >= self.limits.of_address(peer[0]):
            sock.close()
            text = f"closed a new connection of {peer[0]}: it has {self._per_ip[peer[0]]} already"
            self.log(logging.WARNING, "max connections per ip", text)
            return
        try:
            self._prepare(sock)
            local = plain(sock.getsockname())
        except OSError:
            sock.close()
            return
        if self.is_full_for(listener) and (give_way := self.who_gives_way(listener)) is not None:
            give_way()
        local = self._addresses.setdefault(local, local)
        name = listener.endpoint.listener
        self._per_ip[peer[0]] += 1
        self._per_listener[name] += 1
        handshakes = self.handshakes.get(name)
        accepted = Accepted(sock, name, local, peer)
        if handshakes is None:
            self._let_in(accepted)
        else:
            handshakes.begin(accepted)
        self._on_count(self.count())
        if self._sweep is None:
            self._schedule_sweep()

    def _on_handshake(self, handshake: Handshake, tls: TlsLayer, principal: str) -> None:
        """Makes a connection of a completed TLS handshake."""
        from pybroker.net.tls.frames import TlsReader, TlsSendQueue

        reader = TlsReader(tls, self.memory, self.limits.max_request_bytes)
        accepted = handshake.accepted._replace(reader=reader, out=TlsSendQueue(tls), principal=principal)
        self._let_in(accepted).resume()

    def _let_in(self, accepted: Accepted) -> Connection:
        """Makes a connection, of the kind that its listener has."""
        self._number += 1
        authenticated = self._authenticated.get(accepted.listener_name)
        if authenticated is None:
            connection = Connection(self, self._number, accepted)
            self.silent[connection] = None
        else:
            from pybroker.net.sasl_connection import SaslConnection

            connection = SaslConnection(authenticated.begin(), self, self._number, accepted)
        self.connections.add(connection)
        return connection

    def _prepare(self, sock: socket.socket) -> None:
        sock.setblocking(False)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        if self.limits.send_buffer > 0:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, self.limits.send_buffer)
        if self.limits.receive_buffer > 0:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, self.limits.receive_buffer)

    # -- quotas ------------------------------------------------------------------------------------

    def throttle(self, throttling: Throttling | None) -> None:
        """Sets new quotas of clients; clients that wait because of the old ones continue."""
        if self.throttling is not None:
            self.throttling.unmute_all()
        self.throttling = throttling
        self.notable_s = 0.0 if throttling is not None and throttling.counts_time else STALL_S

    def visited(self, route: Route | None, call: Any, took_s: float) -> None:
        """Handles a visit that took long, or whose time counts for a quota."""
        if took_s > STALL_S:
            self.watch.stalled(took_s, "nothing" if route is None else route.name)
        if self.throttling is not None and call is not None:
            self.throttling.spent(call, took_s)

    # -- monitoring --------------------------------------------------------------------------------

    def closed(self, connection: Connection) -> None:
        """Forgets a connection that has closed."""
        self.connections.discard(connection)
        self.silent.pop(connection, None)
        if connection.sasl is not None:
            self.strangers[connection.listener_name].drop(cast("SaslConnection", connection))
        self._starved.discard(connection)
        if self.throttling is not None:
            self.throttling.forget(connection)
        self._left(connection)

    def _left(self, gone: Connection | Handshake) -> None:
        """Stops counting a peer, and so makes room for another."""
        host = gone.peer_address[0]
        self._per_ip[host] -= 1
        if not self._per_ip[host]:
            del self._per_ip[host]
        self._per_listener[gone.listener_name] -= 1
        self._on_count(self.count())
        self._acceptor.on_free_place()

    def starve(self, connection: Connection) -> None:
        """Lets ``connection`` wait because the memory for incomplete frames is at its limit."""
        self.log(
            logging.WARNING,
            "starved",
            f"queued.max.request.bytes={self.limits.queued_bytes} reached: not reading for now",
        )
        if not self._starved:
            self.loop.call_later(SWEEP_S[0], self._feed)
        self._starved.add(connection)

    def _feed(self) -> None:
        """Resumes a waiting connection each time that memory is free.

        If incomplete frames take all memory, none could ever complete. So the oldest one may exceed the limit until it
        is complete.
        """
        oldest, since = self._oldest
        if oldest is None or oldest.partial_since != since:
            oldest = min(self._starved, key=attrgetter("partial_since"), default=None)
            self._oldest = oldest, 0.0 if oldest is None else oldest.partial_since
        if oldest in self._starved:
            self._starved.discard(oldest)
            limit, self.memory.limit = self.memory.limit, UNLIMITED
            try:
                oldest.receive_now()
            finally:
                self.memory.limit = limit
        if self._starved and self.memory.taken < self.memory.limit:
            self._starved.pop().resume()
        if self._starved:
            self.loop.call_later(SWEEP_S[0], self._feed)

    def _schedule_sweep(self) -> None:
        shortest = min(self.limits.idle_ms / 1000, self.limits.frame_grace_s)
        delay = min(max(shortest / 4, SWEEP_S[0]), SWEEP_S[1])
        self._sweep = self.loop.call_later(delay, self._on_sweep)

    def _on_sweep(self) -> None:
        """Closes overdue connections; stops if none is left."""
        now = self.loop.time()
        for connection in [each for each in self.connections if each.is_overdue(now)]:
            why = connection.is_overdue(now)
            self.log(
                logging.DEBUG if why == "idle" else logging.INFO,
                "overdue",
                f"closed {connection.id}: {why}",
            )
            connection.close()
        for handshakes in self.handshakes.values():
            handshakes.sweep(now)
        self._sweep = None
        if self.count():
            self._schedule_sweep()
        else:
            self.memory.trim()

    # -- shutting down -----------------------------------------------------------------------------

    def stop_accepting(self) -> None:
        """Closes the listening sockets; connections stay open."""
        self._acceptor.close()
        if self.arrivals is not None:
            self.arrivals.close()

    async def close(self, grace_s: float = 1.0) -> None:
        """Waits at most ``grace_s`` for requests in progress, then closes everything."""
        self.stop_accepting()
        for handshakes in self.handshakes.values():
            handshakes.close()
        deadline = self.loop.time() + grace_s
        while self.connections and self.loop.time() < deadline:
            for connection in [each for each in self.connections if each.is_quiet()]:
                connection.close()
            await asyncio.sleep(SWEEP_S[0])
        for connection in list(self.connections):
            connection.close()
        self.large_messages.close()
        if self._sweep is not None:
            self._sweep.cancel()
            self._sweep = None
