"""One authenticated connection to another broker: requests out, responses in, in order.

A response is passed to its callback while it is being received: the views of ``records`` in a Fetch response are valid
until the callback returns. When the connection ends, every request in flight fails with NETWORK_EXCEPTION, and
``on_lost`` is called once.

If brokers log in by SASL, the connection does so again before its session ends. Meanwhile new requests wait.
"""

from __future__ import annotations

import asyncio
import logging
import random
import secrets
import socket
from collections import deque
from collections.abc import Callable
from typing import Any, Final, Protocol

from cy.wire.frames import ReceiveMemory
from cy.wire.messages import Message
from pybroker.cluster import peer_secret
from pyclient.protocol import ApiVersions, Produce, SaslAuthenticate, SaslHandshake, errors, sasl, stream
from pyclient.protocol.answers import OnDone, answer_on
from pyclient.protocol.apis import Api
from pyclient.protocol.frames import decode_response_header
from pyclient.protocol.stream import BrokenStream, FrameStream
from pyclient.protocol.tls import TlsPipe

CLIENT_ID: Final = "pybroker"
VERSIONS_VERSION, HANDSHAKE_VERSION, AUTHENTICATE_VERSION = 3, 1, 2

logger = logging.getLogger("pybroker.net.peer")


class Login(Protocol):
    """How this broker logs in to others (``security.sasl.broker_login``)."""

    mechanism: str

    def begin(self, host: str) -> sasl.Exchange:
        """Begins a login at the broker on this host."""

    async def work(self, step: sasl.Derive | sasl.Away) -> bytes:
        """Returns the result of a step that may block."""

    def trouble(self, host: str, error: Exception) -> str:
        """Returns an error text for a failed login."""


class InFlight:
    """A request to a peer that has no answer yet."""

    __slots__ = ("api", "correlation_id", "on_done", "version")

    def __init__(self, api: Api, version: int, correlation_id: int, on_done: OnDone) -> None:
        self.api = api
        self.version = version
        self.correlation_id = correlation_id
        self.on_done = on_done


class PeerConnection(FrameStream):
    """A connected socket; calls ``on_lost(connection)`` once when it ends."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        sock: socket.socket,
        memory: ReceiveMemory,
        on_lost: Callable[[PeerConnection], object],
        pipe: TlsPipe | None = None,
    ) -> None:
        super().__init__(loop, sock, memory, pipe)
        self._on_lost = on_lost
        self._next_id = 0
        self._in_flight: deque[InFlight] = deque()
        self._versions: dict[int, int] = {}
        self._held: list[tuple[InFlight, Any]] | None = None
        """The requests that wait for a repeated login, with their frames; None while no login is in progress."""
        self._renewal: asyncio.TimerHandle | None = None
        self._renewing: asyncio.Task[None] | None = None

    # # Authentication

    async def log_in(self, login: Login, host: str) -> None:
        """Logs in at the broker of ``host``, and again before its session ends. Raises NotAPeer, KafkaError."""
        lifetime_ms = 0

        async def say(message: bytes) -> bytes:
            nonlocal lifetime_ms
            answer = await self._say(message)
            lifetime_ms = answer.session_lifetime_ms
            return bytes(answer.auth_bytes)

        try:
            await self._choose(login.mechanism)
            await sasl.conduct(login.begin(host), say, login.work)
        except (ValueError, peer_secret.NotAPeer) as error:
            raise peer_secret.NotAPeer(login.trouble(host, error)) from error
        if lifetime_ms > 0 and not self.is_closed:
            wait_s = sasl.renewal_in(lifetime_ms / 1000, random.random)
            self._renewal = self._loop.call_later(wait_s, self._renew_later, login, host)

    async def _choose(self, mechanism: str) -> None:
        answer = await self._ask(SaslHandshake, HANDSHAKE_VERSION, SaslHandshake.Request(mechanism=mechanism))
        if answer.error_code:
            found = sasl.told(", ".join(answer.mechanisms)) or "no SASL"
            raise peer_secret.NotAPeer(f"its listener has {found}, not {mechanism}")

    def _renew_later(self, login: Login, host: str) -> None:
        self._renewing = self._loop.create_task(self._renew(login, host))

    async def _renew(self, login: Login, host: str) -> None:
        """Logs in again after the requests in flight; then sends the requests that have waited for the login."""
        self._held = []
        try:
            await self.log_in(login, host)
        except (peer_secret.NotAPeer, errors.KafkaError) as error:
            if not self.is_closed:
                logger.warning("%s", error)
                self.lose(str(error))
            return
        held, self._held = self._held or [], None
        for request, frame in held:
            self._put(request, frame)

    async def authenticate(self, secret: bytes, node_id: int, wanted: int) -> None:
        """Proves to the other broker that both belong to the cluster, and checks its proof. Raises NotAPeer,
        KafkaError.
        """
        asked = ApiVersions.Request(client_software_name=CLIENT_ID, client_software_version="0.1.0")
        answer = await self._ask(ApiVersions, VERSIONS_VERSION, asked)
        self._versions = {row.api_key: row.max_version for row in answer.api_keys}
        mechanism = SaslHandshake.Request(mechanism=peer_secret.MECHANISM)
        if (await self._ask(SaslHandshake, HANDSHAKE_VERSION, mechanism)).error_code:
            raise peer_secret.NotAPeer("it accepts no connections of brokers")
        client = peer_secret.Client(secret, node_id, wanted, secrets.token_bytes(peer_secret.NONCE_SIZE))
        answer = await self._say(client.first)
        await self._say(client.on_answer(answer.auth_bytes))

    async def _say(self, message: bytes) -> Any:
        request = SaslAuthenticate.Request(auth_bytes=message)
        answer = await self._ask(SaslAuthenticate, AUTHENTICATE_VERSION, request)
        if answer.error_code:
            raise peer_secret.NotAPeer(answer.error_message or "refused")
        return answer

    async def _ask(self, api: Api, version: int, message: Message) -> Any:
        if self.is_closed:
            raise errors.NetworkException(f"{api.name}: the connection has ended")
        answer, done = answer_on(self._loop)
        self._put(*self._encoded(api, version, message, done))
        return await answer

    def version_of(self, api: Api) -> int:
        """Returns the newest version that both sides support; for APIs between brokers only, our newest."""
        return min(api.max_version, self._versions.get(api.key, api.max_version))

    # # Sending

    def send(self, api: Api, version: int, message: Message, on_done: OnDone) -> None:
        """Sends a request. ``on_done(response, error)`` is called once, perhaps before this returns if the connection
        is lost.

        Raises EncodeError.
        """
        assert api is not Produce  # Produce may have no response
        request, frame = self._encoded(api, version, message, on_done)
        if self._held is None:
            self._put(request, frame)
        else:
            self._held.append((request, frame))

    def _encoded(self, api: Api, version: int, message: Message, on_done: OnDone) -> tuple[InFlight, Any]:
        correlation_id = self._next_id
        frame = api.encode_request(version, correlation_id, CLIENT_ID, message)
        self._next_id = (correlation_id + 1) & 0x7FFF_FFFF
        return InFlight(api, version, correlation_id, on_done), frame

    def _put(self, request: InFlight, frame: Any) -> None:
        self._in_flight.append(request)
        self._out.append(frame)
        self._push()

    # # Receiving

    def _on_frame(self, view: memoryview, start: int, end: int, reused: bool) -> None:
        if not self._in_flight:
            raise BrokenStream("a response came without a request")
        request = self._in_flight[0]
        header = decode_response_header(request.api, request.version, view, start, end)
        if header.correlation_id != request.correlation_id:
            raise BrokenStream(f"correlation id {header.correlation_id}, not {request.correlation_id}")
        response = request.api.decode_response(request.version, view, header.position, end)
        self._in_flight.popleft()
        _tell(request, response, None)

    # The end

    def _on_end(self, cause: Exception | str) -> None:
        self._on_lost(self)
        for planned in (self._renewal, self._renewing):
            if planned is not None:
                planned.cancel()
        lost = [*self._in_flight, *(request for request, _ in self._held or ())]
        self._in_flight, self._held = deque(), None
        for request in lost:
            _tell(request, None, errors.NetworkException(f"{request.api.name}: {cause}"))


def _tell(request: InFlight, response: Any, error: errors.KafkaError | None) -> None:
    try:
        request.on_done(response, error)
    except Exception:
        logger.exception("the answer to %s v%d could not be processed", request.api.name, request.version)


async def connect(loop: asyncio.AbstractEventLoop, host: str, port: int, receive_buffer: int = -1) -> socket.socket:
    """Returns a connected socket; tries all addresses of the name. Raises OSError."""
    failure: OSError | None = None
    for family, address in await stream.resolve(loop, host, port):
        try:
            return await stream.connect(loop, family, address, receive_buffer=receive_buffer)
        except OSError as error:
            failure = error
    raise failure or OSError(f"{host} has no address")
