"""The coordination store: one tree, sessions that expire by virtual time, watches.

As with ZooKeeper, a write may have succeeded although its caller gets ConnectionLoss. A session lives on for its
timeout after its process has ended or can no longer be reached. The owner of an expired session learns of it late. As
with the supervisor's store (``knows_death``), the store may learn of a process's end at once. Answers and watches of a
session arrive in the order in which the store has sent them.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from proofs.simulator.machines.network import Network
from proofs.simulator.machines.scheduler import Handle, ProcessLoop, Scheduler
from pybroker.store.batches import StoreOfBatches
from pybroker.store.interface import (
    ANY_VERSION,
    BadVersion,
    Check,
    ConnectionLoss,
    CoordinationError,
    Create,
    NoChildrenForEphemerals,
    NodeExists,
    NoNode,
    NotEmpty,
    Operation,
    OperationResult,
    Session,
    SessionExpired,
    SessionState,
    Set,
    Stat,
)

STORE = 0
"""The store's place in the network."""


class Node(NamedTuple):
    """A node of the simulated store's tree."""

    data: bytes
    stat: Stat


class Tree:
    """The nodes of the simulated store, by path."""

    def __init__(self) -> None:
        self.nodes: dict[str, Node] = {"/": Node(b"", Stat(0, 0, 0, 0))}
        self.children: dict[str, dict[str, None]] = {"/": {}}
        self.sequences: dict[str, int] = {}
        self.transaction = 0

    def copy(self) -> Tree:
        """Returns a copy of the tree."""
        tree = Tree()
        tree.nodes, tree.sequences, tree.transaction = dict(self.nodes), dict(self.sequences), self.transaction
        tree.children = {path: dict(names) for path, names in self.children.items()}
        return tree

    def names(self, path: str) -> list[str]:
        """Returns the names of a node's children, sorted. Raises NoNode."""
        self._stat(path)
        return sorted(self.children.get(path, ()))

    def apply(
        self, operations: Sequence[Operation], session: int, now_ms: int
    ) -> tuple[list[OperationResult], list[str]]:
        """Applies all operations or none. Returns their results and the changed paths."""
        self.transaction += 1
        undo: list[Callable[[], object]] = []
        results: list[OperationResult] = []
        changed: list[str] = []
        for index, operation in enumerate(operations):
            try:
                results.append(self._one(operation, session, now_ms, undo, changed))
            except CoordinationError as error:
                for step in reversed(undo):
                    step()
                error.index = index
                raise
        return results, changed

    def _one(
        self, operation: Operation, session: int, now_ms: int, undo: list[Callable[[], object]], changed: list[str]
    ) -> OperationResult:
        if isinstance(operation, Create):
            path = self._place(operation)
            stat = Stat(0, self.transaction, now_ms, session if operation.ephemeral else 0)
            self._put(path, Node(bytes(operation.data), stat))
            undo.append(lambda: self._pop(path))
            changed += (path, _parent(path))
            return path
        stat = self._expect(operation.path, operation.version)
        node = self.nodes[operation.path]
        if isinstance(operation, Check):
            return None
        if isinstance(operation, Set):
            stat = stat._replace(version=stat.version + 1)
            self.nodes[operation.path] = Node(bytes(operation.data), stat)
            undo.append(lambda: self.nodes.__setitem__(operation.path, node))
            changed.append(operation.path)
            return stat
        if self.children.get(operation.path):
            raise NotEmpty(operation.path)
        self._pop(operation.path)
        undo.append(lambda: self._put(operation.path, node))
        changed += (operation.path, _parent(operation.path))
        return None

    def _place(self, operation: Create) -> str:
        path, parent = operation.path, _parent(operation.path)
        if self._stat(parent).owner:
            raise NoChildrenForEphemerals(parent)
        if operation.sequence:
            number = self.sequences[parent] = self.sequences.get(parent, -1) + 1
            path += f"{number:010d}"
        if path in self.nodes:
            raise NodeExists(path)
        return path

    def _put(self, path: str, node: Node) -> None:
        self.nodes[path] = node
        self.children.setdefault(_parent(path), {})[path.rpartition("/")[2]] = None

    def _pop(self, path: str) -> None:
        del self.nodes[path]
        del self.children[_parent(path)][path.rpartition("/")[2]]

    def _stat(self, path: str) -> Stat:
        node = self.nodes.get(path)
        if node is None:
            raise NoNode(path)
        return node.stat

    def _expect(self, path: str, version: int) -> Stat:
        stat = self._stat(path)
        if version not in (ANY_VERSION, stat.version):
            raise BadVersion(f"{path} has version {stat.version}, not {version}")
        return stat

    def remove(self, path: str) -> None:
        """Removes a node without children, whichever session owns it."""
        self._pop(path)

    def expire(self, session: int) -> list[str]:
        """Removes the nodes of an expired session, and returns the changed paths."""
        gone = [path for path, node in self.nodes.items() if node.stat.owner == session]
        for path in gone:
            self._pop(path)
        return [each for path in gone for each in (path, _parent(path))]


def _parent(path: str) -> str:
    return path.rpartition("/")[0] or "/"


class SimulatedStore:
    """The server of the simulated coordination store."""

    def __init__(self, scheduler: Scheduler, network: Network, tree: Tree, timeout_s: float, *, knows_death: bool):
        self.scheduler = scheduler
        self.network = network
        self.tree = tree
        self.timeout_s = timeout_s
        self.knows_death = knows_death
        self.on_write: Callable[[list[str]], object] = lambda changed: None
        """Called with the changed paths after each change."""
        self.is_full = False
        """The store refuses writes. A session that expires meanwhile ends when there is room again."""
        self.asked: Callable[[int], object] = lambda place: None
        """Called with the client's place for each request."""
        self.replaced: Callable[[], object] = lambda: None
        """Called after another tree has replaced this one."""
        self._late: list[int] = []
        self._session = 0
        self._clients: dict[int, StoreClient] = {}
        """The clients, by session."""
        self._places: dict[int, StoreClient] = {}

    def now_ms(self) -> int:
        """Returns the store's own time."""
        return 1_700_000_000_000 + int(self.scheduler.now * 1000)

    def connect(self, loop: ProcessLoop, place: int) -> StoreClient:
        """Returns a client with a session."""
        client = self._places[place] = StoreClient(self, loop, place)
        self.open_session(client)
        return client

    def open_session(self, client: StoreClient) -> None:
        """Opens a session for a client without one."""
        self._session += 1
        client.session.id = self._session
        self._clients[self._session] = client

    def owns(self, session: int) -> bool:
        """Returns whether the session is alive."""
        return session in self._clients

    def perform(self, operations: Sequence[Operation], session: int) -> list[OperationResult]:
        """Performs a write. Raises CoordinationError."""
        if session not in self._clients:
            raise SessionExpired(f"session {session} has expired")
        if self.is_full:
            raise ConnectionLoss("the store's disk is full")
        results, changed = self.tree.apply(operations, session, self.now_ms())
        self._tell(changed)
        return results

    def _tell(self, changed: list[str]) -> None:
        self.on_write(changed)
        for path in dict.fromkeys(changed):
            for client in tuple(self._clients.values()):
                client.notice(path)

    def expire(self, session: int) -> None:
        """Ends a session as if its timeout were over."""
        if self.is_full:
            self._late.append(session)
            return
        client = self._clients.pop(session, None)
        if client is None:
            return
        self._tell(self.tree.expire(session))
        client.was_expired(session)

    def make_room(self) -> None:
        """Accepts writes again."""
        self.is_full = False
        late, self._late = self._late, []
        for session in late:
            self.expire(session)

    def put_in_place(self, tree: Tree) -> None:
        """Replaces the tree, as the restore of a backup does. It ends all sessions, and triggers no watch."""
        before, self.tree = self.tree, tree
        for session in sorted({node.stat.owner for node in tree.nodes.values() if node.stat.owner}):
            if session not in self._clients:
                tree.expire(session)
        clients, self._clients = self._clients, {}
        self.on_write(sorted({*before.nodes, *tree.nodes}))
        for session, client in clients.items():
            tree.expire(session)
            client.was_expired(session)
        self.replaced()

    def tampered(self, changed: list[str]) -> None:
        """Announces nodes that a stranger has changed."""
        self._tell(changed)

    def process_ended(self, client: StoreClient) -> None:
        """Ends the session of a client whose process has ended, at once or after a while."""
        delay = 0.001 if self.knows_death else self.timeout_s
        self.scheduler.after(delay, self.expire, client.session.id)

    def halted(self, client: StoreClient) -> None:
        """Stops renewing the session of a client whose loop hangs."""
        self.scheduler.after(self.timeout_s, self._end_halted, client, client.session.id)

    def _end_halted(self, client: StoreClient, session: int) -> None:
        if client.loop.is_paused:
            self.expire(session)

    def link_changed(self, place: int, *, is_up: bool) -> None:
        """Tells the clients of a machine whether the store can be reached."""
        client = self._places.get(place)
        if client is not None:
            client.link_changed(is_up=is_up)


class Watch:
    """A watch that a client has set."""

    def __init__(self, client: StoreClient, path: str, callback: Callable[[str], None]) -> None:
        self.client = client
        self.path = path
        self.callback = callback
        client.watches.setdefault(path, {})[self] = None

    def cancel(self) -> None:
        """Cancels the watch: no call begins after this."""
        watches = self.client.watches.get(self.path, {})
        watches.pop(self, None)
        if not watches:
            self.client.watches.pop(self.path, None)


class StoreClient(StoreOfBatches):
    """One process's view of the store; see ``CoordinationStore``."""

    def __init__(self, server: SimulatedStore, loop: ProcessLoop, place: int) -> None:
        self.server = server
        self.loop = loop
        self.place = place
        self.session = Session(0)
        self.watches: dict[str, dict[Watch, None]] = {}
        self._calls: dict[asyncio.Future[Any], None] = {}
        self._there = server.network.channel(place, STORE)
        self._back = server.network.channel(STORE, place)
        self._silence: list[Handle] = []
        self._is_expired = False

    # Calls

    async def get_many(self, paths: Sequence[str]) -> list[tuple[bytes, Stat] | None]:
        wanted = tuple(paths)
        found: list[tuple[bytes, Stat] | None] = await self._ask(self._read, wanted)
        return found

    def _read(self, paths: Sequence[str]) -> list[tuple[bytes, Stat] | None]:
        self._check()
        return [self.server.tree.nodes.get(path) for path in paths]

    async def children(self, path: str) -> list[str]:
        found: list[str] = await self._ask(self._names, path)
        return found

    def _names(self, path: str) -> list[str]:
        self._check()
        return self.server.tree.names(path)

    def _check(self) -> None:
        if not self.server.owns(self.session.id):
            raise SessionExpired(f"session {self.session.id} has expired")

    async def multi(self, operations: Sequence[Operation]) -> list[OperationResult]:
        results: list[OperationResult] = await self._ask(self.server.perform, tuple(operations), self.session.id)
        return results

    async def _ask(self, work: Callable[..., Any], *args: Any) -> Any:
        if self.session.state is SessionState.SUSPENDED:
            raise ConnectionLoss("the store cannot be reached")
        if self.session.state is not SessionState.CONNECTED:
            raise SessionExpired(f"session {self.session.id} is {self.session.state.value}")
        self.server.asked(self.place)
        answer: asyncio.Future[Any] = self.loop.create_future()
        self._calls[answer] = None
        self._there.send(self._serve, answer, work, args)
        try:
            return await answer
        finally:
            self._calls.pop(answer, None)

    def _serve(self, answer: asyncio.Future[Any], work: Callable[..., Any], args: tuple[Any, ...]) -> None:
        """Serves a request, at the store."""
        error: CoordinationError | None = None
        result = None
        try:
            result = work(*args)
        except CoordinationError as failure:
            error = failure
        self._back.send(self._on_loop, self._answer, answer, result, error)

    def _on_loop(self, work: Callable[..., object], *args: Any) -> None:
        self.loop.call_soon(work, *args)

    def _answer(self, answer: asyncio.Future[Any], result: Any, error: CoordinationError | None) -> None:
        if answer.done():
            return
        if error is not None:
            answer.set_exception(error)
        else:
            answer.set_result(result)

    # Watches

    def watch(self, path: str, callback: Callable[[str], None]) -> Watch:
        return Watch(self, path, callback)

    def notice(self, path: str) -> None:
        """Sends a notice of a change, at the store."""
        if path in self.watches and not self.loop.is_dead:
            self._back.send(self._on_loop, self._fire, path)

    def _fire(self, path: str) -> None:
        for watch in tuple(self.watches.get(path, ())):
            if watch in self.watches.get(path, ()):
                watch.callback(path)

    # The session

    def link_changed(self, *, is_up: bool) -> None:
        """Reacts to a lost or healed link: the client notices at once, and the session expires later."""
        if not is_up and not self._silence:
            after = self.server.scheduler.after
            timeout_s = self.server.timeout_s
            self._silence = [
                after(timeout_s * 2 / 3, self._on_loop, self._suspend),
                after(timeout_s, self.server.expire, self.session.id),
            ]
        elif is_up:
            self.heard()

    def heard(self) -> None:
        """Renews the session, because the client is reachable again."""
        for handle in self._silence:
            handle.cancel()
        self._silence = []
        self._back.send(self._on_loop, self._reconnected)

    def _suspend(self) -> None:
        if self.session.state is SessionState.CONNECTED:
            self._fail(ConnectionLoss("the store cannot be reached"))
            self.session.change(SessionState.SUSPENDED)

    def _reconnected(self) -> None:
        if self._is_expired:
            self._end()
        elif self.session.state is SessionState.SUSPENDED:
            self.session.change(SessionState.CONNECTED)
            for path in tuple(self.watches):  # nobody told the client what has happened meanwhile
                self.loop.call_soon(self._fire, path)

    def was_expired(self, session: int) -> None:
        """Expires the session, at the store. The client learns of it when the store reaches it."""
        if session == self.session.id:
            self._is_expired = True
            self._back.send(self._on_loop, self._end)

    def _end(self) -> None:
        if self._is_expired and self.session.state in (SessionState.CONNECTED, SessionState.SUSPENDED):
            self._fail(SessionExpired(f"session {self.session.id} has expired"))
            self.session.change(SessionState.EXPIRED)

    def _fail(self, error: CoordinationError) -> None:
        for answer in tuple(self._calls):
            if not answer.done():
                answer.set_exception(error)
        self._calls.clear()

    async def new_session(self) -> Session:
        if self.session.state is SessionState.EXPIRED:
            await self._connected()
            self._is_expired = False
            self.server.open_session(self)
            self.session.change(SessionState.CONNECTED)
            for path in tuple(self.watches):
                self.loop.call_soon(self._fire, path)
        return self.session

    async def _connected(self) -> None:
        """Waits for an answer of the store."""
        answer: asyncio.Future[None] = self.loop.create_future()
        self._there.send(lambda: self._back.send(self._on_loop, self._answer, answer, None, None))
        await answer

    async def close(self) -> None:
        self.watches.clear()
        if self.session.state is not SessionState.CLOSED:
            state = self.session.state
            self.session.change(SessionState.CLOSED)
            if state is SessionState.CONNECTED:
                self._there.send(self.server.expire, self.session.id)
