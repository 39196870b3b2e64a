"""The guarantees of every coordination store, as a class of tests. A subclass opens a store."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from pathlib import Path

import pytest

from pybroker.store.interface import (
    BadVersion,
    Check,
    CoordinationStore,
    Create,
    Delete,
    NoChildrenForEphemerals,
    NodeExists,
    NoNode,
    NotEmpty,
    SessionExpired,
    SessionState,
    Set,
    ensure_path,
)
from pybroker.tests.waiting import PATIENCE_S, until_async

Connect = Callable[[], Awaitable[CoordinationStore]]
Scenario = Callable[[Connect], Awaitable[None]]
Run = Callable[[Scenario], None]



async def present(store: CoordinationStore, path: str) -> bool:
    return await store.exists(path) is not None


async def absent(store: CoordinationStore, path: str) -> bool:
    return await store.exists(path) is None


class CoordinationSuite:
    """A subclass has ``cluster`` (an empty store to connect to) and ``expire`` (ends a session)."""

    largest_multi = 10_000

    def cluster(self, folder: Path) -> AbstractAsyncContextManager[Connect]:
        raise AssertionError("a subclass opens the store")

    async def expire(self, store: CoordinationStore) -> None:
        raise AssertionError("a subclass expires the session")

    @pytest.fixture
    def run(self, tmp_path: Path) -> Run:
        async def main(scenario: Scenario) -> None:
            async with asyncio.timeout(240), self.cluster(tmp_path) as connect:
                await scenario(connect)

        return lambda scenario: asyncio.run(main(scenario))

    def test_a_created_node_is_read_back_with_version_zero(self, run: Run) -> None:
        async def scenario(connect: Connect) -> None:
            store = await connect()
            assert await store.create("/a", b"1") == "/a"
            data, stat = await store.get("/a")
            assert (data, stat.version, stat.owner) == (b"1", 0, 0)
            assert await store.exists("/a") == stat
            assert await store.exists("/b") is None

        run(scenario)

    def test_a_node_needs_a_parent_and_a_unique_name(self, run: Run) -> None:
        async def scenario(connect: Connect) -> None:
            store = await connect()
            with pytest.raises(NoNode):
                await store.create("/a/b")
            await store.create("/a")
            with pytest.raises(NodeExists):
                await store.create("/a")
            with pytest.raises(NoNode):
                await store.get("/b")
            with pytest.raises(NoNode):
                await store.children("/b")

        run(scenario)

    def test_ensure_path_creates_missing_nodes_and_keeps_existing_ones(self, run: Run) -> None:
        async def scenario(connect: Connect) -> None:
            store = await connect()
            await store.create("/a", b"kept")
            await ensure_path(store, "/a/b/c")
            await ensure_path(store, "/a/b/c")
            assert await store.children("/a") == ["b"]
            assert (await store.get("/a"))[0] == b"kept"

        run(scenario)

    def test_set_increments_the_version_and_refuses_a_stale_one(self, run: Run) -> None:
        async def scenario(connect: Connect) -> None:
            store = await connect()
            await store.create("/a", b"0")
            assert (await store.set("/a", b"1", 0)).version == 1
            with pytest.raises(BadVersion):
                await store.set("/a", b"2", 0)
            assert (await store.set("/a", b"3")).version == 2
            assert (await store.get("/a"))[0] == b"3"
            with pytest.raises(NoNode):
                await store.set("/b", b"")

        run(scenario)

    def test_delete_requires_the_current_version_and_no_children(self, run: Run) -> None:
        async def scenario(connect: Connect) -> None:
            store = await connect()
            await store.create("/a")
            await store.create("/a/b")
            with pytest.raises(NotEmpty):
                await store.delete("/a")
            with pytest.raises(BadVersion):
                await store.delete("/a/b", 7)
            await store.delete("/a/b", 0)
            await store.delete("/a")
            with pytest.raises(NoNode):
                await store.delete("/a")

        run(scenario)

    def test_children_returns_the_sorted_names_of_one_level(self, run: Run) -> None:
        async def scenario(connect: Connect) -> None:
            store = await connect()
            for path in ("/a", "/a/z", "/a/b", "/a/b/c", "/ab"):
                await store.create(path)
            assert await store.children("/a") == ["b", "z"]
            assert {"a", "ab"} <= set(await store.children("/"))

        run(scenario)

    def test_get_many_returns_none_for_a_missing_node(self, run: Run) -> None:
        async def scenario(connect: Connect) -> None:
            store = await connect()
            await store.create("/a", b"1")
            await store.create("/b", b"2")
            found = await store.get_many(["/b", "/c", "/a"])
            assert [node and node[0] for node in found] == [b"2", None, b"1"]

        run(scenario)

    def test_sequence_nodes_are_numbered_in_order_and_never_reused(self, run: Run) -> None:
        async def scenario(connect: Connect) -> None:
            store = await connect()
            await store.create("/q")
            first = await store.create("/q/n-", sequence=True)
            second = await store.create("/q/n-", sequence=True)
            await store.delete(second)
            third = await store.create("/q/n-", sequence=True)
            assert first < second < third
            assert len(first) == len("/q/n-") + 10

        run(scenario)

    def test_a_node_that_is_created_later_has_a_greater_creation_number(self, run: Run) -> None:
        async def scenario(connect: Connect) -> None:
            store = await connect()
            await store.create("/a")
            first = (await store.get("/a"))[1].created
            await store.delete("/a")
            await store.create("/a")
            assert (await store.get("/a"))[1].created > first

        run(scenario)

    def test_multi_performs_all_operations_or_none_and_names_the_one_that_failed(self, run: Run) -> None:
        async def scenario(connect: Connect) -> None:
            store = await connect()
            await store.create("/a", b"0")
            with pytest.raises(BadVersion) as failure:
                await store.multi([Create("/b"), Set("/a", b"1"), Check("/a", 5)])
            assert failure.value.index == 2
            assert await store.exists("/b") is None
            assert (await store.get("/a"))[0] == b"0"

        run(scenario)

    def test_multi_sees_its_own_earlier_operations(self, run: Run) -> None:
        async def scenario(connect: Connect) -> None:
            store = await connect()
            results = await store.multi(
                [Create("/a"), Create("/a/b", b"0"), Set("/a/b", b"1", 0), Check("/a/b", 1)]
            )
            assert results[0] == "/a"
            assert (await store.get("/a/b"))[0] == b"1"
            await store.multi([Delete("/a/b", 1), Delete("/a")])
            assert await store.exists("/a") is None

        run(scenario)

    def test_only_one_of_several_conditional_writers_sets_each_version(self, run: Run) -> None:
        async def scenario(connect: Connect) -> None:
            stores = [await connect() for _ in range(4)]
            await stores[0].create("/n", b"0")

            async def increment(store: CoordinationStore) -> None:
                await until_async(lambda: present(store, "/n"))
                for _ in range(10):
                    while True:
                        data, stat = await store.get("/n")
                        try:
                            await store.set("/n", b"%d" % (int(data) + 1), stat.version)
                            break
                        except BadVersion:
                            continue

            await asyncio.gather(*(increment(store) for store in stores))

            async def counted() -> bool:
                return (await stores[0].get("/n"))[0] == b"40"

            await until_async(counted)
            assert (await stores[0].get("/n"))[1].version == 40

        run(scenario)

    def test_an_ephemeral_node_is_deleted_at_the_end_of_its_own_session_only(self, run: Run) -> None:
        async def scenario(connect: Connect) -> None:
            mine, other = await connect(), await connect()
            await mine.create("/e", ephemeral=True)
            await until_async(lambda: present(other, "/e"))
            assert (await other.get("/e"))[1].owner == mine.session.id
            with pytest.raises(NoChildrenForEphemerals):
                await mine.create("/e/child")
            await other.create("/f", ephemeral=True)
            await mine.close()
            await until_async(lambda: absent(other, "/e"))
            assert await other.exists("/f") is not None

        run(scenario)

    def test_case_22_a_new_session_can_create_the_ephemeral_node_of_an_expired_one(
        self, run: Run
    ) -> None:
        async def scenario(connect: Connect) -> None:
            store = await connect()
            states: list[SessionState] = []
            store.session.on_change(states.append)
            await store.create("/e", b"old", ephemeral=True)
            before = (await store.get("/e"))[1].created
            await self.expire(store)
            await until_async(lambda: SessionState.EXPIRED in states)
            with pytest.raises(SessionExpired):
                await store.create("/g")
            await store.new_session()
            await store.create("/e", b"new", ephemeral=True)
            assert (await store.get("/e"))[1].created > before
            assert states[-1] is SessionState.CONNECTED

        run(scenario)

    def test_a_watch_fires_on_creation_change_deletion_and_children(self, run: Run) -> None:
        async def scenario(connect: Connect) -> None:
            store, other = await connect(), await connect()
            heard: list[str] = []
            store.watch("/w", heard.append)
            await store.exists("/w")
            for step in (
                lambda: other.create("/w"),
                lambda: other.set("/w", b"1"),
                lambda: other.create("/w/c"),
                lambda: other.delete("/w/c"),
                lambda: other.delete("/w"),
            ):
                heard.clear()
                await step()
                await until_async(lambda: bool(heard))
                assert set(heard) == {"/w"}

        run(scenario)

    def test_a_watcher_that_reads_again_sees_the_change(self, run: Run) -> None:
        async def scenario(connect: Connect) -> None:
            store, other = await connect(), await connect()
            await store.create("/w", b"0")
            seen: list[bytes] = []
            changed = asyncio.Event()
            store.watch("/w", lambda path: changed.set())
            await store.get("/w")
            for value in (b"1", b"2", b"3"):
                changed.clear()
                await other.set("/w", value)
                await asyncio.wait_for(changed.wait(), PATIENCE_S)
                seen.append((await store.get("/w"))[0])
            assert seen == [b"1", b"2", b"3"]

        run(scenario)

    def test_a_watch_fires_at_the_end_of_another_session(self, run: Run) -> None:
        async def scenario(connect: Connect) -> None:
            store, other = await connect(), await connect()
            await other.create("/e", ephemeral=True)
            heard: list[str] = []
            await until_async(lambda: present(store, "/e"))
            store.watch("/e", heard.append)
            await store.exists("/e")
            await self.expire(other)
            await until_async(lambda: absent(store, "/e"))
            await until_async(lambda: bool(heard))

        run(scenario)

    def test_a_failed_write_and_a_cancelled_watch_notify_nobody(
        self, run: Run
    ) -> None:
        async def scenario(connect: Connect) -> None:
            store = await connect()
            heard: list[str] = []
            silent = store.watch("/a", heard.append)
            with pytest.raises(NoNode):
                await store.multi([Create("/a"), Set("/missing", b"")])
            silent.cancel()
            silent.cancel()
            loud: list[str] = []
            store.watch("/a", loud.append)
            await store.create("/a")
            await until_async(lambda: bool(loud))
            assert heard == []

        run(scenario)

    def test_watches_survive_an_expired_session(self, run: Run) -> None:
        async def scenario(connect: Connect) -> None:
            store, other = await connect(), await connect()
            heard: list[str] = []
            store.watch("/a", heard.append)
            await self.expire(store)
            await store.new_session()
            await other.create("/a")
            await until_async(lambda: bool(heard))

        run(scenario)

    def test_one_multi_creates_thousands_of_nodes(self, run: Run) -> None:
        async def scenario(connect: Connect) -> None:
            store = await connect()
            await store.create("/t")
            many = range(self.largest_multi)
            await store.multi([Create(f"/t/{n}", b"x" * 50) for n in many])
            assert len(await store.children("/t")) == len(many)
            found = await store.get_many([f"/t/{n}" for n in many])
            assert all(node is not None for node in found)

        run(scenario)


