"""Serves an embedded store to other processes of this machine, over a Unix socket that only this user may open.

A connection is a session: when the connection ends, for any reason, the session's ephemeral nodes vanish at once. So
the death of a broker process is known without a timeout. A process that hangs keeps its connection. Its session expires
when it has sent nothing for the session timeout. The session of a halted process (SIGSTOP) expires as soon as the halt
is noticed.

The path of a socket is limited (108 bytes on Linux). A socket with a longer path is reached through its open folder.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pybroker.store import wire
from pybroker.store.embedded import EmbeddedServer, EmbeddedStore, EmbeddedWatch
from pybroker.store.halted import halt_of, peer_pid
from pybroker.store.interface import ConnectionLoss, CoordinationError, SessionState
from pybroker.store.wire import Reply, Request, Verb

LONGEST_PATH = 100
CHECKS_PER_TIMEOUT = 6
HALT_CHECK_S = 0.5
"""The time between two checks. A session expires if its process is in the same halt at two successive checks."""

logger = logging.getLogger(__name__)


@contextlib.contextmanager
def reachable(path: str) -> Iterator[str]:
    """Provides, within the block, a name of ``path`` that is short enough for a socket."""
    if len(os.fsencode(path)) <= LONGEST_PATH:
        yield path
        return
    folder, name = os.path.split(path)
    fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        yield f"/proc/self/fd/{fd}/{name}"
    finally:
        os.close(fd)


def _bind(path: str) -> socket.socket:
    """Returns a listening socket at ``path``; replaces an abandoned one."""
    Path(path).unlink(missing_ok=True)
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    before = os.umask(0o177)
    try:
        with reachable(path) as name:
            listener.bind(name)
        listener.listen(128)
    except OSError:
        listener.close()
        raise
    finally:
        os.umask(before)
    return listener


class StoreServer:
    """A Unix socket in front of an EmbeddedServer."""

    def __init__(self, embedded: EmbeddedServer, path: str) -> None:
        self.embedded = embedded
        self._path = path
        self._server: asyncio.Server | None = None
        self._connections: dict[StoreConnection, asyncio.Task[None]] = {}

    @classmethod
    async def open(cls, file: str, path: str) -> StoreServer:
        """Opens the store's ``file`` and serves it at ``path``. Raises ConnectionLoss."""
        embedded = await EmbeddedServer.open(file)
        server = cls(embedded, path)
        try:
            server._server = await asyncio.start_unix_server(server._on_connection, sock=_bind(path))
        except OSError as error:
            await embedded.close()
            raise ConnectionLoss(f"{path}: {error.strerror or error}") from error
        return server

    async def _on_connection(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        connection = StoreConnection(self.embedded, reader, writer)
        task = asyncio.current_task()
        assert task is not None
        self._connections[connection] = task
        try:
            await connection.serve()
        finally:
            del self._connections[connection]

    def cut(self, session_id: int) -> None:
        """Ends the connection of a session, as if its process had died."""
        for connection in tuple(self._connections):
            if connection.session_id == session_id:
                connection.abort()

    async def close(self) -> None:
        """Ends every session and releases the file."""
        if self._server is not None:
            self._server.close()
        for connection in tuple(self._connections):
            connection.abort()
        await asyncio.gather(*self._connections.values(), return_exceptions=True)
        Path(self._path).unlink(missing_ok=True)
        await self.embedded.close()


class StoreConnection:
    """One client: its session, its watches, its calls in progress."""

    def __init__(
        self, embedded: EmbeddedServer, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        self._embedded = embedded
        self._reader = reader
        self._writer = writer
        self._loop = asyncio.get_running_loop()
        self._store: EmbeddedStore | None = None
        self._watches: dict[str, EmbeddedWatch] = {}
        self._calls: set[asyncio.Task[None]] = set()
        self._heard_at = self._loop.time()
        self._guard: asyncio.Task[None] | None = None

    @property
    def session_id(self) -> int:
        """The session's id; 0 before there is one."""
        return self._store.session.id if self._store else 0

    def abort(self) -> None:
        """Ends the connection at once."""
        self._writer.transport.abort()

    async def serve(self) -> None:
        """Answers requests until the connection or the session ends. Then it ends both."""
        try:
            while self._goes_on():
                request = wire.decode_request(await wire.read_frame(self._reader))
                self._heard_at = self._loop.time()
                await self._take(request)
        except (EOFError, OSError):
            pass
        except Exception:
            logger.exception("session %d of the coordination store sent a malformed request", self.session_id)
        finally:
            await self._end()

    def _goes_on(self) -> bool:
        return self._store is None or self._store.session.state is SessionState.CONNECTED

    async def _end(self) -> None:
        if self._guard is not None:
            self._guard.cancel()
        if self._store is not None:
            if self._store.session.state is SessionState.CONNECTED:
                logger.info("session %d of the coordination store has ended with its connection", self.session_id)
                await self._embedded.expire(self.session_id)
            await self._store.close()
        self._writer.close()

    async def _take(self, request: Request) -> None:
        """Executes a request: watches, reads and writes take effect in the order in which they were sent."""
        if request.verb == Verb.HELLO:
            await self._hello(request)
        elif request.verb in (Verb.READ, Verb.CHILDREN, Verb.WRITE, Verb.CLOSE):
            call = asyncio.ensure_future(self._call(request))
            self._calls.add(call)
            call.add_done_callback(self._calls.discard)
        else:
            self._at_once(request)

    async def _hello(self, request: Request) -> None:
        version, timeout_ms = request.argument
        if version != wire.VERSION:
            text = f"the supervisor uses version {wire.VERSION}, but this broker {version}: restart the supervisor"
            self._reply(Reply(request.id, wire.pack_error(ConnectionLoss(text))))
            return
        self._store = await self._embedded.connect()
        self._store.session.on_change(lambda state: self.abort() if state is SessionState.EXPIRED else None)
        self._guard = asyncio.ensure_future(self._watch_over(timeout_ms / 1000))
        self._reply(Reply(request.id, None, self.session_id))

    async def _watch_over(self, timeout_s: float) -> None:
        """Expires a silent session, or one whose process is halted. Time in which this process itself did not run does
        not count.
        """
        pid, before = peer_pid(self._writer), ""
        patience_s = timeout_s / CHECKS_PER_TIMEOUT
        step = min(patience_s, HALT_CHECK_S)
        while True:
            began = self._loop.time()
            await asyncio.sleep(step)
            now, halt = self._loop.time(), halt_of(pid)
            if now - began > step + patience_s:
                self._heard_at = now
            elif halt and halt == before:
                return await self._expire(f"its process {pid} is halted")
            elif now - self._heard_at > timeout_s:
                return await self._expire(f"silent for {timeout_s:g} s")
            before = halt

    async def _expire(self, why: str) -> None:
        logger.warning("session %d of the coordination store has expired: %s", self.session_id, why)
        await self._embedded.expire(self.session_id)

    def _at_once(self, request: Request) -> None:
        store = self._store
        assert store is not None, "no HELLO"
        path = request.argument
        if request.verb == Verb.WATCH and path not in self._watches:
            self._watches[path] = store.watch(path, lambda path: self._reply(Reply(wire.EVENT, None, path)))
        elif request.verb == Verb.UNWATCH and path in self._watches:
            self._watches.pop(path).cancel()
        self._reply(Reply(request.id))

    async def _call(self, request: Request) -> None:
        store = self._store
        assert store is not None, "no HELLO"
        try:
            reply = Reply(request.id, None, await self._perform(store, request))
        except CoordinationError as error:
            reply = Reply(request.id, wire.pack_error(error))
        except (ValueError, TypeError) as error:
            reply = Reply(request.id, wire.pack_error(CoordinationError(str(error))))
        self._reply(reply)

    async def _perform(self, store: EmbeddedStore, request: Request) -> Any:
        if request.verb == Verb.READ:
            return await store.get_many(request.argument)
        if request.verb == Verb.CHILDREN:
            return await store.children(request.argument)
        if request.verb == Verb.WRITE:
            return await store.multi(wire.unpack_operations(request.argument))
        return await store.close()

    def _reply(self, reply: Reply) -> None:
        if not self._writer.is_closing():
            self._writer.write(wire.frame(reply))
