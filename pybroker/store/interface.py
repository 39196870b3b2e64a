"""The coordination store: a small tree of nodes that brokers share, like ZooKeeper's.

A node has a path (``/brokers/ids/1``), data, a version that grows by one with each ``set``, and perhaps an owner: an
ephemeral node vanishes with its owner's session. Every write is durable when it returns. ``multi`` is all or nothing.
All sessions see writes in the same order.

A watch reports *that* a node was created, changed or deleted, or that a child was added or removed. It never reports
which of these: the watcher reads again. A watch stays until it is cancelled. It may be called once for several changes,
or without any change, but it never misses the last change. (So a store whose own watches fire once can set them again
before it calls back.) It is called after the commit, on the event loop. It is active from the next read of its store
on, at the latest. So watch first, then read.

A session ends by ``close``. It expires if the store has received nothing from it for the session timeout. The ephemeral
nodes of an expired session are gone, and every call raises SessionExpired until ``new_session``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from enum import Enum
from typing import NamedTuple, Protocol, TypeAlias

ANY_VERSION = -1


class CoordinationError(Exception):
    """Raised if a call failed. In a ``multi``, ``index`` is the position of the failed operation."""

    def __init__(self, text: str = "", index: int = 0) -> None:
        super().__init__(text)
        self.index = index


class NoNode(CoordinationError):
    """Raised if there is no node at the path, or no parent for a new node."""


class NodeExists(CoordinationError):
    """Raised if the node already exists."""


class BadVersion(CoordinationError):
    """Raised if the node's version is not the expected one: another session wrote first."""


class NotEmpty(CoordinationError):
    """Raised for the deletion of a node that has children."""


class NoChildrenForEphemerals(CoordinationError):
    """Raised for a new node whose parent is ephemeral."""


class SessionExpired(CoordinationError):
    """Raised if the session has expired; its ephemeral nodes are gone."""


class ConnectionLoss(CoordinationError):
    """Raised if the store cannot be reached. It is unknown whether a write happened."""


class NotAllowed(CoordinationError):
    """Raised if the store denies the operation to this client."""


class TooLarge(CoordinationError):
    """Raised if a ``multi`` has more bytes than the store accepts; it was not sent."""


class Stat(NamedTuple):
    """The facts about a node, without its data.

    ``created`` numbers the node's creation: a later creation anywhere has a greater number. ``owner`` is the session id
    of an ephemeral node, else 0. Times are milliseconds.
    """

    version: int
    created: int
    created_ms: int
    owner: int


class Create(NamedTuple):
    """Creates a node; with ``sequence``, a number of ten digits that grows per parent is appended to its name."""

    path: str
    data: bytes = b""
    ephemeral: bool = False
    sequence: bool = False


class Set(NamedTuple):
    """Replaces a node's data, if the node has that version."""

    path: str
    data: bytes
    version: int = ANY_VERSION


class Delete(NamedTuple):
    """Deletes a node without children, if the node has that version."""

    path: str
    version: int = ANY_VERSION


class Check(NamedTuple):
    """Fails the ``multi`` unless the node has that version."""

    path: str
    version: int


Operation: TypeAlias = Create | Set | Delete | Check
OperationResult: TypeAlias = str | Stat | None


class SessionState(Enum):
    """SUSPENDED: the connection is lost, but the session may still live. EXPIRED: the session has ended."""

    CONNECTED = "connected"
    SUSPENDED = "suspended"
    EXPIRED = "expired"
    CLOSED = "closed"


class Session:
    """The session of one store: its id (a new one after an expiry), its state, its listeners."""

    def __init__(self, session_id: int) -> None:
        self.id = session_id
        self.state = SessionState.CONNECTED
        self._listeners: list[Callable[[SessionState], None]] = []

    def on_change(self, listener: Callable[[SessionState], None]) -> None:
        """Calls ``listener(state)`` on the event loop after each change of state."""
        self._listeners.append(listener)

    def change(self, state: SessionState) -> None:
        """Enters ``state`` and calls the listeners. Only the store calls this."""
        if state is not self.state:
            self.state = state
            for listener in tuple(self._listeners):
                listener(state)


class Watch(Protocol):
    """A watch that has not ended."""

    def cancel(self) -> None:
        """Cancels the watch: no call begins after this."""


class CoordinationStore(Protocol):
    """One session's view of the tree. Make all calls on one event loop."""

    @property
    def session(self) -> Session:
        """The session of this store."""

    async def create(
        self, path: str, data: bytes = b"", *, ephemeral: bool = False, sequence: bool = False
    ) -> str:
        """Creates a node and returns its path. Raises NodeExists, NoNode, NoChildrenForEphemerals."""

    async def get(self, path: str) -> tuple[bytes, Stat]:
        """Returns a node's data and Stat. Raises NoNode."""

    async def get_many(self, paths: Sequence[str]) -> list[tuple[bytes, Stat] | None]:
        """Returns data and Stat of each path, None if the node does not exist. The reads need not be from the same
        moment.
        """

    async def set(self, path: str, data: bytes, version: int = ANY_VERSION) -> Stat:
        """Replaces a node's data. Raises NoNode, BadVersion."""

    async def delete(self, path: str, version: int = ANY_VERSION) -> None:
        """Deletes a node. Raises NoNode, BadVersion, NotEmpty."""

    async def exists(self, path: str) -> Stat | None:
        """Returns the Stat of the node, or None."""

    async def children(self, path: str) -> list[str]:
        """Returns the names of the children, sorted. Raises NoNode."""

    async def multi(self, operations: Sequence[Operation]) -> list[OperationResult]:
        """Performs all operations or none. Returns per operation the created path, the Stat after a Set, or None.

        ZooKeeper accepts a mebibyte at once; a larger ``multi`` raises TooLarge.
        """

    def watch(self, path: str, callback: Callable[[str], None]) -> Watch:
        """Calls ``callback(path)`` after changes at the node, which need not exist yet."""

    async def new_session(self) -> Session:
        """Begins a new session after an expiry, without ephemeral nodes; watches stay."""

    async def close(self) -> None:
        """Ends the session: its ephemeral nodes vanish, its watches are cancelled."""


async def ensure_path(store: CoordinationStore, path: str) -> None:
    """Creates ``path`` and its ancestors, without data, if they do not exist."""
    if await store.exists(path) is not None:
        return
    parent = path.rpartition("/")[0]
    if parent:
        await ensure_path(store, parent)
    try:
        await store.create(path)
    except NodeExists:
        return
