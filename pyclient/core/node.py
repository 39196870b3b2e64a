"""A broker as a client sees it: an address, a connection when there is one, requests that wait.

    idle -> connecting -> ready -> idle (lost, idle for long, moved) -> waiting for back-off -> …

A request that is posted while there is no connection causes one and waits for it, behind those
posted before. When connecting fails, all that wait fail with ConnectionFailed; the next attempt is
made for the next request, no sooner than the back-off after it. When a connection is lost, what was
in flight fails with ConnectionLost, in the order of the requests.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import ssl
from collections import deque
from collections.abc import Callable
from typing import Final

from cy.wire.buffer import EncodeError
from cy.wire.frames import ReceiveMemory
from pyclient.config import Config
from pyclient.core import last_resort, tls_trouble
from pyclient.core.addresses import Addresses
from pyclient.core.backoff import Backoff, delay
from pyclient.core.connection import Connection, Pending
from pyclient.core.outages import AGAIN_S, FIRST_S
from pyclient.core.secured import PHASE, secured
from pyclient.core.transport import SocketOptions, Transport, deliver, handshake, open_socket
from pyclient.core.versions import Versions
from pyclient.errors import (
    ClientError,
    ConnectionFailed,
    ConnectionLost,
    KafkaError,
    RequestTimedOut,
)
from pyclient.protocol.tls import TlsPipe

LOG: Final = logging.getLogger("pyclient")
last_resort.install()


class NodeSettings:
    """What all nodes of a client share; times in seconds."""

    def __init__(self, config: Config, random: Callable[[], float]) -> None:
        self.client_id: str = config.client_id
        self.random = random
        self.reconnect = (config.reconnect_backoff_ms / 1000, config.reconnect_backoff_max_ms / 1000)
        self.setup = (
            config.socket_connection_setup_timeout_ms / 1000,
            config.socket_connection_setup_timeout_max_ms / 1000,
        )
        self.patience = float("inf")
        """With one server while there are others to try."""
        self.request_timeout = config.request_timeout_ms / 1000
        self.options = SocketOptions(config.send_buffer_bytes, config.receive_buffer_bytes)
        self.memory = ReceiveMemory()
        self.secured = secured(config)
        """None: in plain text."""


class Node:
    """Requests to one broker, in order. ``id`` is negative for a bootstrap server."""

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
        """``on_outage`` is called when it was tried in vain for ``FIRST_S``, and at each vain attempt after that;
        attempts that are more than ``AGAIN_S`` apart are none of one outage. ``on_left``: when the address is given up.
        """
        self.id = id
        self.host = host
        self.port = port
        self.versions: Versions | None = None
        """Of the last connection."""
        self.trouble: ConnectionFailed | None = None
        """Why the last attempt to connect failed; None after one that did not."""
        self.was_reached = False
        """At this address."""
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
        self._connecting: asyncio.Task[None] | None = None
        self._backoff = Backoff(*settings.reconnect, settings.random)
        self._retry_at = 0.0
        self._timer: asyncio.TimerHandle | None = None
        self._timer_at = float("inf")

    # -- state -------------------------------------------------------------------------------------

    @property
    def is_ready(self) -> bool:
        """Connected, and its versions are known."""
        return self._transport is not None

    @property
    def unused(self) -> Transport | None:
        """The connection, if there is one, and nothing waits or is under way there."""
        transport = self._transport
        return None if transport is None or transport.connection.is_busy else transport

    @property
    def is_connecting(self) -> bool:
        """A connection is being made, or waited for."""
        return self._connecting is not None

    def is_backing_off(self, now: float) -> bool:
        """The last connection failed, and it is too early for the next."""
        return now < self._retry_at

    @property
    def in_flight(self) -> int:
        """Requests that wait, to be sent or answered."""
        transport = self._transport
        return len(self._waiting) + (0 if transport is None else len(transport.connection))

    @property
    def name(self) -> str:
        """``host:port``"""
        return f"{self.host}:{self.port}"

    def idle_since(self) -> float | None:
        """The loop's time when an unused connection was last used."""
        transport = self._transport
        return None if transport is None or transport.connection.is_busy else transport.used_at

    # -- requests ----------------------------------------------------------------------------------

    def post(self, request: Pending) -> None:
        """Sends the request now or when there is a connection. ``on_done`` is never called before
        this returns.
        """
        if self._transport is not None:
            self._write(self._transport, request)
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
        """What to say of a server that has neither been reached nor refused."""
        return ConnectionFailed(self.name, self._phase, "no answer")

    def _connect_soon(self) -> None:
        if self._connecting is None:
            if self._clock() - self._retry_at > AGAIN_S:  # no attempt for that long: no outage is known
                self._end_outage()
            self._connecting = self._loop.create_task(self._connect())
        if self._tried_since is None:
            self._tried_since = self._clock()
            self._patience = self._loop.call_later(FIRST_S, self._tell)

    def _tell(self) -> None:
        """Reports an outage after enough time of failed attempts, if attempts still go on."""
        if self._transport is None and (self._connecting is not None or self._waiting):
            self._on_outage(self, self.trouble or self.silence())

    async def _connect(self) -> None:
        try:
            wait = self._retry_at - self._clock()
            if wait > 0:
                await asyncio.sleep(wait)
            transport = await self._open()
        except ConnectionFailed as error:
            self._connecting = None
            self._refused(error)
        except BaseException:
            self._connecting = None
            raise
        else:
            self._connecting = None
            self._ready(transport)

    async def _open(self) -> Transport:
        """A connection that has shaken hands. Raises ConnectionFailed."""
        settings = self._settings
        timeout = min(delay(*settings.setup, self._backoff.failures), settings.patience)
        host, port = self.host, self.port
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
        self._phase = "handshake"
        timeout = min(timeout, settings.request_timeout)
        try:
            async with asyncio.timeout(timeout):
                versions = await handshake(transport, self._loop)
        except TimeoutError:
            transport.close()
            raise ConnectionFailed(f"{host}:{port}", "handshake", f"no answer in {timeout:.3g} s") from None
        except KafkaError as error:
            transport.close()
            raise self._unshaken(getattr(error, "cause", None) or error, pipe) from error
        except BaseException:
            transport.close()
            raise
        if transport.is_closed:
            raise ConnectionFailed(f"{host}:{port}", "handshake", "closed by the broker")
        self.versions = versions
        return transport

    def _unshaken(self, cause: Exception, pipe: TlsPipe | None) -> ConnectionFailed:
        """Why there was no answer to the first request."""
        secured = self._settings.secured
        if secured is not None and isinstance(cause, ssl.SSLError):
            return secured.failure(cause, self.host, self.port, pipe)
        advice = "" if self.was_reached else tls_trouble.advice(cause, None if secured is None else secured.has_key)
        return ConnectionFailed(self.name, "handshake", cause, advice)

    def _ready(self, transport: Transport) -> None:
        self._transport = transport
        self._backoff.reset()
        self._retry_at = 0.0
        self._addresses.works()
        self.trouble = None
        self.was_reached = True
        self._end_outage()
        self._on_reached(self)
        waiting, self._waiting = self._waiting, deque()
        for request in waiting:
            self._write(transport, request)

    def _end_outage(self) -> None:
        self._tried_since = None
        if self._patience is not None:
            self._patience.cancel()

    def _refused(self, error: ConnectionFailed) -> None:
        """There is no connection: calls that wait for it fail."""
        level = logging.WARNING if self.trouble is None else logging.DEBUG
        wait = self._backoff.next()
        self.trouble = error
        self._retry_at = self._clock() + wait
        if self._tried_since is not None and self._clock() - self._tried_since >= FIRST_S:
            self._on_outage(self, error)
        waiting, self._waiting = self._waiting, deque()
        for request in waiting:
            deliver(self._loop, request, None, error)
        LOG.log(level, "%s; the next attempt in %.3g s or later", error, wait)  # last: a handler may raise

    # -- the end of a connection -------------------------------------------------------------------

    def _on_lost(self, transport: Transport, cause: Exception | str) -> None:
        """The socket has ended; also during the handshake, which then is what was in flight."""
        if transport is self._transport:
            self._transport = None
            self._retry_at = self._clock() + self._backoff.next()
            LOG.debug("%s: lost: %s", self.name, cause)
        self._fail(transport.connection.take_all(), cause)

    def _fail(self, requests: list[Pending], cause: Exception | str) -> None:
        for request in requests:
            error = ConnectionLost(self.name, request.api.name, cause)
            deliver(self._loop, request, None, error)

    def disconnect(self, cause: Exception | str) -> None:
        """Ends the connection; requests in flight fail with ConnectionLost."""
        transport, self._transport = self._transport, None
        if transport is not None:
            transport.close()
            self._fail(transport.connection.take_all(), cause)

    def move(self, host: str, port: int) -> None:
        """The broker has another address now."""
        if (host, port) != (self.host, self.port):
            self.disconnect(f"the broker moved to {host}:{port}")
            self._on_left(self)
            self.host, self.port = host, port
            self._addresses = Addresses()
            self._retry_at = 0.0
            self.was_reached = False
            self._end_outage()

    def close(self, error: KafkaError) -> None:
        """Ends the connection and fails all requests with ``error``."""
        if self._connecting is not None:
            self._connecting.cancel()
        self._end_outage()
        self._on_left(self)
        if self._timer is not None:
            self._timer.cancel()
        transport, self._transport = self._transport, None
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
        """Requests that waited too long for a connection."""
        overdue = [request for request in self._waiting if request.deadline <= now]
        for request in overdue:
            with contextlib.suppress(ValueError):  # a callback may have closed the node
                self._waiting.remove(request)
                deliver(self._loop, request, None, self._timed_out(request))

    def _end_overdue(self, transport: Transport, now: float) -> None:
        """A response is missing: the connection ends, as the broker may be stuck."""
        self._transport = None
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
