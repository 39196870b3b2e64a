"""Opens the coordination store that a broker uses.

    file        embedded, in this process, alone on its SQLite file (one broker)
    socket      the embedded store of the supervisor, over its Unix socket (``--processes N``)
    zookeeper   an ensemble: ``host:port,host:port/chroot`` (several machines)
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from pybroker.loop_watch import LoopWatch
from pybroker.store.embedded import EmbeddedStore
from pybroker.store.interface import CoordinationStore

if TYPE_CHECKING:
    import ssl

    from pybroker.config.zookeeper_login import Login, TicketLogin

SESSION_TIMEOUT_MS = 18_000

StoreFactory: TypeAlias = Callable[[], Awaitable[CoordinationStore]]


class StoreOptions(NamedTuple):
    """The options for the store. Exactly one of ``file``, ``socket`` and ``zookeeper`` is set."""

    file: str | None = None
    socket: str | None = None
    zookeeper: str | None = None
    session_timeout_ms: int = SESSION_TIMEOUT_MS
    connection_timeout_ms: int | None = None
    """How long to wait for ZooKeeper at the start; None means the session timeout."""
    tls: ssl.SSLContext | None = None
    """The TLS context for ZooKeeper; None without TLS."""
    login: Login | TicketLogin | None = None
    """The login at ZooKeeper; None means anonymous."""
    is_guarded: bool = False
    """True if only brokers with this certificate or login may access this broker's nodes in ZooKeeper."""

    def __str__(self) -> str:
        return self.zookeeper or self.socket or str(self.file)


async def open_store(options: StoreOptions, watch: LoopWatch | None = None) -> CoordinationStore:
    """Opens a store with a session of its own, which ends when this loop hangs. ``watch`` watches the loop, if given.

    Raises ConnectionLoss if the store cannot be reached, NotAllowed if it refuses the login.
    """
    if options.file is not None:
        return await EmbeddedStore.open(options.file)
    if options.socket is not None:
        from pybroker.store.remote import RemoteStore  # unused modules do not delay the start

        return await RemoteStore.open(options.socket, options.session_timeout_ms)
    if options.zookeeper is not None:
        from pybroker.store.zookeeper import ZooKeeperStore

        waiting_ms = options.connection_timeout_ms or options.session_timeout_ms
        times = (options.session_timeout_ms, waiting_ms)
        return await ZooKeeperStore.open(
            options.zookeeper, *times, watch, options.tls, options.login, is_guarded=options.is_guarded
        )
    raise ValueError(f"no coordination store is chosen: {options!r}")
