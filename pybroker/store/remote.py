"""The embedded store of another process on this machine, over its Unix socket; ``wire`` has the protocol.

The connection is the session. When the connection breaks, the session has expired. It is unknown whether writes in
flight happened: they raise ConnectionLoss. ``new_session`` tries to connect again until it succeeds. If the supervisor
does not answer for two thirds of the session timeout, the session is SUSPENDED until it answers.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import logging
from collections import defaultdict
from collections.abc import Callable, Sequence
from typing import Any

from pybroker.store import wire
from pybroker.store.batches import StoreOfBatches
from pybroker.store.interface import (
    ConnectionLoss,
    Operation,
    OperationResult,
    Session,
    SessionExpired,
    SessionState,
    Stat,
)
from pybroker.store.server import reachable
from pybroker.store.watching import StoreWatch
from pybroker.store.wire import Request, Verb

FIRST_RETRY_S = 0.02
LAST_RETRY_S = 1.0

Callback = Callable[[str], None]

logger = logging.getLogger(__name__)


class Connection:
    """A connected socket: sends requests and passes replies to their callers."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, on_event: Callback) -> None:
        self._reader = reader
        self._writer = writer
        self._on_event = on_event
        self._loop = asyncio.get_running_loop()
        self._ids = itertools.count(1)
        self._waiting: dict[int, asyncio.Future[Any]] = {}
        self.heard_at = self._loop.time()
        self.ended = asyncio.ensure_future(self._receive())
        """Done when the connection has ended."""

    @classmethod
    async def open(cls, path: str, on_event: Callback) -> Connection:
        """Connects to the socket at ``path``. Raises ConnectionLoss."""
        try:
            with reachable(path) as name:
                reader, writer = await asyncio.open_unix_connection(name)
        except OSError as error:
            why = error.strerror or error
            raise ConnectionLoss(f"{path}: {why}: `pybroker start --processes` is not running here") from error
        return cls(reader, writer, on_event)

    @property
    def is_over(self) -> bool:
        """True if the connection has ended, so that nothing can be sent."""
        return self.ended.done() or self._writer.is_closing()

    def send(self, verb: Verb, argument: Any = None) -> asyncio.Future[Any]:
        """Sends a request; the future gets the reply's value or error."""
        future: asyncio.Future[Any] = self._loop.create_future()
        if self.is_over:
            future.set_exception(ConnectionLoss("the connection to the coordination store is closed"))
            return future
        request = Request(next(self._ids), verb, argument)
        self._waiting[request.id] = future
        self._writer.write(wire.frame(request))
        return future

    async def _receive(self) -> None:
        try:
            await self._receive_all()
        except (EOFError, OSError):
            pass
        except Exception:
            logger.exception("coordination store: an answer could not be processed; closing the connection")
        self._writer.close()
        for future in self._waiting.values():
            if not future.done():
                future.set_exception(ConnectionLoss("the connection to the coordination store ended before the answer"))
        self._waiting.clear()

    async def _receive_all(self) -> None:
        while True:
            reply = wire.decode_reply(await wire.read_frame(self._reader))
            self.heard_at = self._loop.time()
            if reply.id == wire.EVENT:
                self._on_event(reply.value)
            else:
                self._settle(self._waiting.pop(reply.id), reply)

    @staticmethod
    def _settle(future: asyncio.Future[Any], reply: wire.Reply) -> None:
        if future.done():
            return  # the caller no longer waits
        if reply.error is None:
            future.set_result(reply.value)
        else:
            future.set_exception(wire.unpack_error(reply.error))

    async def close(self) -> None:
        """Closes the connection to the store."""
        self._writer.close()
        self.ended.cancel()
        await asyncio.wait([self.ended])


class RemoteStore(StoreOfBatches):
    """A session over a Unix socket; see ``CoordinationStore`` for the methods."""

    def __init__(self, path: str, timeout_s: float) -> None:
        self._path = path
        self._timeout_s = timeout_s
        self._connection: Connection | None = None
        self._keeper: asyncio.Task[None] | None = None
        self._watches: dict[str, list[StoreWatch]] = defaultdict(list)
        self.session = Session(0)

    @classmethod
    async def open(cls, path: str, session_timeout_ms: int) -> RemoteStore:
        """Connects to the socket at ``path``. Raises ConnectionLoss."""
        store = cls(path, session_timeout_ms / 1000)
        await store._connect()
        return store

    async def _connect(self) -> None:
        """Connects, with a session and with all watches."""
        connection = await Connection.open(self._path, self._fire)
        hello = connection.send(Verb.HELLO, [wire.VERSION, round(self._timeout_s * 1000)])
        for path in self._watches:
            _forget(connection.send(Verb.WATCH, path))
        try:
            self.session.id = await asyncio.wait_for(hello, self._timeout_s)
        except (ConnectionLoss, TimeoutError) as error:
            await connection.close()
            raise ConnectionLoss(f"{self._path}: {error or 'no answer'}") from error
        self._connection = connection
        self._keeper = asyncio.ensure_future(self._keep(connection))

    async def _keep(self, connection: Connection) -> None:
        """Sends heartbeats, and notices if the server does not answer."""
        loop = asyncio.get_running_loop()
        while not connection.ended.done():
            if loop.time() - connection.heard_at > self._timeout_s * 2 / 3:
                self.session.change(SessionState.SUSPENDED)
            _forget(ping := connection.send(Verb.PING))
            ping.add_done_callback(self._on_pong)
            await asyncio.wait([connection.ended], timeout=self._timeout_s / 3)
        if self.session.state is not SessionState.CLOSED:
            logger.warning("coordination store: session %d has ended with its connection", self.session.id)
            self.session.change(SessionState.EXPIRED)

    def _on_pong(self, pong: asyncio.Future[Any]) -> None:
        if not pong.cancelled() and pong.exception() is None and self.session.state is SessionState.SUSPENDED:
            self.session.change(SessionState.CONNECTED)

    async def _ask(self, verb: Verb, argument: Any) -> Any:
        if self.session.state in (SessionState.EXPIRED, SessionState.CLOSED) or self._connection is None:
            raise SessionExpired(f"session {self.session.id} is {self.session.state.value}")
        if self._connection.is_over:  # the keeper notices some turns of the loop later
            raise SessionExpired(f"session {self.session.id} has ended with its connection")
        try:
            return await asyncio.wait_for(self._connection.send(verb, argument), self._timeout_s)
        except TimeoutError as error:
            raise ConnectionLoss(f"{self._path} did not answer for {self._timeout_s:g} s") from error

    async def get_many(self, paths: Sequence[str]) -> list[tuple[bytes, Stat] | None]:
        return wire.unpack_nodes(await self._ask(Verb.READ, list(paths)))

    async def children(self, path: str) -> list[str]:
        names: list[str] = await self._ask(Verb.CHILDREN, path)
        return names

    async def multi(self, operations: Sequence[Operation]) -> list[OperationResult]:
        return wire.unpack_results(await self._ask(Verb.WRITE, wire.pack_operations(operations)))

    def watch(self, path: str, callback: Callback) -> StoreWatch:
        watch = StoreWatch(path, callback, self._drop_watch)
        if path not in self._watches:
            self._tell(Verb.WATCH, path)
        self._watches[path].append(watch)
        return watch

    def _drop_watch(self, watch: StoreWatch) -> None:
        present = self._watches.get(watch.path, [])
        if watch in present:
            present.remove(watch)
            if not present:
                del self._watches[watch.path]
                self._tell(Verb.UNWATCH, watch.path)

    def _tell(self, verb: Verb, path: str) -> None:
        if self._connection is not None:
            _forget(self._connection.send(verb, path))

    def _fire(self, path: str) -> None:
        for watch in tuple(self._watches.get(path, ())):
            if watch in self._watches.get(path, ()):
                watch.callback(path)

    async def new_session(self) -> Session:
        """Connects again. The changes in the meantime are unknown, so every watch is called."""
        delay_s = FIRST_RETRY_S
        while self.session.state is SessionState.EXPIRED:
            try:
                await self._connect()
            except ConnectionLoss as error:
                logger.info("coordination store: %s; trying again", error)
                await asyncio.sleep(delay_s)
                delay_s = min(2 * delay_s, LAST_RETRY_S)
                continue
            self.session.change(SessionState.CONNECTED)
            for path in tuple(self._watches):
                self._fire(path)
        return self.session

    async def close(self) -> None:
        """Ends the session; returns when its ephemeral nodes are gone, if the server answers."""
        self._watches.clear()
        was_open = self.session.state in (SessionState.CONNECTED, SessionState.SUSPENDED)
        self.session.change(SessionState.CLOSED)
        if self._connection is not None:
            if was_open:
                with contextlib.suppress(ConnectionLoss, TimeoutError):
                    await asyncio.wait_for(self._connection.send(Verb.CLOSE), self._timeout_s)
            await self._connection.close()
        if self._keeper is not None:
            await asyncio.wait([self._keeper])


def _forget(future: asyncio.Future[Any]) -> None:
    """Ignores the future's error: no caller waits for it."""
    future.add_done_callback(lambda done: done.cancelled() or done.exception())
