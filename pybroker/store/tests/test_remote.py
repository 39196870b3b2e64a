"""The embedded store over a socket: the common suite, and the effects of a connection."""

from __future__ import annotations

import asyncio
import os
import signal
import stat
import subprocess
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from pybroker.store.interface import (
    ConnectionLoss,
    CoordinationStore,
    Create,
    SessionExpired,
    SessionState,
)
from pybroker.store.remote import RemoteStore
from pybroker.store.server import StoreServer
from pybroker.store.stores import StoreOptions, open_store
from pybroker.store.tests.suite import Connect, CoordinationSuite
from pybroker.tests.waiting import until_async

TIMEOUT_MS = 18_000


@asynccontextmanager
async def served(folder: Path) -> AsyncIterator[StoreServer]:
    server = await StoreServer.open(str(folder / "store.db"), str(folder / "store.sock"))
    try:
        yield server
    finally:
        await server.close()


def connect(folder: Path, timeout_ms: int = TIMEOUT_MS) -> Awaitable[CoordinationStore]:
    return open_store(StoreOptions(socket=str(folder / "store.sock"), session_timeout_ms=timeout_ms))


class TestRemote(CoordinationSuite):
    """The server ends the sessions; the client learns it from the end of its connection."""

    @asynccontextmanager
    async def cluster(self, folder: Path) -> AsyncIterator[Connect]:
        async with served(folder) as self.server:
            yield lambda: connect(folder)

    async def expire(self, store: CoordinationStore) -> None:
        await self.server.embedded.expire(store.session.id)
        await until_async(lambda: store.session.state is SessionState.EXPIRED)


class TestRemoteCut(TestRemote):
    """The sessions end by a cut of their connections."""

    async def expire(self, store: CoordinationStore) -> None:
        self.server.cut(store.session.id)
        await until_async(lambda: store.session.state is SessionState.EXPIRED)


def run(folder: Path, scenario: Callable[[StoreServer], Awaitable[None]]) -> None:
    async def main() -> None:
        async with asyncio.timeout(60), served(folder) as server:
            await scenario(server)

    asyncio.run(main())


CLIENT = """
import asyncio, sys
from pybroker.store.remote import RemoteStore

async def main():
    store = await RemoteStore.open(sys.argv[1], int(sys.argv[2]))
    await store.create("/e", ephemeral=True)
    print("here", flush=True)
    await asyncio.sleep(60)

asyncio.run(main())
"""


@asynccontextmanager
async def other_process(folder: Path, timeout_ms: int) -> AsyncIterator[subprocess.Popen[str]]:
    command = [sys.executable, "-c", CLIENT, str(folder / "store.sock"), str(timeout_ms)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    try:
        assert await asyncio.to_thread(process.stdout.readline) == "here\n"
        yield process
    finally:
        process.kill()
        process.wait()
        process.stdout.close()


@pytest.mark.nightly
def test_a_killed_process_loses_its_session_at_once(tmp_path: Path) -> None:
    async def scenario(server: StoreServer) -> None:
        store = await connect(tmp_path)
        gone = asyncio.Event()
        async with other_process(tmp_path, 3_600_000) as process:
            store.watch("/e", lambda path: gone.set())
            assert await store.exists("/e") is not None
            process.send_signal(signal.SIGKILL)
            await gone.wait()
        assert await store.exists("/e") is None

    run(tmp_path, scenario)


@pytest.mark.nightly
def test_a_halted_process_loses_its_session_after_the_timeout_and_an_idle_one_keeps_its(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pybroker.store.server.halt_of", lambda pid: "")

    async def scenario(server: StoreServer) -> None:
        store = await connect(tmp_path, 2_500)
        await store.create("/idle", ephemeral=True)
        gone = asyncio.Event()
        async with other_process(tmp_path, 2_500) as process:
            store.watch("/e", lambda path: gone.set())
            process.send_signal(signal.SIGSTOP)
            await gone.wait()
        assert await store.exists("/e") is None
        assert await store.exists("/idle") is not None

    run(tmp_path, scenario)


@pytest.mark.nightly
@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells who is halted")
def test_linux_lets_the_session_of_a_halted_process_expire_before_its_timeout(tmp_path: Path) -> None:
    async def scenario(server: StoreServer) -> None:
        store = await connect(tmp_path)
        gone = asyncio.Event()
        async with other_process(tmp_path, 3_600_000) as process:
            store.watch("/e", lambda path: gone.set())
            process.send_signal(signal.SIGSTOP)
            await gone.wait()
        assert await store.exists("/e") is None

    run(tmp_path, scenario)


def test_a_write_in_flight_raises_connection_loss_when_the_connection_breaks(tmp_path: Path) -> None:
    async def scenario(server: StoreServer) -> None:
        store = await connect(tmp_path)
        writing = asyncio.ensure_future(store.create("/a"))
        await asyncio.sleep(0)
        server.cut(store.session.id)
        with pytest.raises(ConnectionLoss):
            await writing
        with pytest.raises(SessionExpired):
            await store.exists("/a")

    run(tmp_path, scenario)


def test_a_session_expires_as_soon_as_its_connection_ends(tmp_path: Path) -> None:
    async def scenario(server: StoreServer) -> None:
        store = await connect(tmp_path)
        assert store._connection is not None
        server.cut(store.session.id)
        await store._connection.ended
        with pytest.raises(SessionExpired):
            await store.exists("/a")

    run(tmp_path, scenario)


def test_requests_in_flight_of_an_expired_session_are_not_performed(tmp_path: Path) -> None:
    async def scenario(server: StoreServer) -> None:
        store, other = await connect(tmp_path), await connect(tmp_path)
        blocked = asyncio.Event()
        loop = asyncio.get_running_loop()

        def hold() -> None:
            asyncio.run_coroutine_threadsafe(blocked.wait(), loop).result()

        holding = asyncio.ensure_future(server.embedded.run(hold))
        writing = asyncio.ensure_future(store.create("/late"))
        await until_async(lambda: server.embedded._executor._work_queue.qsize() > 0)
        expiring = asyncio.ensure_future(server.embedded.expire(store.session.id))
        await asyncio.sleep(0)
        blocked.set()
        await asyncio.gather(holding, expiring)
        with pytest.raises((ConnectionLoss, SessionExpired)):
            await writing
        assert await other.exists("/late") is None

    run(tmp_path, scenario)


def test_a_new_session_tells_watchers_what_changed_while_there_was_none(tmp_path: Path) -> None:
    async def scenario(server: StoreServer) -> None:
        store, other = await connect(tmp_path), await connect(tmp_path)
        heard: list[str] = []
        store.watch("/a", heard.append)
        await store.exists("/a")
        server.cut(store.session.id)
        await until_async(lambda: store.session.state is SessionState.EXPIRED)
        await other.create("/a")
        assert heard == []
        await store.new_session()
        assert heard == ["/a"]

    run(tmp_path, scenario)


def test_a_watcher_that_raises_ends_the_session_and_the_connection(tmp_path: Path) -> None:
    def breaks(path: str) -> None:
        raise RuntimeError("for testing")

    async def scenario(server: StoreServer) -> None:
        store, other = await connect(tmp_path), await connect(tmp_path)
        assert isinstance(store, RemoteStore)
        assert store._connection is not None
        store.watch("/a", breaks)
        await store.exists("/a")
        await other.create("/a")
        await until_async(lambda: store.session.state is SessionState.EXPIRED)
        assert store._connection._writer.is_closing()

    run(tmp_path, scenario)


def test_a_client_reconnects_when_the_server_is_back(tmp_path: Path) -> None:
    async def main() -> None:
        async with served(tmp_path):
            store = await connect(tmp_path)
            await store.create("/a", b"1")
        await until_async(lambda: store.session.state is SessionState.EXPIRED)
        returning = asyncio.ensure_future(store.new_session())
        for _ in range(20):
            await asyncio.sleep(0)
        assert not returning.done()
        async with served(tmp_path):
            await returning
            assert (await store.get("/a"))[0] == b"1"
            await store.close()

    asyncio.run(main())


def test_a_connection_to_an_unserved_socket_raises_connection_loss_with_its_path(tmp_path: Path) -> None:
    with pytest.raises(ConnectionLoss, match=r"store\.sock"):
        asyncio.run(RemoteStore.open(str(tmp_path / "store.sock"), TIMEOUT_MS))


def test_only_the_user_of_the_server_may_open_its_socket(tmp_path: Path) -> None:
    async def scenario(server: StoreServer) -> None:
        mode = os.stat(tmp_path / "store.sock").st_mode
        assert stat.S_IMODE(mode) == 0o600

    run(tmp_path, scenario)
    assert not (tmp_path / "store.sock").exists()


def test_a_server_accepts_a_long_path_and_replaces_a_file_that_is_left_there(tmp_path: Path) -> None:
    folder = tmp_path / ("d" * 120)
    folder.mkdir()
    (folder / "store.sock").write_text("")

    async def scenario(server: StoreServer) -> None:
        store = await connect(folder)
        await store.create("/a")

    run(folder, scenario)


def test_a_large_multi_does_not_mix_with_the_calls_of_other_clients(tmp_path: Path) -> None:
    async def scenario(server: StoreServer) -> None:
        stores = [await connect(tmp_path) for _ in range(3)]
        big = stores[0].multi([Create(f"/n{n}", b"x" * 1000) for n in range(5_000)])
        small = [stores[1 + n % 2].create(f"/s{n}") for n in range(100)]
        await asyncio.gather(big, *small)
        assert len(await stores[2].children("/")) == 5_100

    run(tmp_path, scenario)


def test_a_malformed_request_ends_only_the_connection_that_sent_it(tmp_path: Path) -> None:
    async def scenario(server: StoreServer) -> None:
        store = await connect(tmp_path)
        for garbage in (b"\xff" * 8, b"\0\0\0\1\xc1", b"\0\0\0\3\x93\1\2"):
            reader, writer = await asyncio.open_unix_connection(str(tmp_path / "store.sock"))
            writer.write(garbage)
            assert await reader.read() == b""
            writer.close()
        assert await store.exists("/") is not None

    run(tmp_path, scenario)
