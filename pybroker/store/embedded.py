"""The embedded coordination store: SQLite in this process, for brokers on one machine.

``EmbeddedServer`` owns the file and one thread, which performs every read and write in order; ``EmbeddedStore`` is one
session on it. After a commit, the thread calls the watches through the loop, whether or not the caller of the write
still waits for it.

The end of a session is a write like any other, and a full disk refuses it. Until it is written, the other brokers do
not learn that a broker is dead. So the store tries again, and writes it as soon as possible.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

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
from pybroker.store.tree import NodeTree

RETRY_S = 0.5

T = TypeVar("T")
Callback = Callable[[str], None]

logger = logging.getLogger(__name__)


class EmbeddedServer:
    """The owner of one store's file; its sessions live on one event loop."""

    def __init__(self, tree: NodeTree, executor: ThreadPoolExecutor) -> None:
        self._tree = tree
        self._executor = executor
        self._loop = asyncio.get_running_loop()
        self._stores: dict[int, EmbeddedStore] = {}
        self._watches: dict[str, list[EmbeddedWatch]] = defaultdict(list)
        self._unwritten: set[int] = set()
        """Ended sessions whose nodes still exist."""
        self._writing: asyncio.Task[None] | None = None

    @classmethod
    async def open(cls, file: str) -> EmbeddedServer:
        """Opens or makes the file. Raises StoreInUse, or ConnectionLoss if it cannot be read."""
        executor = ThreadPoolExecutor(1, "coordination")
        try:
            tree = await asyncio.get_running_loop().run_in_executor(executor, NodeTree, file)
        except BaseException:
            executor.shutdown(wait=False)
            raise
        return cls(tree, executor)

    async def connect(self) -> EmbeddedStore:
        """Returns a store with a session of its own."""
        store = EmbeddedStore(self, Session(await self.run(self._tree.new_session)))
        self._stores[store.session.id] = store
        return store

    async def run(self, work: Callable[[], T]) -> T:
        """Runs ``work()`` on the store's thread, after all earlier work."""
        return await self._loop.run_in_executor(self._executor, work)

    async def read(self, paths: Sequence[str]) -> list[tuple[bytes, Stat] | None]:
        """Returns data and Stat of each path."""
        return await self.run(lambda: self._tree.get_many(paths))

    async def children(self, path: str) -> list[str]:
        """Returns the names of the children. Raises NoNode."""
        return await self.run(lambda: self._tree.children(path))

    async def write(
        self, operations: Sequence[Operation], session: Session
    ) -> list[OperationResult]:
        """Performs the operations for ``session``."""
        now_ms = time.time_ns() // 1_000_000

        def work() -> list[OperationResult]:
            if session.state is not SessionState.CONNECTED:
                raise SessionExpired(f"session {session.id} is {session.state.value}")
            results, changed = self._tree.apply(operations, session.id, now_ms)
            self._loop.call_soon_threadsafe(self._fire, changed)
            return results

        return await self.run(work)

    async def expire(self, session_id: int, state: SessionState = SessionState.EXPIRED) -> None:
        """Ends a session from the store's side, like an expiry. Its nodes are gone when this returns.

        If the file cannot be written now, the nodes are gone as soon as it can be written.
        """
        store = self._stores.pop(session_id, None)
        if store is not None:
            store.session.change(state)
        try:
            await self._remove_nodes(session_id)
        except ConnectionLoss as error:
            logger.error("the end of session %d could not be written, trying again: %s", session_id, error)
            self._unwritten.add(session_id)
            if self._writing is None or self._writing.done():
                self._writing = asyncio.ensure_future(self._write_ends())

    async def _remove_nodes(self, session_id: int) -> None:
        def work() -> None:
            self._loop.call_soon_threadsafe(self._fire, self._tree.expire(session_id))

        await self.run(work)

    async def _write_ends(self) -> None:
        while self._unwritten:
            await asyncio.sleep(RETRY_S)
            for session_id in tuple(self._unwritten):
                with contextlib.suppress(ConnectionLoss):
                    await self._remove_nodes(session_id)
                    self._unwritten.discard(session_id)
                    logger.info("the end of session %d is written", session_id)

    async def renew(self, store: EmbeddedStore) -> None:
        """Gives a new session to a store whose session expired."""
        store.session.id = await self.run(self._tree.new_session)
        self._stores[store.session.id] = store
        store.session.change(SessionState.CONNECTED)

    def add_watch(self, watch: EmbeddedWatch) -> None:
        """Calls ``watch`` after changes at its path. Only ``EmbeddedStore`` calls this."""
        self._watches[watch.path].append(watch)

    def remove_watches(self, watches: Iterable[EmbeddedWatch]) -> None:
        """Stops the calls of these watches. Only ``EmbeddedStore`` calls this."""
        for watch in watches:
            self._watches[watch.path].remove(watch)
            if not self._watches[watch.path]:
                del self._watches[watch.path]

    def _fire(self, changed: Iterable[str]) -> None:
        for path in dict.fromkeys(changed):
            for watch in tuple(self._watches.get(path, ())):
                watch.fire()

    async def close(self) -> None:
        """Ends every session and releases the file."""
        for session_id in tuple(self._stores):
            await self.expire(session_id, SessionState.CLOSED)
        if self._writing is not None:
            self._writing.cancel()  # the next process that opens the file expires all sessions
            await asyncio.wait([self._writing])
        await self.run(self._tree.close)
        self._executor.shutdown()


class EmbeddedWatch:
    """A watch of one store on one path."""

    def __init__(self, store: EmbeddedStore, path: str, callback: Callback) -> None:
        self._store = store
        self.path = path
        self._callback = callback

    def fire(self) -> None:
        """Calls the watcher, unless the watch was cancelled."""
        if self in self._store.watches:
            self._callback(self.path)

    def cancel(self) -> None:
        """Cancels the watch: no call begins after this."""
        self._store.drop_watches([self])


class EmbeddedStore(StoreOfBatches):
    """A session on an EmbeddedServer; see ``CoordinationStore`` for the methods."""

    def __init__(self, server: EmbeddedServer, session: Session) -> None:
        self._server = server
        self._owns_server = False
        self.session = session
        self.watches: set[EmbeddedWatch] = set()

    @classmethod
    async def open(cls, file: str) -> EmbeddedStore:
        """Opens a server of its own on ``file`` and one session on it; ``close`` closes both."""
        store = await (await EmbeddedServer.open(file)).connect()
        store._owns_server = True
        return store

    def _check(self) -> None:
        if self.session.state is not SessionState.CONNECTED:
            raise SessionExpired(f"session {self.session.id} is {self.session.state.value}")

    async def get_many(self, paths: Sequence[str]) -> list[tuple[bytes, Stat] | None]:
        self._check()
        return await self._server.read(paths)

    async def children(self, path: str) -> list[str]:
        self._check()
        return await self._server.children(path)

    async def multi(self, operations: Sequence[Operation]) -> list[OperationResult]:
        self._check()
        return await self._server.write(operations, self.session)

    def watch(self, path: str, callback: Callback) -> EmbeddedWatch:
        watch = EmbeddedWatch(self, path, callback)
        self.watches.add(watch)
        self._server.add_watch(watch)
        return watch

    def drop_watches(self, watches: Iterable[EmbeddedWatch]) -> None:
        """Cancels those watches of this store."""
        live = [watch for watch in watches if watch in self.watches]
        self.watches.difference_update(live)
        self._server.remove_watches(live)

    async def new_session(self) -> Session:
        if self.session.state is SessionState.EXPIRED:
            await self._server.renew(self)
        return self.session

    async def close(self) -> None:
        self.drop_watches(tuple(self.watches))
        if self.session.state is not SessionState.CLOSED:
            await self._server.expire(self.session.id, SessionState.CLOSED)
        if self._owns_server:
            self._owns_server = False
            await self._server.close()
