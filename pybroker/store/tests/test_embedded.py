"""The embedded store: the common suite, and the properties that SQLite adds: durability, one owner."""

from __future__ import annotations

import asyncio
import signal
import sqlite3
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from pybroker.store.embedded import EmbeddedServer, EmbeddedStore
from pybroker.store.interface import ConnectionLoss, CoordinationStore, NodeExists, SessionState
from pybroker.store.tests.suite import Connect, CoordinationSuite
from pybroker.store.tree import StoreInUse, split


class TestEmbedded(CoordinationSuite):
    @asynccontextmanager
    async def cluster(self, folder: Path) -> AsyncIterator[Connect]:
        self.server = await EmbeddedServer.open(str(folder / "store.db"))
        yield self.server.connect
        await self.server.close()

    async def expire(self, store: CoordinationStore) -> None:
        await self.server.expire(store.session.id)


def test_persistent_nodes_survive_a_restart(tmp_path: Path) -> None:
    async def write() -> int:
        store = await EmbeddedStore.open(str(tmp_path / "db"))
        await store.create("/a", b"1")
        await store.set("/a", b"2")
        stat = await store.exists("/a")
        await store.close()
        assert stat is not None
        return stat.created

    async def read(created: int) -> None:
        store = await EmbeddedStore.open(str(tmp_path / "db"))
        data, stat = await store.get("/a")
        assert (data, stat.version, stat.created) == (b"2", 1, created)
        await store.create("/b")
        assert (await store.get("/b"))[1].created > created
        await store.close()

    asyncio.run(read(asyncio.run(write())))


WRITER = """
import asyncio, sys
from pybroker.store.embedded import EmbeddedStore

async def main():
    store = await EmbeddedStore.open(sys.argv[1])
    await store.create("/e", ephemeral=True)
    for n in range(100_000):
        await store.create(f"/n{n}", b"%d" % n)
        print(n, flush=True)

asyncio.run(main())
"""


@pytest.mark.nightly
def test_acknowledged_writes_survive_sigkill_and_ephemeral_nodes_do_not(
    tmp_path: Path,
) -> None:
    file = str(tmp_path / "db")
    writer = subprocess.Popen(
        [sys.executable, "-c", WRITER, file], stdout=subprocess.PIPE, text=True
    )
    assert writer.stdout is not None
    acknowledged = [int(writer.stdout.readline()) for _ in range(50)]
    writer.send_signal(signal.SIGKILL)
    acknowledged += [int(line) for line in writer.stdout.read().split("\n")[:-1]]
    writer.wait()
    writer.stdout.close()

    async def check() -> None:
        store = await EmbeddedStore.open(file)
        found = await store.get_many([f"/n{n}" for n in acknowledged])
        assert [node and node[0] for node in found] == [b"%d" % n for n in acknowledged]
        await store.create("/e", ephemeral=True)
        await store.close()

    asyncio.run(check())


def test_a_database_file_is_refused_while_another_store_has_it_open(tmp_path: Path) -> None:
    async def scenario() -> None:
        store = await EmbeddedStore.open(str(tmp_path / "db"))
        with pytest.raises(StoreInUse, match="in use"):
            await EmbeddedStore.open(str(tmp_path / "db"))
        await store.close()
        await (await EmbeddedStore.open(str(tmp_path / "db"))).close()

    asyncio.run(scenario())


def test_the_error_for_a_file_that_is_not_a_database_names_it(tmp_path: Path) -> None:
    (tmp_path / "db").write_bytes(b"not a database" * 100)
    with pytest.raises(ConnectionLoss, match=str(tmp_path / "db")):
        asyncio.run(EmbeddedStore.open(str(tmp_path / "db")))


def test_a_write_whose_caller_is_cancelled_still_notifies_the_watchers(tmp_path: Path) -> None:
    async def scenario() -> None:
        store = await EmbeddedStore.open(str(tmp_path / "db"))
        heard = asyncio.Event()
        store.watch("/a", lambda path: heard.set())
        writer = asyncio.ensure_future(store.create("/a"))
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        writer.cancel()
        if await store.exists("/a") is not None:
            await asyncio.wait_for(heard.wait(), 60)
        await store.close()

    asyncio.run(scenario())


def test_the_database_syncs_every_commit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    statements: list[str] = []
    connect = sqlite3.connect

    def traced(*arguments: Any, **options: Any) -> sqlite3.Connection:
        database = connect(*arguments, **options)
        database.set_trace_callback(statements.append)
        return database

    monkeypatch.setattr(sqlite3, "connect", traced)

    async def scenario() -> None:
        store = await EmbeddedStore.open(str(tmp_path / "db"))
        await store.create("/a")
        with pytest.raises(NodeExists):
            await store.create("/a")
        await store.close()

    asyncio.run(scenario())
    assert "PRAGMA synchronous = FULL" in statements
    assert statements[-4:].count("ROLLBACK") == 1


async def set_writable(server: EmbeddedServer, writable: bool) -> None:
    """Makes the store fail like a full disk, or work again."""
    await server.run(lambda: server._tree._database.execute(f"PRAGMA query_only = {'OFF' if writable else 'ON'}"))


@pytest.mark.parametrize("state", [SessionState.EXPIRED, SessionState.CLOSED])
def test_ephemeral_nodes_of_an_ended_session_are_deleted_once_the_disk_is_writable(
    tmp_path: Path, state: SessionState
) -> None:
    async def scenario() -> None:
        server = await EmbeddedServer.open(str(tmp_path / "db"))
        dead, other = await server.connect(), await server.connect()
        await dead.create("/controller", ephemeral=True)
        gone = asyncio.Event()
        other.watch("/controller", lambda path: gone.set())
        await set_writable(server, False)
        await server.expire(dead.session.id, state)
        assert dead.session.state is state
        with pytest.raises(ConnectionLoss):
            await other.create("/a")
        assert await other.exists("/controller") is not None
        await set_writable(server, True)
        await asyncio.wait_for(gone.wait(), 60)
        assert await other.exists("/controller") is None
        await server.close()

    asyncio.run(scenario())


def test_a_store_that_cannot_be_written_can_be_closed(tmp_path: Path) -> None:
    async def scenario() -> None:
        server = await EmbeddedServer.open(str(tmp_path / "db"))
        await (await server.connect()).create("/e", ephemeral=True)
        await set_writable(server, False)
        await asyncio.wait_for(server.close(), 60)
        store = await EmbeddedStore.open(str(tmp_path / "db"))
        assert await store.exists("/e") is None
        await store.close()

    asyncio.run(scenario())


def test_every_call_of_a_failed_store_raises_connection_loss(tmp_path: Path) -> None:
    async def scenario() -> None:
        server = await EmbeddedServer.open(str(tmp_path / "db"))
        store = await server.connect()
        await server.run(server._tree.close)
        for call in (store.children("/"), store.get("/"), store.create("/a"), store.exists("/")):
            with pytest.raises(ConnectionLoss):
                await call
        server._executor.shutdown()

    asyncio.run(scenario())


@pytest.mark.parametrize("path", ["", "a", "/a/", "//", "/a//b", "a/b"])
def test_an_invalid_path_is_refused(path: str) -> None:
    with pytest.raises(ValueError, match="is not a path"):
        split(path)
