"""A real ZooKeeper, alone and as an ensemble of three: the common suite, and the effects of a network."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import shutil
import signal
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from kazoo.client import KazooClient

from harness.servers.ensemble import Ensemble
from pybroker.store.interface import (
    ConnectionLoss,
    CoordinationStore,
    Create,
    SessionExpired,
    SessionState,
    TooLarge,
)
from pybroker.store.kazoo_sockets import Handler
from pybroker.store.stores import StoreOptions, open_store
from pybroker.store.tests.suite import Connect, CoordinationSuite
from pybroker.store.zookeeper import ZooKeeperStore
from pybroker.tests.waiting import PATIENCE_S, until_async

TIMEOUT_MS = 20_000

# How these tests end a session may end kazoo's thread: the server answers a request of another connection.
pytestmark = [
    pytest.mark.nightly,
    pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning"),
]

chroots = itertools.count(1)


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ensemble]:
    with Ensemble(tmp_path_factory.mktemp("alone")) as running:
        yield running


@pytest.fixture(scope="module")
def three(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ensemble]:
    with Ensemble(tmp_path_factory.mktemp("three"), 3) as running:
        yield running


async def connect(
    hosts: str, timeout_ms: int = TIMEOUT_MS, options: StoreOptions | None = None
) -> ZooKeeperStore:
    options = options or StoreOptions()
    store = await open_store(options._replace(zookeeper=hosts, session_timeout_ms=timeout_ms))
    assert isinstance(store, ZooKeeperStore)
    return store


@asynccontextmanager
async def stores(hosts: str, options: StoreOptions | None = None) -> AsyncIterator[Connect]:
    """Yields a function that connects to a new chroot; closes the connections at the end."""
    opened: list[CoordinationStore] = []
    place = f"{hosts}/tests/{next(chroots)}"

    async def one() -> CoordinationStore:
        opened.append(await connect(place, options=options))
        return opened[-1]

    try:
        yield one
    finally:
        await asyncio.gather(*(store.close() for store in opened))


async def end_session(store: CoordinationStore) -> None:
    """Ends the session like an expiry: another client takes it over and closes it."""
    assert isinstance(store, ZooKeeperStore)
    mine = store._client
    hosts = ",".join(f"{host}:{port}" for host, port in mine.hosts)
    by = Handler(PATIENCE_S, store._tls)
    other = KazooClient(hosts=hosts, client_id=mine.client_id, timeout=mine._session_timeout / 1000, handler=by)

    def close() -> None:
        other.start()
        other.stop()
        other.close()

    await asyncio.to_thread(close)


class ZooKeeperSuite(CoordinationSuite):
    largest_multi = 5_000
    hosts: str

    @asynccontextmanager
    async def cluster(self, folder: Path) -> AsyncIterator[Connect]:
        async with stores(self.hosts) as connect:
            yield connect

    async def expire(self, store: CoordinationStore) -> None:
        await end_session(store)
        await until_async(lambda: store.session.state is SessionState.EXPIRED)


class TestZooKeeper(ZooKeeperSuite):
    @pytest.fixture(autouse=True)
    def _on(self, alone: Ensemble) -> None:
        self.hosts = alone.hosts


class TestZooKeeperOfThree(ZooKeeperSuite):
    @pytest.fixture(autouse=True)
    def _on(self, three: Ensemble) -> None:
        self.hosts = three.hosts


def run(hosts: str, scenario: Callable[[Connect], Awaitable[None]]) -> None:
    async def main() -> None:
        async with asyncio.timeout(100), stores(hosts) as connect:
            await scenario(connect)

    asyncio.run(main())


def test_a_chroot_is_created_and_hides_the_nodes_outside(alone: Ensemble) -> None:
    async def main() -> None:
        outer, inner = await connect(alone.hosts), await connect(f"{alone.hosts}/kafka/one")
        await inner.create("/a", b"1")
        assert await inner.children("/") == ["a"]
        assert (await outer.get("/kafka/one/a"))[0] == b"1"
        await asyncio.gather(outer.close(), inner.close())

    asyncio.run(main())


def test_an_unreachable_zookeeper_causes_connection_loss_within_the_timeout() -> None:
    async def main() -> None:
        with pytest.raises(ConnectionLoss, match=r"no answer for 0\.3 s: 127\.0\.0\.1:1 "):
            await ZooKeeperStore.open("127.0.0.1:1", 6_000, 300)

    asyncio.run(main())


def test_a_start_that_waits_for_zookeeper_says_so_before_it_gives_up(caplog: pytest.LogCaptureFixture) -> None:
    async def main() -> None:
        with pytest.raises(ConnectionLoss, match="no answer for 4 s"):
            await ZooKeeperStore.open("127.0.0.1:1", 6_000, 4_000)

    asyncio.run(main())
    [told] = [each.getMessage() for each in caplog.records if "waiting" in each.getMessage()]
    assert told.startswith("still waiting for ZooKeeper: 127.0.0.1:1 Connection refused; a single broker needs no")


def test_a_multi_that_is_too_large_is_refused_and_the_session_continues(alone: Ensemble) -> None:
    async def scenario(connect: Connect) -> None:
        store = await connect()
        with pytest.raises(TooLarge):
            await store.multi([Create(f"/{n}", b"x" * 1000) for n in range(1000)])
        await store.multi([Create(f"/{n}", b"x" * 1000) for n in range(960)])
        assert len(await store.children("/")) == 960

    run(alone.hosts, scenario)


def test_case_23_calls_wait_while_zookeeper_is_down_and_the_session_survives(alone: Ensemble) -> None:
    async def scenario(connect: Connect) -> None:
        store = await connect()
        await store.create("/e", b"mine", ephemeral=True)
        states: list[SessionState] = []
        store.session.on_change(states.append)
        alone.servers[0].kill()
        await until_async(lambda: states == [SessionState.SUSPENDED])
        reading = asyncio.ensure_future(store.get("/e"))
        writing = asyncio.ensure_future(store.create("/later"))
        await asyncio.to_thread(alone.start)
        assert (await reading)[0] == b"mine"
        await writing
        assert states == [SessionState.SUSPENDED, SessionState.CONNECTED]

    run(alone.hosts, scenario)


def test_a_watcher_hears_of_changes_made_while_it_was_disconnected(alone: Ensemble) -> None:
    async def scenario(connect: Connect) -> None:
        store, other = await connect(), await connect()
        heard: list[str] = []
        store.watch("/a", heard.append)
        await store.exists("/a")
        alone.servers[0].kill()
        await until_async(lambda: store.session.state is SessionState.SUSPENDED)
        creating = asyncio.ensure_future(other.create("/a"))
        await asyncio.to_thread(alone.start)
        await creating
        await until_async(lambda: bool(heard))
        assert await store.exists("/a") is not None

    run(alone.hosts, scenario)


@pytest.mark.parametrize("empty", [False, True])
def test_clients_reconnect_to_a_zookeeper_that_was_restored_from_an_older_backup(tmp_path: Path, empty: bool) -> None:
    data, backup = tmp_path / "zookeeper-1" / "data", tmp_path / "backup"

    async def scenario(alone: Ensemble) -> None:
        store = await connect(alone.hosts, 2_000)
        for n in range(100):
            await store.create(f"/later-{n}")
        alone.servers[0].kill()
        shutil.rmtree(data)
        shutil.copytree(backup, data)
        await asyncio.to_thread(alone.start)
        async with asyncio.timeout(60):
            if await _is_there(store, "/later-1") is None:
                await store.new_session()
            assert await _is_there(store, "/later-1") is False
            assert await _is_there(store, "/early") is not empty
        await store.close()

    with Ensemble(tmp_path) as alone:
        if empty:
            shutil.copytree(data, backup)
        else:
            asyncio.run(_create(alone.hosts, "/early"))
            alone.servers[0].kill()
            shutil.copytree(data, backup)
            alone.start()
        asyncio.run(scenario(alone))


async def _create(hosts: str, path: str) -> None:
    store = await connect(hosts, 2_000)
    await store.create(path)
    await store.close()


async def _is_there(store: ZooKeeperStore, path: str) -> bool | None:
    """Returns whether the node exists, None if the session has expired."""
    while True:
        try:
            return await store.exists(path) is not None
        except ConnectionLoss:
            continue
        except SessionExpired:
            return None


def test_a_store_opens_a_new_session_after_an_answer_that_ends_kazoos_thread(alone: Ensemble) -> None:
    """It ends kazoo's thread (seen: ``IndexError: pop from an empty deque``), which nobody else would start again."""

    async def main() -> None:
        store = await connect(f"{alone.hosts}/unexpected")
        connection = store._client._connection
        read, answers = connection._read_response, [IndexError("pop from an empty deque")]

        def unexpected(*arguments: object) -> object:
            if answers:
                raise answers.pop()
            return read(*arguments)

        connection._read_response = unexpected
        with pytest.raises((ConnectionLoss, SessionExpired)):
            await store.exists("/")
        await until_async(lambda: store.session.state is SessionState.EXPIRED)
        await asyncio.wait_for(store.new_session(), 60)
        await store.create("/after", ephemeral=True)
        await store.close()

    asyncio.run(main())


def test_a_call_that_zookeeper_does_not_answer_raises_connection_loss(alone: Ensemble) -> None:
    async def main() -> None:
        store = await connect(f"{alone.hosts}/halted", 2_000)
        alone.servers[0].signal(signal.SIGSTOP)
        try:
            with pytest.raises(ConnectionLoss):
                await store.create("/a")
            with pytest.raises(ConnectionLoss):
                await store.exists("/a")
        finally:
            alone.servers[0].signal(signal.SIGCONT)
        while True:
            try:
                await store.get_many(["/a"])
                break
            except SessionExpired:
                await store.new_session()
            except ConnectionLoss:
                continue
        await store.close()

    asyncio.run(main())


def test_sessions_and_watches_survive_the_death_of_the_leading_zookeeper_server(three: Ensemble) -> None:
    async def scenario(connect: Connect) -> None:
        watcher, writer = await connect(), await connect()
        heard: list[str] = []
        watcher.watch("/a", heard.append)
        await writer.create("/e", ephemeral=True)
        leader = three.leader()
        leader.kill()
        try:
            while True:
                try:
                    await writer.create("/a")
                    break
                except ConnectionLoss:
                    if await writer.exists("/a") is not None:
                        break
            await until_async(lambda: bool(heard))
            assert await writer.exists("/e") is not None
            assert SessionState.CONNECTED is watcher.session.state is writer.session.state
        finally:
            await asyncio.to_thread(three.start)

    run(three.hosts, scenario)


def test_a_call_between_expiry_and_new_session_raises_session_expired(alone: Ensemble) -> None:
    async def scenario(connect: Connect) -> None:
        store, other = await connect(), await connect()
        await end_session(store)
        created = 0
        while store.session.state is not SessionState.EXPIRED:
            try:
                await store.create(f"/slipped-{created}", ephemeral=True)
                created += 1
            except (ConnectionLoss, SessionExpired):
                await asyncio.sleep(0)
        assert isinstance(store, ZooKeeperStore)
        await asyncio.wait_for(store._connected.wait(), 30)
        with pytest.raises(SessionExpired):
            await store.create("/slipped", ephemeral=True)
        assert await other.children("/") == []
        await store.new_session()
        await store.create("/mine", ephemeral=True)
        assert (await store.get("/mine"))[1].owner == store.session.id

    run(alone.hosts, scenario)


def seconds_until_gone(hosts: str, path: str, limit_s: float) -> float:
    """Returns how long the node still exists, as another process sees it."""
    client, began = KazooClient(hosts=hosts), time.monotonic()
    client.start()
    try:
        while client.exists(path) is not None and time.monotonic() - began < limit_s:
            time.sleep(0.05)
    finally:
        client.stop()
        client.close()
    return time.monotonic() - began


def test_a_broker_whose_event_loop_hangs_loses_its_session_and_opens_another(alone: Ensemble) -> None:
    """The session ends although kazoo's thread continues."""
    hang_s = 6.0

    async def main() -> None:
        store = await connect(f"{alone.hosts}/hangs", 2_000)
        await store.create("/e", ephemeral=True)
        before = store.session.id
        with ThreadPoolExecutor(1) as pool:
            lived_s = pool.submit(seconds_until_gone, alone.hosts, "/hangs/e", hang_s)
            reading = store.get("/e")
            time.sleep(hang_s)
            assert lived_s.result() < hang_s
            with contextlib.suppress(ConnectionLoss, SessionExpired):
                await reading
        await until_async(lambda: store.session.state is SessionState.EXPIRED)
        with pytest.raises(SessionExpired):
            await store.create("/late", ephemeral=True)
        heard: list[str] = []
        store.watch("/again", heard.append)
        await asyncio.wait_for(store.new_session(), 30)
        assert store.session.id != before
        await store.create("/again", ephemeral=True)
        assert (await store.get("/again"))[1].owner == store.session.id
        await until_async(lambda: bool(heard))
        await store.close()

    asyncio.run(main())


def test_a_store_closes_quickly_after_its_event_loop_hung(alone: Ensemble) -> None:
    async def main() -> None:
        store = await connect(f"{alone.hosts}/closed", 2_000)
        time.sleep(3)
        await asyncio.wait_for(store.close(), 15)
        with pytest.raises(SessionExpired):
            await store.get("/")

    asyncio.run(main())
