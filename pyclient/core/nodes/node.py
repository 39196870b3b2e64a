"""A broker from the client's view: an address, perhaps a connection, and requests that wait.

    idle -> connecting -> ready -> idle (lost, idle for long, moved) -> waiting for back-off -> …
                          ready -> authenticating again -> ready

A request that is posted without a connection opens one and waits for it, behind earlier requests. If connecting fails,
all waiting requests fail with ConnectionFailed. The next request makes the next attempt, after the back-off at the
earliest. When a connection is lost, requests in flight fail with ConnectionLost, in their order. While a connection
authenticates again, which brokers may demand from time to time, requests wait.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import math
import ssl
from collections import deque
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Final, TypeVar

from cy.wire.buffer import EncodeError
from cy.wire.frames import ReceiveMemory
from pyclient.config import Config
from pyclient.config.security import BY_SASL
from pyclient.core.backoff import Backoff, delay
from pyclient.core.nodes.addresses import Addresses
from pyclient.core.nodes.connection import Connection, Pending
from pyclient.core.nodes.transport import ANY_BROKER, Meant, SocketOptions, Transport, deliver, handshake, open_socket
from pyclient.core.nodes.versions import Versions
from pyclient.core.reports import last_resort
from pyclient.core.reports.outages import AGAIN_S, FIRST_S
from pyclient.core.security import tls_trouble
from pyclient.core.security.secured import PHASE, secured
from pyclient.errors import (
    ClientError,
    ConnectionFailed,
    ConnectionLost,
    KafkaError,
    RequestTimedOut,
)
from pyclient.protocol.errors import RebootstrapRequired
from pyclient.protocol.tls import TlsPipe

if TYPE_CHECKING:
    from pyclient.core.security.sasl import Sasl

T = TypeVar("T")
LOG: Final = logging.getLogger("pyclient")
last_resort.install()


class NodeSettings:
    """The settings that all nodes of a client share. Times are in seconds."""

    def __init__(self, config: Config, random: Callable[[], float]) -> None:
        self.client_id: str = config.client_id
        self.random = random
        self.reconnect = (config.reconnect_backoff_ms / 1000, config.reconnect_backoff_max_ms / 1000)
        self.setup = (
            config.socket_connection_setup_timeout_ms / 1000,
            config.socket_connection_setup_timeout_max_ms / 1000,
        )
        self.patience = float("inf")
        """The most seconds for one server while there are others to try."""
        self.meant: Callable[[int], Meant] = lambda node: ANY_BROKER
        """Returns the cluster and the broker expected at a node (KIP-1242)."""
        self.on_misrouted: Callable[[], None] = lambda: None
        """Called when another broker than the expected one has answered."""
        self.request_timeout = config.request_timeout_ms / 1000
        self.options = SocketOptions(config.send_buffer_bytes, config.receive_buffer_bytes)
        self.memory = ReceiveMemory()
        self.secured = secured(config)
        """The client's TLS; None means plain text."""
        self.protocol: str = config.security_protocol
        self.sasl: Sasl | None = None
        if self.protocol in BY_SASL:
            from pyclient.core.security.sasl import sasl

            self.sasl = sasl(config, random)

    def close(self) -> None:
        """Ends the background work of the authentication."""
        if self.sasl is not None:
            self.sasl.close()


class Node:
    """Sends requests to one broker, in order. ``id`` is negative for a bootstrap server."""

    def __init__(
        self,
        id: int,
        host: str,
        port: int,
        settings: NodeSettings,
        loop: asyncio.AbstractEventLoop,
        clock: Callable[[], float],
        *,
        on_outage: Callable[[Node, ConnectionFailed], None] = lambda node, error: None,
        on_reached: Callable[[Node], None] = lambda node: None,
        on_left: Callable[[Node], None] = lambda node: None,
    ) -> None:
        """``on_outage`` is called after ``FIRST_S`` of failed attempts, and at each failed attempt after that. Attempts
        that are more than ``AGAIN_S`` apart do not belong to one outage. ``on_left`` is called when the address is
        given up.
        """
        self.id = id
        self.host = host
        self.port = port
        self.versions: Versions | None = None
        """The versions of the last connection."""
        self.trouble: ConnectionFailed | None = None
        """Why the last attempt to connect failed; None if it succeeded."""
        self.was_reached = False
        """Whether this address has answered before."""
        self._was_served = self._has_warned = False
        self._ready_at = 0.0
        self._on_outage, self._on_reached, self._on_left = on_outage, on_reached, on_left
        self._tried_since: float | None = None
        self._patience: asyncio.TimerHandle | None = None
        self._phase = "connect"
        self._addresses = Addresses()
        self._settings = settings
        self._loop = loop
        self._clock = clock
        self._waiting: deque[Pending] = deque()
        self._transport: Transport | None = None
        self._gate: Transport | None = None
        """The connection if requests may be sent on it: not while it authenticates again."""
        self._renewal: asyncio.TimerHandle | None = None
        self._connecting: asyncio.Task[None] | None = None
        self._backoff = Backoff(*settings.reconnect, settings.random)
        self._retry_at = 0.0
        self._timer: asyncio.TimerHandle | None = None
        self._timer_at = float("inf")

    # -- state -------------------------------------------------------------------------------------

    @property
    def is_ready(self) -> bool:
        """Whether there is a connection and its versions are known."""
        return self._gate is not None

    @property
    def unused(self) -> Transport | None:
        """The connection, if there is one without requests that wait or are in flight."""
        transport = self._gate
        return None if transport is None or transport.connection.is_busy else transport

    @property
    def is_connecting(self) -> bool:
        """Whether a connection is being opened or waited for."""
        return self._connecting is not None

    def is_backing_off(self, now: float) -> bool:
        """Returns whether the last connection failed, and it is too early for the next."""
        return now < self._retry_at

    @property
    def in_flight(self) -> int:
        """The number of requests that wait to be sent or answered."""
        transport = self._transport
        return len(self._waiting) + (0 if transport is None else len(transport.connection))

    @property
    def name(self) -> str:
        """The node's address: ``host:port``."""
        return f"{self.host}:{self.port}"

    def idle_since(self) -> float | None:
        """Returns the loop's time when an unused connection was last used."""
        transport = self._transport
        return None if transport is None or transport.connection.is_busy else transport.used_at

    # -- requests ----------------------------------------------------------------------------------

    def post(self, request: Pending) -> None:
        """Sends the request now, or when there is a connection. ``on_done`` is never called before this returns."""
        if self._gate is not None:
            self._write(self._gate, request)
        else:
            self._waiting.append(request)
            self._connect_soon()
        if request.deadline < self._timer_at:
            self._set_timer(request.deadline)

    def _write(self, transport: Transport, request: Pending) -> None:
        assert self.versions is not None
        try:
            version = self.versions.choose(request.api, request.max_version)
            transport.send(request, version)
        except KafkaError as error:
            self._loop.call_soon(deliver, self._loop, request, None, error)
        except EncodeError as error:
            fault = ClientError(f"{request.api.name}: {error}")
            self._loop.call_soon(deliver, self._loop, request, None, fault)

    # -- connecting --------------------------------------------------------------------------------

    def silence(self) -> ConnectionFailed:
        """Returns the error for a server that has not answered so far."""
        return ConnectionFailed(self.name, self._phase, "no answer")

    def _connect_soon(self) -> None:
        if self._connecting is None:
            if self._clock() - self._retry_at > AGAIN_S:  # no attempt for so long: no outage is known
                self._end_outage()
            self._connecting = self._loop.create_task(self._connect())
        if self._tried_since is None:
            self._tried_since = self._clock()
            self._patience = self._loop.call_later(FIRST_S, self._tell)

    def _tell(self) -> None:
        """Reports an outage once attempts have failed for ``FIRST_S``, if they still continue."""
        if self._transport is None and (self._connecting is not None or self._waiting):
            self._on_outage(self, self.trouble or self.silence())

    async def _connect(self) -> None:
        try:
            wait = self._retry_at - self._clock()
            if wait > 0:
                await asyncio.sleep(wait)
            transport, lifetime = await self._open()
        except ConnectionFailed as error:
            self._connecting = None
            self._refused(error)
        except BaseException:
            self._connecting = None
            raise
        else:
            self._connecting = None
            self._ready(transport)
            self._renew_later(transport, lifetime)

    async def _open(self) -> tuple[Transport, float]:
        """Returns a connection after its handshake, and its lifetime in seconds. Raises ConnectionFailed."""
        settings = self._settings
        timeout = min(delay(*settings.setup, self._backoff.failures), settings.patience)
        host, port = self.host, self.port
        if settings.sasl is not None:
            await self._in_time(timeout, settings.sasl.token_phase, settings.sasl.ready())
        self._phase = "connect"
        end = self._clock() + timeout
        sock = await open_socket(self._loop, host, port, timeout, settings.options, self._addresses)
        pipe = None
        if settings.secured is not None:
            self._phase = PHASE
            pipe = await settings.secured.shake(self._loop, sock, host, port, end - self._clock())
        transport = Transport(
            self._loop, sock, settings.memory, Connection(settings.client_id), self._on_lost, pipe
        )
        try:
            lifetime = await self._greet(transport, min(timeout, settings.request_timeout))
        except KafkaError as error:
            transport.close()
            if isinstance(error, ConnectionFailed):
                raise
            raise self._unshaken(getattr(error, "cause", None) or error, pipe) from error
        except BaseException:
            transport.close()
            raise
        if transport.is_closed:
            raise ConnectionFailed(self.name, self._phase, "closed by the broker")
        transport.greeted()
        return transport, lifetime

    async def _greet(self, transport: Transport, timeout: float) -> float:
        """Asks for the versions, and authenticates. Returns the session's lifetime in seconds. Raises KafkaError."""
        sasl = self._settings.sasl
        shake = handshake(transport, self._loop, self._settings.meant(self.id))
        self.versions = versions = await self._in_time(timeout, "handshake", shake)
        if sasl is None:
            return math.inf
        return await self._in_time(timeout, sasl.phase, sasl.authenticate(transport, versions, self.name))

    async def _in_time(self, timeout: float, phase: str, work: Awaitable[T]) -> T:
        """Returns the result of ``work``, a phase of connecting. Raises ConnectionFailed after ``timeout`` seconds."""
        self._phase = phase
        try:
            async with asyncio.timeout(timeout):
                return await work
        except TimeoutError:
            raise ConnectionFailed(self.name, phase, f"no answer in {timeout:.3g} s") from None

    def _unshaken(self, cause: Exception, pipe: TlsPipe | None) -> ConnectionFailed:
        """Returns the error for a broker that did not answer the first requests."""
        settings, advice = self._settings, ""
        if settings.secured is not None and isinstance(cause, ssl.SSLError):
            return settings.secured.failure(cause, self.host, self.port, pipe)
        if settings.sasl is not None and self._phase == settings.sasl.phase:
            advice = settings.sasl.failure()
        elif not self.was_reached:
            has_key = None if settings.secured is None else settings.secured.has_key
            advice = tls_trouble.advice(cause, has_key, settings.protocol)
        return ConnectionFailed(self.name, self._phase, cause, advice)

    def _ready(self, transport: Transport) -> None:
        self._transport = self._gate = transport
        self._ready_at = transport.used_at
        self._backoff.reset()
        self._retry_at = 0.0
        self._addresses.works()
        self.trouble = None
        self.was_reached = True
        self._end_outage()
        self._on_reached(self)
        self._write_waiting(transport)

    def _write_waiting(self, transport: Transport) -> None:
        waiting, self._waiting = self._waiting, deque()
        for request in waiting:
            self._write(transport, request)
        LOG.debug("%s: connected; it serves %s", self.name, self.versions)

    def _end_outage(self) -> None:
        self._tried_since = None
        if self._patience is not None:
            self._patience.cancel()

    def _refused(self, error: ConnectionFailed) -> None:
        """Handles a failed attempt to connect: waiting calls fail."""
        level = logging.WARNING if self.trouble is None else logging.DEBUG
        wait = self._backoff.next()
        self.trouble = error
        self._retry_at = self._clock() + wait
        if self._tried_since is not None and self._clock() - self._tried_since >= FIRST_S:
            self._on_outage(self, error)
        if isinstance(error.cause, RebootstrapRequired):
            self._settings.on_misrouted()
        waiting, self._waiting = self._waiting, deque()
        for request in waiting:
            deliver(self._loop, request, None, error)
        LOG.log(level, "%s; the next attempt in %.3g s or later", error, wait)  # last: a log handler may raise

    # -- authenticating again ----------------------------------------------------------------------

    def _renew_later(self, transport: Transport, lifetime: float) -> None:
        """Plans to authenticate again before the broker ends the connection, which it granted for ``lifetime`` seconds.
        """
        sasl = self._settings.sasl
        if sasl is not None and lifetime < math.inf and transport is self._transport:
            wait = sasl.renewal_in(lifetime, self._settings.random)
            self._renewal = self._loop.call_later(wait, self._begin_renewal, transport, sasl)

    def _begin_renewal(self, transport: Transport, sasl: Sasl) -> None:
        if transport is self._transport:
            self._gate = None
            self._connecting = self._loop.create_task(self._renew(transport, sasl))

    async def _renew(self, transport: Transport, sasl: Sasl) -> None:
        """Authenticates again on a connection in use; requests in flight there are answered first."""
        assert self.versions is not None
        used_at, timeout = transport.used_at, self._settings.request_timeout
        try:
            await self._in_time(timeout, sasl.token_phase, sasl.ready())
            again = sasl.authenticate(transport, self.versions, self.name)
            lifetime = await self._in_time(timeout, sasl.phase, again)
        except KafkaError as error:
            self._connecting = None
            if transport is self._transport:
                self.disconnect(error)
            if isinstance(error, ConnectionFailed):
                self._refused(error)
            elif self._waiting:
                self._connect_soon()
        except BaseException:
            self._connecting = None
            raise
        else:
            self._connecting = None
            if transport is self._transport:
                transport.used_at = used_at
                self._gate = transport
                self._write_waiting(transport)
                self._renew_later(transport, lifetime)

    # -- the end of a connection -------------------------------------------------------------------

    def _on_lost(self, transport: Transport, cause: Exception | str) -> None:
        """Handles the end of the socket, also during the handshake. The requests in flight on it fail."""
        if transport is self._transport:
            self._transport = self._gate = None
            self._retry_at = self._clock() + self._backoff.next()
            self._was_served |= transport.used_at > self._ready_at
            LOG.debug("%s: the connection is lost: %s", self.name, cause)
        lost = transport.connection.take_all()
        self._fail(lost, cause, self._advice_of_loss(cause) if lost and self.was_reached else "")

    def _advice_of_loss(self, cause: Exception | str) -> str:
        """Returns advice for a lost connection. A SASL listener answers ApiVersions to all clients, and then closes
        connections that do not authenticate.
        """
        settings = self._settings
        if self._was_served or settings.sasl is not None or not isinstance(cause, EOFError | ConnectionError):
            return ""
        advice = tls_trouble.IS_PROTOCOL_RIGHT.format(settings.protocol)
        if not self._has_warned:
            self._has_warned = True
            text = "%s: closed by the broker before it answered%s; still trying"
            LOG.warning(text, self.name, advice, extra={last_resort.URGENT: True})
        return advice

    def _fail(self, requests: list[Pending], cause: Exception | str, advice: str = "") -> None:
        for request in requests:
            error = ConnectionLost(self.name, request.api.name, cause, advice)
            deliver(self._loop, request, None, error)

    def disconnect(self, cause: Exception | str) -> None:
        """Ends the connection. Requests in flight fail with ConnectionLost."""
        transport, self._transport, self._gate = self._transport, None, None
        if transport is not None:
            transport.close()
            self._fail(transport.connection.take_all(), cause)

    def move(self, host: str, port: int) -> None:
        """Changes the broker's address."""
        if (host, port) != (self.host, self.port):
            self.disconnect(f"the broker moved to {host}:{port}")
            self._on_left(self)
            self.host, self.port = host, port
            self._addresses = Addresses()
            self._retry_at = 0.0
            self.was_reached = self._was_served = self._has_warned = False
            self._end_outage()

    def close(self, error: KafkaError) -> None:
        """Ends the connection and fails all requests with ``error``."""
        if self._connecting is not None:
            self._connecting.cancel()
        self._end_outage()
        self._on_left(self)
        if self._timer is not None:
            self._timer.cancel()
        if self._renewal is not None:
            self._renewal.cancel()
        transport, self._transport, self._gate = self._transport, None, None
        requests = list(self._waiting)
        self._waiting.clear()
        if transport is not None:
            transport.close()
            requests = transport.connection.take_all() + requests
        for request in requests:
            deliver(self._loop, request, None, error)

    # -- deadlines ---------------------------------------------------------------------------------

    def _set_timer(self, at: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer_at = at
        self._timer = self._loop.call_later(max(0.0, at - self._clock()), self._on_timer)

    def _on_timer(self) -> None:
        self._timer, self._timer_at = None, float("inf")
        now = self._clock()
        self._drop_overdue(now)
        transport = self._transport
        if transport is not None:
            first = transport.connection.earliest_deadline()
            if first is not None and first <= now:
                self._end_overdue(transport, now)
        self._rearm()

    def _drop_overdue(self, now: float) -> None:
        """Fails requests that waited too long for a connection."""
        overdue = [request for request in self._waiting if request.deadline <= now]
        for request in overdue:
            with contextlib.suppress(ValueError):  # a callback may have closed the node
                self._waiting.remove(request)
                deliver(self._loop, request, None, self._timed_out(request))

    def _end_overdue(self, transport: Transport, now: float) -> None:
        """Ends the connection after a missing response, because the broker may hang."""
        self._transport = self._gate = None
        self._retry_at = now + self._backoff.next()
        transport.close()
        for request in transport.connection.take_all():
            late = request.deadline <= now
            error = self._timed_out(request) if late else self._dropped(request)
            deliver(self._loop, request, None, error)

    def _timed_out(self, request: Pending) -> KafkaError:
        return RequestTimedOut(f"{self.name}: {request.api.name}: no response in time")

    def _dropped(self, request: Pending) -> KafkaError:
        return ConnectionLost(self.name, request.api.name, "another request was not answered in time")

    def _rearm(self) -> None:
        deadlines = [request.deadline for request in self._waiting]
        if self._transport is not None:
            first = self._transport.connection.earliest_deadline()
            if first is not None:
                deadlines.append(first)
        if deadlines:
            first = min(deadlines)
            if first < self._timer_at:
                self._set_timer(first)
