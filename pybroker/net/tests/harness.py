"""A server on a free port with handlers made of plain functions, and clients that send bytes."""

from __future__ import annotations

import asyncio
import functools
import ssl
import struct
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from types import SimpleNamespace
from typing import Any, NamedTuple

import uvloop

from cy.wire.buffer import DecodeError, TooMuch
from pybroker.config import Endpoint
from pybroker.net.acceptor import bind
from pybroker.net.connection import Connection
from pybroker.net.limits import Limits
from pybroker.net.routes import Routes
from pybroker.net.server import SocketServer
from pybroker.net.tls.handshakes import Secured
from pybroker.tests.waiting import until_async

ECHO, WAIT, SILENT, FAIL, WORK, BULK = 3, 1, 0, 20, 19, 2
UNSUPPORTED = b"unsupported"
Handler = Callable[[bytes, Any], Any]
STUBBORN = b"stubborn"
"""The request whose worker fails when it is cancelled."""
LIMIT_S = 60.0
"""The time limit of a test for each wait."""
TURNS = 50
HANDSHAKE_S = 3600.0
"""Longer than any handshake takes on a busy machine; a test puts the clock forward."""


class Loop(uvloop.Loop):
    """A loop whose clock a test can put forward: no test waits until a connection is overdue."""

    ahead_s = 0.0

    def time(self) -> float:
        return super().time() + self.ahead_s


async def turns() -> None:
    """Lets the loop turn often enough to read and to send all that is ready."""
    for _ in range(TURNS):
        await asyncio.sleep(0)


def hold_the_loop(seconds: float) -> None:
    """Blocks the loop for at least so long."""
    time.sleep(seconds)


class Answer(NamedTuple):
    """The response of every fake API: raw bytes, or parts."""

    body: Any


class FakeApi:
    """An API whose request and response are bytes. The request ``bad`` cannot be decoded."""

    Response = Answer
    min_version, max_version = 0, 1

    def __init__(self, key: int) -> None:
        self.key = key
        self.name = f"Fake{key}"

    def decode_request_within(
        self, version: int, view: memoryview, position: int, end: int, budget: int, polite: bool = False
    ) -> bytes:
        body = bytes(view[position:end])
        if body.startswith(b"large") and not polite:
            raise TooMuch
        if body == b"large and bad":
            raise DecodeError("bad request")
        if body == b"bad":
            raise DecodeError("bad request")
        return body

    def encode_response_within(
        self, version: int, correlation_id: int, response: Answer, budget: int
    ) -> bytes:
        if response.body.startswith(b"large"):
            raise TooMuch
        return self.encode_response_politely(version, correlation_id, response)

    def encode_response_politely(self, version: int, correlation_id: int, response: Answer) -> bytes:
        return struct.pack(">ii", 4 + len(response.body), correlation_id) + response.body


@dataclass
class Row:
    api: FakeApi
    handle: Handler
    most_units: int = 1_000_000


class Client:
    """One connection to the server under test."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer

    def send(self, key: int, correlation_id: int, body: bytes = b"", version: int = 1) -> None:
        self.writer.write(frame(key, correlation_id, body, version))

    async def receive(self) -> tuple[int, bytes]:
        """Returns the correlation id and the body of the next reply."""
        async with asyncio.timeout(LIMIT_S):
            (length,) = struct.unpack(">i", await self.reader.readexactly(4))
            data = await self.reader.readexactly(length)
        return struct.unpack(">i", data[:4])[0], data[4:]

    async def ask(self, key: int, correlation_id: int, body: bytes = b"") -> tuple[int, bytes]:
        self.send(key, correlation_id, body)
        return await self.receive()

    async def is_closed(self) -> bool:
        """Waits until the server closes the connection. No bytes may arrive before."""
        async with asyncio.timeout(LIMIT_S):
            try:
                return await self.reader.read() == b""
            except ConnectionResetError:
                return True

    def reset(self) -> None:
        """Resets the connection."""
        self.writer.transport.abort()


def frame(key: int, correlation_id: int, body: bytes, version: int = 1) -> bytes:
    """A request frame with client id ``test``: header v1, or v2 with no tags for ApiVersions 3 and
    later.
    """
    header = struct.pack(">hhih", key, version, correlation_id, 4) + b"test"
    header += b"\0" if key == 18 and version >= 3 else b""
    return struct.pack(">i", len(header) + len(body)) + header + body


class Harness:
    """The server, its handlers' state, and its clients."""

    def __init__(self, limits: Limits, secured: Secured | None = None) -> None:
        loop = asyncio.get_running_loop()
        assert isinstance(loop, Loop)
        self.loop = loop
        self.waiting: list[asyncio.Future[Any]] = []
        self.calls: list[Any] = []
        self.seen: list[bytes] = []
        self.counts: list[int] = []
        self.on_echo: Callable[[bytes], Answer] | None = None
        rows = [
            Row(FakeApi(ECHO), self.echo),
            Row(FakeApi(WAIT), self.wait),
            Row(FakeApi(SILENT), self.silent),
            Row(FakeApi(FAIL), self.fail),
            Row(FakeApi(WORK), self.work),
            Row(FakeApi(BULK), self.bulk),
            Row(FakeApi(18), self.echo),
        ]
        self.server = SocketServer(
            Routes(rows, self.make_call, self.unsupported), limits, self.loop, on_count=self.counts.append
        )
        plain = bind(Endpoint("PLAINTEXT", "PLAINTEXT", "127.0.0.1", 0))
        self.port = plain.endpoint.port
        if secured is None:
            self.server.start([plain])
            return
        by_tls = bind(Endpoint("OUTSIDE", "SSL", "127.0.0.1", 0))
        self.tls_port = by_tls.endpoint.port
        self.server.start([plain, by_tls], {"OUTSIDE": secured})

    def make_call(self, version: int, client_id: str | None, connection: Connection, api: str) -> Any:
        call = SimpleNamespace(version=version, client_id=client_id, connection=connection, api=api)
        self.calls.append(call)
        return call

    def unsupported(self, correlation_id: int) -> bytes:
        return struct.pack(">ii", 4 + len(UNSUPPORTED), correlation_id) + UNSUPPORTED

    def echo(self, request: bytes, call: Any) -> Answer:
        if self.on_echo is not None:
            return self.on_echo(request)
        self.seen.append(request)
        return Answer(request)

    def wait(self, request: bytes, call: Any) -> asyncio.Future[Any]:
        self.waiting.append(self.loop.create_future())
        return self.waiting[-1]

    def silent(self, request: bytes, call: Any) -> None:
        self.seen.append(request)

    def fail(self, request: bytes, call: Any) -> Answer:
        raise RuntimeError(request.decode())

    async def work(self, request: bytes, call: Any) -> Answer:
        self.seen.append(request)
        if request == b"at once":
            return Answer(request)
        self.waiting.append(self.loop.create_future())
        try:
            return Answer(request + await self.waiting[-1])
        except asyncio.CancelledError:
            if request == STUBBORN:
                raise RuntimeError("late") from None
            raise

    def bulk(self, request: bytes, call: Any) -> Answer:
        self.seen.append(request)
        return Answer(b"z" * int(request))

    async def connect(self) -> Client:
        return Client(*await asyncio.open_connection("127.0.0.1", self.port))

    async def connect_tls(self, context: ssl.SSLContext | None) -> Client:
        """Connects to the TLS listener; without a context, in plain text."""
        return Client(*await asyncio.open_connection("127.0.0.1", self.tls_port, ssl=context))

    async def until(self, condition: Callable[[], bool]) -> None:
        """Lets the loop run until ``condition()``."""
        await until_async(condition)

    def later(self, seconds: float) -> None:
        """Advances the clock, and lets the server close overdue connections."""
        self.loop.ahead_s += seconds
        if self.server._sweep is not None:
            self.server._sweep.cancel()
            self.server._on_sweep()


def scenario(
    limits: Limits | None = None, secured: Secured | None = None
) -> Callable[[Callable[[Harness], Awaitable[None]]], Callable[[], None]]:
    """Makes a test of ``async def test(harness)``: runs it on a loop of its own, with a server that
    is closed afterwards.
    """

    def decorate(test: Callable[[Harness], Awaitable[None]]) -> Callable[[], None]:
        async def run() -> None:
            harness = Harness(replace(limits or Limits(), handshake_s=HANDSHAKE_S), secured)
            try:
                await test(harness)
            finally:
                await harness.server.close(grace_s=0)
            assert harness.server.memory.taken == 0

        @functools.wraps(test)
        def wrapper() -> None:
            with asyncio.Runner(loop_factory=Loop) as runner:
                runner.run(run())

        del wrapper.__wrapped__  # type: ignore[attr-defined]
        return wrapper

    return decorate
