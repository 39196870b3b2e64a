"""A ZooKeeper ensemble as coordination store, by kazoo.

kazoo has its own threads: one owns the connection, two call back. The event loop calls kazoo; results and events come
back by ``call_soon_threadsafe``. This module adds what kazoo does not do:

- After an expiry kazoo connects again by itself, in a new session. Calls are refused (SessionExpired) from the moment
  when kazoo learns of the expiry until ``new_session``. kazoo's thread counts its sessions as *generations*, and this
  store accepts one of them.
- ZooKeeper's watches fire once and end with the connection. Two of them, on the node and on its children, are set for
  every watched path. They are set again before each callback. After each reconnection they are also set again, and then
  all are called, because the changes in the meantime are unknown. Requests of one session are answered in order. So a
  read that follows sees every change that the watch does not report.
- kazoo's thread sends heartbeats even if the event loop hangs. A loop that hangs for the session timeout loses the
  session (``loop_guard``). The session is closed, so that other brokers need not wait. A new one begins when the loop
  runs again.
- If kazoo gets an answer that it does not expect, its thread ends, and no longer tries to connect. This store treats
  that as the end of the session, and starts the thread again.
- A server refuses a client that has seen later transactions than the server has. That lasts for ever if ZooKeeper was
  restored from a backup, or is empty. So if a client finds no server for the session timeout, it connects as if it had
  seen nothing. Then it begins with a ``sync``, so that a server that merely lags shows it no old data.
- If a server does not accept the broker's password, kazoo's thread ends. While the store is being opened, this is an
  error. Later the thread is started again after a pause: one of several servers may have other settings, or all servers
  may have them for a time.
- While the session is SUSPENDED, a call waits for the connection, at most one session timeout. A read that lost its
  connection is repeated. A write is not repeated: it is unknown whether it happened (ConnectionLoss).
- ZooKeeper closes the connection on a request of more than ``jute.maxbuffer`` bytes (1 MiB), and a client that tries
  again would never end. So such a ``multi`` is refused here (TooLarge).

A read sees every earlier write of the same session, and all writes before that. Writes of other sessions may be seen
late, because ZooKeeper's servers follow their leader.
"""

from __future__ import annotations

import asyncio
import logging
import re
import ssl
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from kazoo.client import KazooClient
from kazoo.exceptions import KazooException
from kazoo.protocol.states import EventType, KazooState, KeeperState, WatchedEvent
from kazoo.retry import KazooRetry
from kazoo.security import CREATOR_ALL_ACL, READ_ACL_UNSAFE, Permissions

from pybroker.config.zookeeper_login import Login, TicketLogin
from pybroker.loop_watch import LoopWatch
from pybroker.store import kazoo_results
from pybroker.store.batches import StoreOfBatches
from pybroker.store.interface import (
    ConnectionLoss,
    NotAllowed,
    Operation,
    OperationResult,
    Session,
    SessionExpired,
    SessionState,
    Stat,
    TooLarge,
)
from pybroker.store.kazoo_login import KazooLogin
from pybroker.store.kazoo_sockets import Handler, way_to
from pybroker.store.loop_guard import LoopGuard
from pybroker.store.watching import StoreWatch

MAX_REQUEST = (1 << 20) - 1024
PER_OPERATION = 60
STOP_S = 5.0
REFUSED_S = 1.0
"""The pause after a refused login."""
TOLD_S = 2.0
"""If a start waits longer than this for ZooKeeper, it logs for which servers it waits."""
_SECRETS = ("/pybroker", "/config/users", "/config/brokers", "/delegation_token/tokens")
"""Folders whose nodes contain passwords and other secrets: Kafka's list, and all of our own nodes."""
_SECRET = re.compile(rf"({'|'.join(_SECRETS)})(/|\Z)")
ALONE = "a single broker needs no ZooKeeper: without zookeeper.connect it starts at once"

T = TypeVar("T")
Callback = Callable[[str], None]

logger = logging.getLogger(__name__)


class _Watched:
    """A path with its watches; kazoo calls ``on_event`` on a thread of its own."""

    def __init__(self, path: str, on_event: Callable[[WatchedEvent], None]) -> None:
        self.path = path
        self.on_event = on_event
        self.watches: list[StoreWatch] = []


class ZooKeeperStore(StoreOfBatches):
    """A session of a ZooKeeper ensemble; see ``CoordinationStore`` for the methods."""

    def __init__(
        self,
        hosts: str,
        timeout_s: float,
        tls: ssl.SSLContext | None = None,
        login: Login | TicketLogin | None = None,
        *,
        is_guarded: bool = False,
    ) -> None:
        self._timeout_s = timeout_s
        self._tls = tls
        self._is_guarded = is_guarded
        self._loop = asyncio.get_running_loop()
        self._client = KazooClient(
            hosts=hosts,
            timeout=timeout_s,
            handler=Handler(timeout_s / 3 / (1 + hosts.count(",")), tls),
            default_acl=CREATOR_ALL_ACL + READ_ACL_UNSAFE if is_guarded else None,
            connection_retry=KazooRetry(max_tries=-1, delay=0.05, max_delay=1.0),
        )
        logging.getLogger("kazoo").setLevel(logging.ERROR)  # lower levels log each attempt, and the data of nodes
        self._client.add_listener(self._on_state)
        self._logs_in = login is not None
        self._refusal = ""
        """Why the last login was refused; empty after an accepted one."""
        self._is_open = False
        if login is not None:
            KazooLogin(self._client, login, lambda: self._tell(KazooState.CONNECTED), self._on_refused)
        self._generation = 0
        """How many sessions kazoo has lost. kazoo's thread writes it."""
        self._accepted = 0
        self._connected = asyncio.Event()
        self._closing = False
        self._stuck = False
        """True if kazoo was stopped because the loop hangs."""
        self._own_watch = LoopWatch(self._loop)
        self._guard: LoopGuard | None = None
        self._forgetting: asyncio.TimerHandle | None = None
        self._under_way: set[Callable[[], None]] = set()
        """Functions that complete the unanswered calls."""
        self._watched: dict[str, _Watched] = {}
        self.session = Session(0)

    @classmethod
    async def open(
        cls,
        hosts: str,
        session_timeout_ms: int,
        connection_timeout_ms: int,
        watch: LoopWatch | None = None,
        tls: ssl.SSLContext | None = None,
        login: Login | TicketLogin | None = None,
        *,
        is_guarded: bool = False,
    ) -> ZooKeeperStore:
        """Connects to ``host:port,…/chroot``, and creates the chroot. Raises ConnectionLoss, NotAllowed.

        ``watch`` watches this loop; without it the store makes one. With ``is_guarded``, only brokers with the same
        certificate or ``login`` may access the nodes that this store creates.
        """
        store = cls(hosts, session_timeout_ms / 1000, tls, login, is_guarded=is_guarded)
        chroot, store._client.chroot = store._client.chroot, ""
        store._client.start_async()
        if watch is None:
            store._own_watch.start()
        store._guard = LoopGuard(watch or store._own_watch, store._timeout_s, store._on_stuck, store._on_back)
        telling = asyncio.ensure_future(store._tell_whom_it_waits_for())
        try:
            async with asyncio.timeout(connection_timeout_ms / 1000):
                await store._connected.wait()
                telling.cancel()
                if store._refusal:
                    await store.close()
                    raise NotAllowed(store._refusal)
                if chroot:
                    await store._ask(lambda: store._client.ensure_path_async(chroot))
        except TimeoutError as error:
            await store.close()
            why = await store._ways()
            raise ConnectionLoss(f"no answer for {connection_timeout_ms / 1000:g} s: {why}; {ALONE}") from error
        except KazooException as error:
            await store.close()
            raise kazoo_results.translated(error, chroot) from error
        finally:
            telling.cancel()
        store._client.chroot = chroot
        store._is_open = True
        if is_guarded:
            await store._tell_what_is_open()
        return store

    async def _tell_what_is_open(self) -> None:
        """Logs which secrets are still open to everybody, because they were written before the setting was made."""
        calls = [lambda path=path: self._client.get_acls_async(path) for path in _SECRETS]
        for path, result in zip(_SECRETS, await self._ask_all(calls), strict=True):
            acls = [] if isinstance(result, Exception) else result[0]
            if any(each.id.scheme == "world" and each.perms & Permissions.READ for each in acls):
                logger.warning("ZooKeeper: everybody may read %s, created before zookeeper.set.acl was set", path)

    async def _ways(self) -> str:
        ways = (way_to(host, port, self._tls) for host, port in self._client.hosts)
        return "; ".join(await asyncio.gather(*ways))

    async def _tell_whom_it_waits_for(self) -> None:
        """Logs after ``TOLD_S`` seconds which servers do not answer."""
        await asyncio.sleep(TOLD_S)
        logger.warning("still waiting for ZooKeeper: %s; %s", await self._ways(), ALONE)

    # -- the session -------------------------------------------------------------------------------

    def _on_state(self, state: str) -> None:
        """Handles a state of kazoo, on its thread."""
        if state == KazooState.LOST:
            self._generation += 1
            is_refused = self._client.client_state == KeeperState.AUTH_FAILED
            has_ended = self._is_open if is_refused else self._client.client_state == KeeperState.CLOSED
            if has_ended and not (self._closing or self._stuck):
                threading.Thread(target=self._connect_again, args=(is_refused,), daemon=True).start()
        if state != KazooState.CONNECTED or not self._logs_in:
            self._tell(state)

    def _tell(self, state: str) -> None:
        """Reports a state, on kazoo's thread. A connection counts as connected only after its login."""
        if not self._closing:
            self._loop.call_soon_threadsafe(self._enter, state, self._generation, self._client.client_id)

    def _on_refused(self, why: str) -> None:
        """Reports a refused login, on kazoo's thread."""
        if not self._closing:
            self._loop.call_soon_threadsafe(self._refuse, why)

    def _refuse(self, why: str) -> None:
        if not self._refusal and self._is_open:
            logger.error("ZooKeeper: %s; trying again every %g s", why, REFUSED_S)
        self._refusal = why
        if not self._is_open:
            self._connected.set()

    def _connect_again(self, is_refused: bool) -> None:
        """Starts kazoo again, on a separate thread, after waiting for the end of kazoo's thread."""
        if is_refused:
            time.sleep(REFUSED_S)
        else:
            logger.error("ZooKeeper: kazoo's connection thread has ended; another one starts")
        self._client.start_async()
        if self._closing:  # otherwise nobody would stop the client that was just started
            self._client.stop()

    def _on_stuck(self) -> None:
        """Closes the session, on the guard's thread, so that other brokers need not wait for this one."""
        self._stuck = True
        logger.critical("the event loop has hung for %g s: closing the ZooKeeper session", self._timeout_s)
        self._client.stop()

    def _on_back(self) -> None:
        """Starts a new session, on the guard's thread."""
        logger.warning("the event loop runs again: starting a new ZooKeeper session")
        self._stuck = False
        self._client.start_async()

    def _enter(self, state: str, generation: int, client_id: tuple[int, bytes] | None) -> None:
        if self._closing:
            return
        if state == KazooState.CONNECTED:
            self._stop_forgetting()
            self._refusal = ""
            self._connected.set()
            if generation == self._accepted and client_id is not None:
                self.session.id = client_id[0]
                self._resume()
            return
        self._connected.clear()
        if self._forgetting is None:
            self._forgetting = self._loop.call_later(self._timeout_s, self._forget_what_was_seen)
        if state == KazooState.LOST:
            if self.session.state is not SessionState.EXPIRED:
                logger.warning("ZooKeeper: session 0x%x has expired", self.session.id & (1 << 64) - 1)
            self.session.change(SessionState.EXPIRED)
            for settle in tuple(self._under_way):
                settle()
        elif self.session.state is SessionState.CONNECTED:
            logger.warning("ZooKeeper: the connection is lost")
            self.session.change(SessionState.SUSPENDED)

    def _forget_what_was_seen(self) -> None:
        logger.warning("no ZooKeeper accepted this client for %g s: trying one with older contents", self._timeout_s)
        self._client.last_zxid = 0

    def _stop_forgetting(self) -> None:
        if self._forgetting is not None:
            self._forgetting.cancel()
            self._forgetting = None

    def _resume(self) -> None:
        """Handles a reconnection in the accepted session: sets and calls every watch."""
        self._client.sync_async("/")
        logger.info("ZooKeeper: connected, session 0x%x", self.session.id & (1 << 64) - 1)
        self.session.change(SessionState.CONNECTED)
        for watched in tuple(self._watched.values()):
            self._on_event(watched)

    async def new_session(self) -> Session:
        while self.session.state is SessionState.EXPIRED:
            await self._connected.wait()
            generation, client_id = self._generation, self._client.client_id
            if client_id is None or generation != self._generation or not self._connected.is_set():
                await asyncio.sleep(0)
                continue
            self._accepted = generation
            self.session.id = client_id[0]
            self._resume()
        return self.session

    async def close(self) -> None:
        self._watched.clear()
        self._stop_forgetting()
        if self.session.state is SessionState.CLOSED:
            return
        self.session.change(SessionState.CLOSED)
        if self._guard is not None:
            self._guard.stop()
        self._own_watch.stop()
        await self._on_thread(self._stop)

    def _stop(self) -> None:
        self._closing = True
        if self._guard is not None:
            self._guard.wait(STOP_S)
        try:
            self._client.stop()
            self._client.close()
        except Exception as error:
            logger.warning("ZooKeeper: %s: %s", type(error).__name__, error)

    async def _on_thread(self, work: Callable[[], None]) -> None:
        """Runs ``work()`` on a thread and waits at most ``STOP_S`` for it."""
        done = asyncio.Event()

        def run() -> None:
            work()
            if not self._loop.is_closed():
                self._loop.call_soon_threadsafe(done.set)

        threading.Thread(target=run, name="zookeeper-stop", daemon=True).start()
        try:
            await asyncio.wait_for(done.wait(), STOP_S)
        except TimeoutError:
            logger.warning("ZooKeeper does not answer, so the session is left to expire")

    # -- calls -------------------------------------------------------------------------------------

    async def _ready(self) -> None:
        """Waits for the connection. Raises SessionExpired, ConnectionLoss."""
        if self.session.state is SessionState.SUSPENDED:
            try:
                await asyncio.wait_for(self._connected.wait(), self._timeout_s)
            except TimeoutError as error:
                raise ConnectionLoss("ZooKeeper cannot be reached") from error
        over = self.session.state in (SessionState.EXPIRED, SessionState.CLOSED)
        if over or self._generation != self._accepted:
            raise SessionExpired(f"session {self.session.id} has expired")

    async def _ask(self, call: Callable[[], Any]) -> Any:
        """Returns the result of one of kazoo's asynchronous calls. Raises its exception."""
        [result] = await self._ask_all([call])
        if isinstance(result, Exception):
            raise result
        return result

    def _ask_all(self, calls: Sequence[Callable[[], Any]]) -> asyncio.Future[list[Any]]:
        """Returns the results of several calls, values and exceptions, when all are complete."""
        future: asyncio.Future[list[Any]] = self._loop.create_future()
        results = [call() for call in calls]
        missing = len(results)

        def settle() -> None:
            self._under_way.discard(settle)
            if not future.done():
                future.set_result([kazoo_results.outcome(each) for each in results])

        def on_one(_: Any) -> None:
            nonlocal missing  # kazoo calls back on one thread only
            missing -= 1
            if not missing and not self._loop.is_closed():
                self._loop.call_soon_threadsafe(settle)

        self._under_way.add(settle)
        for result in results:
            result.rawlink(on_one)
        return future

    async def get_many(self, paths: Sequence[str]) -> list[tuple[bytes, Stat] | None]:
        if not paths:
            return []
        while True:
            await self._ready()
            calls = [lambda path=path: self._client.get_async(path) for path in paths]
            found = await self._ask_all(calls)
            try:
                return [kazoo_results.found(each, path) for each, path in zip(found, paths, strict=True)]
            except ConnectionLoss:
                await asyncio.sleep(0)

    async def children(self, path: str) -> list[str]:
        while True:
            await self._ready()
            try:
                return sorted(await self._ask(lambda: self._client.get_children_async(path)))
            except Exception as error:
                translated = kazoo_results.translated(error, path)
                if not isinstance(translated, ConnectionLoss):
                    raise translated from error
                await asyncio.sleep(0)

    async def multi(self, operations: Sequence[Operation]) -> list[OperationResult]:
        if not operations:
            return []
        self._check_size(operations)
        await self._ready()
        transaction = self._client.transaction()
        for operation in operations:
            is_secret = self._is_guarded and _SECRET.match(operation.path) is not None
            kazoo_results.add(transaction, operation, CREATOR_ALL_ACL if is_secret else None)
        try:
            results = await self._ask(transaction.commit_async)
        except Exception as error:
            raise kazoo_results.translated(error, operations[0].path) from error
        return kazoo_results.results(operations, results)

    def _check_size(self, operations: Sequence[Operation]) -> None:
        size = sum(PER_OPERATION + len(self._client.chroot) + kazoo_results.size(each) for each in operations)
        if size > MAX_REQUEST:
            raise TooLarge(f"{len(operations)} operations have {size} bytes; ZooKeeper accepts {MAX_REQUEST} at most")

    # -- watches -----------------------------------------------------------------------------------

    def watch(self, path: str, callback: Callback) -> StoreWatch:
        watched = self._watched.get(path)
        if watched is None:
            watched = self._watched[path] = self._watch_path(path)
            if self.session.state is SessionState.CONNECTED:
                self._arm(watched)
        watch = StoreWatch(path, callback, self._drop_watch)
        watched.watches.append(watch)
        return watch

    def _watch_path(self, path: str) -> _Watched:
        def on_event(event: WatchedEvent) -> None:
            if event.type != EventType.NONE and not self._closing:
                self._loop.call_soon_threadsafe(self._on_event, watched)

        watched = _Watched(path, on_event)
        return watched

    def _on_event(self, watched: _Watched) -> None:
        """Sets the watches again, and calls back when they are set and so report changes again."""
        if self._watched.get(watched.path) is watched:
            self._arm(watched).add_done_callback(lambda _: self._fire(watched))

    def _arm(self, watched: _Watched) -> asyncio.Future[list[Any]]:
        """Sets both watches. This fails only if the connection is lost; the next connection sets all watches again."""
        path, on_event = watched.path, watched.on_event
        return self._ask_all(
            [
                lambda: self._client.exists_async(path, watch=on_event),
                lambda: self._client.get_children_async(path, watch=on_event),
            ]
        )

    @staticmethod
    def _fire(watched: _Watched) -> None:
        for watch in tuple(watched.watches):
            if watch in watched.watches:
                watch.callback(watched.path)

    def _drop_watch(self, watch: StoreWatch) -> None:
        """Removes a watch. Its watches on the servers still fire once, without effect."""
        watched = self._watched.get(watch.path)
        if watched is not None and watch in watched.watches:
            watched.watches.remove(watch)
            if not watched.watches:
                del self._watched[watch.path]
