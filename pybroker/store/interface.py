"""The coordination store: a small tree of nodes that brokers share, as ZooKeeper has it.

A node has a path (``/brokers/ids/1``), data, a version that grows by one with each ``set``, and
perhaps an owner: an ephemeral node vanishes with its owner's session. Every write is durable when
it returns. ``multi`` is all or nothing. Writes are seen by everyone in one order.

A watch says *that* something happened at a node, never what: it was created, changed, deleted, or
a child came or went. The watcher reads again. It stays until it is cancelled, may be called once
for several changes, also without a change, and never misses the last one. (So a store whose own
watches fire once can arm them again before it calls back.) It is called after the commit, on the
event loop. It holds from the next read of its store on, at the latest: watch first, then read.

A session ends by ``close``, or by expiry, when the store has not heard of it for too long. An
expired session's ephemeral nodes are gone and every call raises SessionExpired, until
``new_session``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from enum import Enum
from typing import NamedTuple, Protocol, TypeAlias

ANY_VERSION = -1


class CoordinationError(Exception):
    """A call that failed; in a ``multi``, ``index`` is the position of the operation that did."""

    def __init__(self, text: str = "", index: int = 0) -> None:
        super().__init__(text)
        self.index = index


class NoNode(CoordinationError):
    """There is no node at the path, or no parent for a node to be created."""


class NodeExists(CoordinationError):
    """A node is there already."""


class BadVersion(CoordinationError):
    """The node's version is not the expected one: someone else wrote first."""


class NotEmpty(CoordinationError):
    """A node with children cannot be deleted."""


class NoChildrenForEphemerals(CoordinationError):
    """An ephemeral node cannot have children."""


class SessionExpired(CoordinationError):
    """The session is over; its ephemeral nodes are gone."""


class ConnectionLoss(CoordinationError):
    """The store cannot be reached; whether a write happened is unknown."""


class NotAllowed(CoordinationError):
    """The store does not let this client do so."""


class TooLarge(CoordinationError):
    """A ``multi`` of more bytes than the store takes at once; it was not sent."""


class Stat(NamedTuple):
    """What the store knows of a node beside its data.

    ``created`` numbers the node's creation: a later creation anywhere has a greater number.
    ``owner`` is the session id of an ephemeral node, else 0. Times are milliseconds.
    """

    version: int
    created: int
    created_ms: int
    owner: int


class Create(NamedTuple):
    """Creates a node; with ``sequence`` a number of ten digits, growing per parent, is appended."""

    path: str
    data: bytes = b""
    ephemeral: bool = False
    sequence: bool = False


class Set(NamedTuple):
    """Replaces a node's data, if it has that version."""

    path: str
    data: bytes
    version: int = ANY_VERSION


class Delete(NamedTuple):
    """Deletes a node without children, if it has that version."""

    path: str
    version: int = ANY_VERSION


class Check(NamedTuple):
    """Fails the ``multi`` unless the node has that version."""

    path: str
    version: int


Operation: TypeAlias = Create | Set | Delete | Check
OperationResult: TypeAlias = str | Stat | None


class SessionState(Enum):
    """SUSPENDED: out of touch, the session may still live. EXPIRED: it does not."""

    CONNECTED = "connected"
    SUSPENDED = "suspended"
    EXPIRED = "expired"
    CLOSED = "closed"


class Session:
    """The session of one store: its id (another one after an expiry), its state, its listeners."""

    def __init__(self, session_id: int) -> None:
        self.id = session_id
        self.state = SessionState.CONNECTED
        self._listeners: list[Callable[[SessionState], None]] = []

    def on_change(self, listener: Callable[[SessionState], None]) -> None:
        """Calls ``listener(state)`` on the event loop after each change of state."""
        self._listeners.append(listener)

    def change(self, state: SessionState) -> None:
        """For the store: enters ``state`` and tells the listeners."""
        if state is not self.state:
            self.state = state
            for listener in tuple(self._listeners):
                listener(state)


class Watch(Protocol):
    """A watch that was set."""

    def cancel(self) -> None:
        """No call begins after this."""


class CoordinationStore(Protocol):
    """One session's view of the tree. All calls belong to one event loop."""

    @property
    def session(self) -> Session:
        """The session of this store."""

    async def create(
        self, path: str, data: bytes = b"", *, ephemeral: bool = False, sequence: bool = False
    ) -> str:
        """Creates a node and returns its path. NodeExists, NoNode, NoChildrenForEphemerals."""

    async def get(self, path: str) -> tuple[bytes, Stat]:
        """A node's data and Stat. NoNode."""

    async def get_many(self, paths: Sequence[str]) -> list[tuple[bytes, Stat] | None]:
        """Data and Stat of each path, None where there is no node; not one moment's picture."""

    async def set(self, path: str, data: bytes, version: int = ANY_VERSION) -> Stat:
        """Replaces a node's data. NoNode, BadVersion."""

    async def delete(self, path: str, version: int = ANY_VERSION) -> None:
        """Deletes a node. NoNode, BadVersion, NotEmpty."""

    async def exists(self, path: str) -> Stat | None:
        """The Stat of the node, or None."""

    async def children(self, path: str) -> list[str]:
        """Names of the children, sorted. NoNode."""

    async def multi(self, operations: Sequence[Operation]) -> list[OperationResult]:
        """All operations or none; per operation the path created, the Stat after a Set, or None.

        ZooKeeper takes a mebibyte at once: TooLarge.
        """

    def watch(self, path: str, callback: Callable[[str], None]) -> Watch:
        """Calls ``callback(path)`` after changes at the node, which need not exist yet."""

    async def new_session(self) -> Session:
        """After an expiry: begins a new session, without ephemeral nodes; watches stay."""

    async def close(self) -> None:
        """Ends the session: its ephemeral nodes vanish, its watches are cancelled."""


async def ensure_path(store: CoordinationStore, path: str) -> None:
    """Creates ``path`` and its ancestors, without data, where they do not exist."""
    if await store.exists(path) is not None:
        return
    parent = path.rpartition("/")[0]
    if parent:
        await ensure_path(store, parent)
    try:
        await store.create(path)
    except NodeExists:
        return
