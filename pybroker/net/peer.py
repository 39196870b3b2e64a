"""Requests to the other brokers of the cluster.

There is one connection per broker and *purpose*, because answers come in the order of the requests. A request that
waits long (a follower's fetch, a marker, a deletion on behalf of a client) must not delay an urgent one (a change of
the ISR). A connection is made when there is a request to send, to the broker's address in the metadata. It
authenticates first (``cluster.peer_secret``). When the broker registers again, the old connection ends at once. After
a failure, the next attempt waits 20 ms; each further failure doubles the wait, up to a second.

No request is sent twice. If its connection is lost, a request fails with NETWORK_EXCEPTION. If the answer does not come
in time, it fails with REQUEST_TIMED_OUT and its connection is closed. The caller knows which requests it may repeat.
"""

from __future__ import annotations

import asyncio
import logging
import random
import socket
import ssl
from collections.abc import Callable, Mapping
from typing import Any, Final

import pyclient.protocol
from cy.wire.buffer import EncodeError
from cy.wire.frames import ReceiveMemory
from cy.wire.messages import Message
from pybroker.cluster.metadata.image import BrokerRegistration, MetadataDelta, MetadataImage
from pybroker.cluster.peer_secret import NotAPeer
from pybroker.config import Endpoint
from pybroker.config.listeners import PLAIN
from pybroker.net.peer_connection import Login, PeerConnection, connect
from pyclient.protocol import errors
from pyclient.protocol.answers import OnDone, answer_on
from pyclient.protocol.apis import Api
from pyclient.protocol.tls import Tls, TlsPipe

CONTROL: Final = "control"
TIMEOUT_MS: Final = 30_000
FIRST_PAUSE_S: Final = 0.02
LONGEST_PAUSE_S: Final = 1.0

logger = logging.getLogger("pybroker.net.peer")


class Waiting:
    """A request that waits for the connection, then for its response."""

    __slots__ = ("_on_done", "api", "message", "timer")

    def __init__(self, api: Api, message: Message, on_done: OnDone) -> None:
        self.api = api
        self.message = message
        self._on_done: OnDone | None = on_done
        self.timer: asyncio.TimerHandle | None = None

    @property
    def is_done(self) -> bool:
        return self._on_done is None

    def done(self, response: Any, error: errors.KafkaError | None) -> None:
        """Calls ``on_done``, at most once."""
        on_done, self._on_done = self._on_done, None
        if self.timer is not None:
            self.timer.cancel()
        if on_done is not None:
            on_done(response, error)


class Peer:
    """The connection to one broker for one purpose.

        idle -> connecting -> ready -> idle (lost, or moved) -> …
    """

    def __init__(self, peers: Peers, node_id: int) -> None:
        self._peers = peers
        self._loop = peers.loop
        self.node_id = node_id
        self._waiting: list[Waiting] = []
        self._connection: PeerConnection | None = None
        self._connecting: asyncio.Task[None] | None = None
        self._pause_s = 0.0
        self._retry_at = 0.0

    def post(self, request: Waiting, timeout_ms: int) -> None:
        """Sends the request, now or when there is a connection."""
        request.timer = self._loop.call_later(timeout_ms / 1000, self._on_timeout, request)
        if self._connection is not None:
            self._send(self._connection, request)
            return
        self._waiting.append(request)
        if self._connecting is None:
            self._connecting = self._loop.create_task(self._connect())

    def _send(self, connection: PeerConnection, request: Waiting) -> None:
        try:
            connection.send(request.api, connection.version_of(request.api), request.message, request.done)
        except EncodeError as error:
            self._loop.call_soon(request.done, None, errors.UnknownServerError(f"{request.api.name}: {error}"))

    def _on_timeout(self, request: Waiting) -> None:
        """Fails the request, and closes the connection: the other broker may be stuck, so its other requests fail too.
        """
        if request.is_done:
            return
        if request in self._waiting:
            self._waiting.remove(request)
        text = f"{request.api.name}: broker {self.node_id} has not answered"
        request.done(None, errors.RequestTimedOut(text))
        if self._connection is not None:
            self._connection.lose(text)

    # Connecting

    async def _connect(self) -> None:
        try:
            while self._waiting:
                await asyncio.sleep(max(0.0, self._retry_at - self._loop.time()))
                endpoint = self._peers.endpoint(self.node_id)
                if endpoint is None:
                    lacking = f"has no listener for brokers that is {self._peers.protocol}"
                    text = f"broker {self.node_id} is not registered, or {lacking}"
                    self._fail(errors.BrokerNotAvailable(text))
                    return
                try:
                    self._ready(await self._peers.open(self.node_id, endpoint, self._on_lost))
                    return
                except (OSError, TimeoutError, NotAPeer, errors.KafkaError) as error:
                    self._back_off()
                    logger.log(self._level(error), "broker %d at %s: %s", self.node_id, endpoint, error or "no answer")
                    self._fail(errors.NetworkException(f"broker {self.node_id} at {endpoint}: {error}"))
        finally:
            if self._connecting is asyncio.current_task():
                self._connecting = None

    def _level(self, error: Exception) -> int:
        if self._pause_s > FIRST_PAUSE_S * 2:
            return logging.DEBUG
        return logging.WARNING if isinstance(error, NotAPeer) else logging.INFO

    def _ready(self, connection: PeerConnection) -> None:
        self._connection = connection
        self._pause_s = self._retry_at = 0.0
        waiting, self._waiting = self._waiting, []
        for request in waiting:
            self._send(connection, request)

    def _back_off(self) -> None:
        self._pause_s = min(max(FIRST_PAUSE_S, self._pause_s * 2), LONGEST_PAUSE_S)
        self._retry_at = self._loop.time() + self._pause_s * random.uniform(0.8, 1.2)

    def _fail(self, error: errors.KafkaError) -> None:
        waiting, self._waiting = self._waiting, []
        for request in waiting:
            request.done(None, error)

    def _on_lost(self, connection: PeerConnection) -> None:
        if connection is self._connection:
            self._connection = None
            self._back_off()
            self._peers.on_lost(self.node_id)

    def moved(self) -> None:
        """Closes the connection, because the broker has restarted or left the cluster."""
        if self._connection is not None:
            self._connection.lose(f"broker {self.node_id} has registered again or has gone")
        self._pause_s = self._retry_at = 0.0
        if self._connecting is not None:
            self._connecting.cancel()
            self._connecting = self._loop.create_task(self._connect())

    def close(self) -> None:
        """Closes the connection; waiting requests fail."""
        if self._connecting is not None:
            self._connecting.cancel()
        if self._connection is not None:
            self._connection.lose("this broker stops")
        self._fail(errors.NetworkException("this broker stops"))


class Peers:
    """All connections of this broker to other brokers."""

    def __init__(
        self,
        node_id: int,
        secret: Callable[[], bytes],
        loop: asyncio.AbstractEventLoop,
        *,
        listener: str | None = None,
        protocol: str = PLAIN,
        tls: Callable[[], ssl.SSLContext] | None = None,
        login: Login | None = None,
        receive_buffer: int = -1,
        on_lost: Callable[[int], object] = lambda node_id: None,
        connect_timeout_s: float = 10.0,
    ) -> None:
        """``secret()`` returns the cluster's current secret. ``listener`` is the name of the listener for brokers; if
        it is None, a broker's first listener with this ``protocol`` is used.

        ``tls()`` returns the context for new TLS connections. ``login`` logs in before the proof by the secret; None if
        no login is needed. ``on_lost(broker)`` is called when a connection has ended.
        """
        self.node_id = node_id
        self._secret = secret
        self.loop = loop
        self.memory = ReceiveMemory()
        self.receive_buffer = receive_buffer
        self.on_lost = on_lost
        self.connect_timeout_s = connect_timeout_s
        self._listener = None if listener is None else listener.upper()
        self.protocol = protocol
        self._context = tls
        self._login = login
        self._tls: Tls | None = None
        self._brokers: Mapping[int, BrokerRegistration] = {}
        self._peers: dict[tuple[int, str], Peer] = {}

    async def request(
        self, node_id: int, message: Message, *, timeout_ms: int = TIMEOUT_MS, purpose: str = CONTROL
    ) -> Any:
        """Returns the response of broker ``node_id``. Do not use it for Fetch: its records would no longer be valid.

        Raises NetworkException, RequestTimedOut, BrokerNotAvailable.
        """
        answer, done = answer_on(self.loop)
        self.post(node_id, message, done, timeout_ms=timeout_ms, purpose=purpose)
        return await answer

    def post(
        self,
        node_id: int,
        message: Message,
        on_done: OnDone,
        *,
        timeout_ms: int = TIMEOUT_MS,
        purpose: str = CONTROL,
    ) -> None:
        """Like ``request``, but calls ``on_done(response, error)`` while the response is being received."""
        peer = self._peers.get((node_id, purpose))
        if peer is None:
            peer = self._peers[node_id, purpose] = Peer(self, node_id)
        peer.post(Waiting(api_of(message), message, on_done), timeout_ms)

    async def open(
        self, node_id: int, endpoint: Endpoint, on_lost: Callable[[PeerConnection], object]
    ) -> PeerConnection:
        """Returns a connection to broker ``node_id`` on which both have proved that they are brokers of the cluster.

        Raises OSError, TimeoutError, NotAPeer, KafkaError.
        """
        async with asyncio.timeout(self.connect_timeout_s):
            sock = await connect(self.loop, endpoint.host, endpoint.port, self.receive_buffer)
            pipe = await self._shaken(sock, endpoint)
            connection = PeerConnection(self.loop, sock, self.memory, on_lost, pipe)
            try:
                if self._login is not None:
                    await connection.log_in(self._login, endpoint.host)
                await connection.authenticate(self._secret(), self.node_id, node_id)
            except BaseException:
                connection.lose("it has not proved itself")
                raise
        if connection.is_closed:
            raise errors.NetworkException("the peer closed the connection during the handshake")
        return connection

    async def _shaken(self, sock: socket.socket, endpoint: Endpoint) -> TlsPipe | None:
        """Begins TLS on a new connection, if the listener uses it. Raises OSError, NotAPeer."""
        if self._context is None or not endpoint.is_tls:
            return None
        context = self._context()
        if self._tls is None or self._tls.context is not context:
            self._tls = Tls(context)
        try:
            pipe = TlsPipe(self._tls, sock, endpoint.host)
            await pipe.handshake(self.loop)
        except (ssl.SSLError, ValueError) as error:  # a host name that no certificate can contain raises ValueError
            sock.close()
            raise NotAPeer(f"the TLS handshake fails: {getattr(error, 'verify_message', '') or error}") from error
        except BaseException:
            sock.close()
            raise
        return pipe

    def endpoint(self, node_id: int) -> Endpoint | None:
        """Returns the endpoint at which the broker serves other brokers; None if the broker is not registered."""
        broker = self._brokers.get(node_id)
        return None if broker is None else self._endpoint_of(broker)

    def _endpoint_of(self, broker: BrokerRegistration) -> Endpoint | None:
        ways = [each for each in broker.endpoints if each.security_protocol == self.protocol]
        if self._listener is not None:
            ways = [each for each in ways if each.listener == self._listener]
        return ways[0] if ways else None

    async def apply(self, delta: MetadataDelta, image: MetadataImage) -> None:
        """Handles brokers that came, left or registered again. The metadata cache calls it before other listeners."""
        known, self._brokers = self._brokers, image.brokers
        for node_id, broker in delta.brokers.items():
            before = known.get(node_id)
            if before is not None and (broker is None or broker.epoch != before.epoch):
                self._moved(node_id)

    def _moved(self, node_id: int) -> None:
        for (each, _), peer in self._peers.items():
            if each == node_id:
                peer.moved()

    def close(self) -> None:
        """Closes all connections."""
        for peer in self._peers.values():
            peer.close()


def api_of(message: Message) -> Api:
    """Returns the API of a request."""
    api: Api = getattr(pyclient.protocol, type(message).__qualname__.partition(".")[0])
    return api
