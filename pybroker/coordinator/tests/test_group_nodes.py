"""The members of groups in the coordination store."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from pybroker.clock import ManualClock
from pybroker.coordinator import group_nodes
from pybroker.coordinator.group.group import Subscription
from pybroker.coordinator.group_nodes import GroupNodes
from pybroker.store.embedded import EmbeddedServer, EmbeddedStore
from pybroker.store.interface import NoNode, ensure_path
from pyclient.protocol.records import ConsumerProtocolSubscription


class Group:
    """A group with the state that the test sets."""

    def __init__(self, id: str, **members: Subscription | bytes) -> None:
        self.id = id
        self.members: dict[str, Subscription | bytes] = dict(members)

    @property
    def is_empty(self) -> bool:
        return not self.members

    def member_subscriptions(self) -> Iterator[tuple[str, Subscription | bytes]]:
        yield from self.members.items()


class Shard:
    """A shard of groups."""

    def __init__(self, *groups: Group) -> None:
        self.groups = {group.id: group for group in groups}


Scenario = Callable[[EmbeddedStore, EmbeddedStore], Awaitable[None]]


def run(file: Path, scenario: Scenario) -> None:
    """Runs a scenario with the sessions of two brokers."""

    async def main() -> None:
        server = await EmbeddedServer.open(str(file))
        first, second = await server.connect(), await server.connect()
        await ensure_path(first, "/consumers")
        await scenario(first, second)
        for store in (first, second):
            await store.close()
        await server.close()

    asyncio.run(main())


def nodes(store: EmbeddedStore, *groups: Group) -> GroupNodes:
    shard: Any = Shard(*groups)
    return GroupNodes(store, lambda: [shard], ManualClock(1_000))


async def shown(store: EmbeddedStore, path: str) -> dict[str, Any]:
    """Returns the content of a node."""
    found: dict[str, Any] = json.loads((await store.get(path))[0])
    return found


def consumer(*topics: str) -> bytes:
    """Returns the subscription of a classic member."""
    return ConsumerProtocolSubscription.encode(0, ConsumerProtocolSubscription(topics=list(topics)))


def test_a_member_node_shows_the_topics_that_the_member_reads(tmp_path: Path) -> None:
    async def scenario(store: EmbeddedStore, _: EmbeddedStore) -> None:
        new, old = Group("new", m=Subscription(frozenset({"b", "a"}))), Group("old", m=consumer("t"))
        other = Group("connect", m=b"")
        await nodes(store, new, old, other, Group("empty")).round()
        assert await store.children("/consumers") == ["connect", "new", "old"]
        assert await shown(store, "/consumers/new/ids/m") == {
            "version": 1,
            "subscription": {"a": 1, "b": 1},
            "pattern": "static",
            "timestamp": "1000",
        }
        assert (await shown(store, "/consumers/old/ids/m"))["subscription"] == {"t": 1}
        assert (await shown(store, "/consumers/connect/ids/m"))["subscription"] == {}
        assert (await store.get("/consumers/new/ids/m"))[1].owner == store.session.id

    run(tmp_path / "db", scenario)


def test_nodes_follow_members_that_change_and_leave(tmp_path: Path) -> None:
    async def scenario(store: EmbeddedStore, _: EmbeddedStore) -> None:
        group = Group("g", a=Subscription(frozenset("t")), b=Subscription(frozenset("t")))
        shown_nodes = nodes(store, group)
        await shown_nodes.round()
        group.members = {"b": Subscription(frozenset(), "t.*")}
        await shown_nodes.round()
        assert await store.children("/consumers/g/ids") == ["b"]
        row = await shown(store, "/consumers/g/ids/b")
        assert (row["pattern"], row["subscription"]) == ("white_list", {"t.*": 1})
        group.members = {}
        await shown_nodes.round()
        assert await store.children("/consumers") == []

    run(tmp_path / "db", scenario)


@pytest.mark.parametrize(("name", "node"), [("a/b", "a%2Fb"), ("..", "%2E%2E"), ("a b", "a b"), ("é\0", "%C3%A9%00")])
def test_a_member_with_any_name_has_one_node(tmp_path: Path, name: str, node: str) -> None:
    async def scenario(store: EmbeddedStore, _: EmbeddedStore) -> None:
        group = Group(name)
        group.members[name] = Subscription(frozenset())
        await nodes(store, group).round()
        assert await store.children("/consumers") == [node]
        assert await store.children(f"/consumers/{node}/ids") == [node]

    run(tmp_path / "db", scenario)


def test_the_next_coordinator_shows_a_member_after_the_last_one_has_stopped(tmp_path: Path) -> None:
    async def scenario(first: EmbeddedStore, second: EmbeddedStore) -> None:
        here, there = Group("g", m=consumer("t")), Group("g", m=consumer("t"))
        old, new = nodes(first, here), nodes(second, there)
        await old.round()
        await new.round()
        assert (await first.get("/consumers/g/ids/m"))[1].owner == first.session.id
        here.members = {}
        await old.round()
        await new.round()
        assert (await first.get("/consumers/g/ids/m"))[1].owner == second.session.id

    run(tmp_path / "db", scenario)


def test_a_new_session_creates_all_member_nodes_again(tmp_path: Path) -> None:
    async def scenario(store: EmbeddedStore, _: EmbeddedStore) -> None:
        shown_nodes = nodes(store, Group("g", m=consumer("t")))
        await shown_nodes.round()
        await store._server.expire(store.session.id)
        await shown_nodes.round()
        await store.new_session()
        with pytest.raises(NoNode):
            await store.get("/consumers/g/ids/m")
        await shown_nodes.round()
        assert await store.children("/consumers/g/ids") == ["m"]

    run(tmp_path / "db", scenario)


def test_a_node_whose_creation_was_not_confirmed_is_made_again(tmp_path: Path) -> None:
    async def scenario(store: EmbeddedStore, _: EmbeddedStore) -> None:
        await ensure_path(store, "/consumers/g/ids")
        await store.create("/consumers/g/ids/m", b"?", ephemeral=True)
        shown_nodes = nodes(store, Group("g", m=consumer("t")))
        await shown_nodes.round()
        await shown_nodes.round()
        assert (await shown(store, "/consumers/g/ids/m"))["subscription"] == {"t": 1}

    run(tmp_path / "db", scenario)


def test_the_number_of_members_shown_in_zookeeper_is_limited(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def scenario(store: EmbeddedStore, _: EmbeddedStore) -> None:
        monkeypatch.setattr(group_nodes, "MAX_NODES", 3)
        monkeypatch.setattr(group_nodes, "AT_ONCE", 2)
        members = {f"m{number}": Subscription(frozenset()) for number in range(5)}
        await nodes(store, Group("g", **members)).round()
        assert await store.children("/consumers/g/ids") == ["m0", "m1", "m2"]

    run(tmp_path / "db", scenario)


def test_rounds_follow_by_themselves_and_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def scenario(store: EmbeddedStore, _: EmbeddedStore) -> None:
        monkeypatch.setattr(group_nodes, "ROUND_S", 0.001)
        shown_nodes = nodes(store, Group("g", m=consumer("t")))
        await shown_nodes.stop()
        shown_nodes.start()
        while await store.exists("/consumers/g/ids/m") is None:
            await asyncio.sleep(0)
        await shown_nodes.stop()

    run(tmp_path / "db", scenario)
