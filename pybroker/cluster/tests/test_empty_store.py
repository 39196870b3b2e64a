"""A coordination store that has lost its contents while brokers live, or has got another cluster's."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path
from typing import Any

from pybroker.cluster import znodes
from pybroker.cluster.tests.harness import Members, assigned, partition_of, run
from pybroker.coordination.embedded import EmbeddedServer


async def sql(server: EmbeddedServer, *statements: str) -> None:
    await server.run(lambda: [server._tree._database.execute(statement) for statement in statements])


async def empty(server: EmbeddedServer) -> None:
    """As a ZooKeeper that was started on an empty disk."""
    await sql(server, "CREATE TABLE kept AS SELECT * FROM nodes WHERE owner = 0", "DELETE FROM nodes WHERE name != ''")


async def bring_back(server: EmbeddedServer) -> None:
    await sql(server, "INSERT OR IGNORE INTO nodes SELECT * FROM kept", "DROP TABLE kept")


async def expire(members: Members, *ids: int) -> None:
    for node_id in ids:
        await members.server.expire(members.alive[node_id].store.session.id)


def counted(store: Any, counts: list[float]) -> Any:
    """The store, which notes when it is written to."""
    multi = store.multi

    async def noted(operations: Any) -> Any:
        counts.append(time.monotonic())
        return await multi(operations)

    store.multi = noted
    return store


def test_an_empty_store_is_asked_now_and_then_and_a_broker_can_be_stopped_meanwhile(tmp_path: Path) -> None:
    counts: list[float] = []

    async def scenario(members: Members) -> None:
        await members.start(1, wrap=lambda store: counted(store, counts))
        await empty(members.server)
        await expire(members, 1)
        membership = members.alive[1].node._membership
        assert membership is not None
        membership._start(membership._stand)  # as the watch on /controller does
        counts.clear()
        await asyncio.sleep(2)
        assert len(counts) < 50, "no loop without a pause"
        async with asyncio.timeout(5):
            await members.alive.pop(1).node.leave()

    run(tmp_path / "db", scenario)


def test_brokers_join_again_and_have_all_topics_when_the_contents_of_the_store_are_back(tmp_path: Path) -> None:
    async def scenario(members: Members) -> None:
        await members.start(1, 2)
        await members.controller.node.controller.create_topics([assigned("t", (1, 2))])
        await members.settled()
        await empty(members.server)
        await expire(members, 1, 2)
        await asyncio.sleep(1)
        assert all("t" in member.image.topics for member in members.alive.values())
        await bring_back(members.server)
        image = await members.settled()
        assert partition_of(image).leader in (1, 2)

    run(tmp_path / "db", scenario)


def test_a_broker_does_not_join_another_clusters_store(tmp_path: Path) -> None:
    async def scenario(members: Members) -> None:
        await members.start(1)
        failed = asyncio.Event()
        members.alive[1].node._membership._on_failure = failed.set  # type: ignore[union-attr]
        other = await members.server.connect()
        await other.set(znodes.CLUSTER_ID, znodes.encode_cluster_id("another"))
        await expire(members, 1)
        async with asyncio.timeout(10):
            await failed.wait()
        assert await other.children(znodes.BROKER_IDS) == []
        await members.die(1)

    run(tmp_path / "db", scenario)
