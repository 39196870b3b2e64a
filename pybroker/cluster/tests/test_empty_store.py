"""A coordination store that has lost its contents while brokers live, or has got another cluster's."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from pybroker.clock import ManualClock
from pybroker.cluster import cluster_secret
from pybroker.cluster.metadata import znodes
from pybroker.cluster.metadata.image import MetadataImage, ResourceType
from pybroker.cluster.node import ClusterNode
from pybroker.cluster.tests.harness import Members, assigned, partition_of, run
from pybroker.config import BrokerConfig
from pybroker.store.embedded import EmbeddedServer
from pybroker.tests.waiting import until_async


async def sql(server: EmbeddedServer, *statements: str) -> None:
    await server.run(lambda: [server._tree._database.execute(statement) for statement in statements])


async def empty(server: EmbeddedServer) -> None:
    """Empties the store, like a ZooKeeper that was started on an empty disk."""
    await sql(server, "CREATE TABLE kept AS SELECT * FROM nodes WHERE owner = 0", "DELETE FROM nodes WHERE name != ''")


async def bring_back(server: EmbeddedServer) -> None:
    await sql(server, "INSERT OR IGNORE INTO nodes SELECT * FROM kept", "DROP TABLE kept")


async def expire(members: Members, *ids: int) -> None:
    for node_id in ids:
        await members.server.expire(members.alive[node_id].store.session.id)


def counted(store: Any, writes: list[object]) -> Any:
    """Returns the store, which records its writes."""
    multi = store.multi

    async def noted(operations: Any) -> Any:
        writes.append(operations)
        return await multi(operations)

    store.multi = noted
    return store


@pytest.mark.nightly
def test_an_empty_store_is_queried_rarely_and_brokers_can_be_stopped(tmp_path: Path) -> None:
    counts: list[object] = []

    async def scenario(members: Members) -> None:
        await members.start(1, wrap=lambda store: counted(store, counts))
        await empty(members.server)
        await expire(members, 1)
        membership = members.alive[1].node._membership
        assert membership is not None
        membership._start(membership._stand_for_controller)  # as the watch on /controller does
        counts.clear()
        await asyncio.sleep(2)
        assert len(counts) < 50, "no loop without a pause"
        async with asyncio.timeout(30):
            await members.alive.pop(1).node.leave()

    run(tmp_path / "db", scenario)


def test_brokers_rejoin_with_all_topics_when_the_data_of_the_store_are_restored(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def scenario(members: Members) -> None:
        await members.start(1, 2)
        await members.controller.node.controller.create_topics([assigned("t", (1, 2))])
        await members.settled()
        await empty(members.server)
        await expire(members, 1, 2)
        await members.until(lambda: caplog.text.count("has lost cluster") >= 4)
        assert all("t" in member.image.topics for member in members.alive.values())
        await bring_back(members.server)
        image = await members.settled()
        assert partition_of(image).leader in (1, 2)

    run(tmp_path / "db", scenario)


def test_brokers_that_return_to_a_new_store_use_its_secret(tmp_path: Path) -> None:
    """Otherwise these brokers and those that have started since would not recognise each other as brokers."""

    async def scenario(members: Members) -> None:
        await members.start(1, 2)
        await empty(members.server)
        await expire(members, 1, 2)
        store = await members.server.connect()
        first = await ClusterNode.open(store, BrokerConfig({}), 3, ManualClock(), members.alive[1].node.cluster_id)
        await first.secret.read()
        await members.settled()
        assert [member.node.secret.value for member in members.alive.values()] == [first.secret.value] * 2

    run(tmp_path / "db", scenario)


def test_brokers_follow_a_store_restored_from_a_backup_though_they_know_later_versions(tmp_path: Path) -> None:
    async def scenario(members: Members) -> None:
        await members.start(1, 2, 3)
        await members.controller.node.controller.create_topics([assigned("t", (1, 2, 3))])
        await members.settled()
        await sql(members.server, "CREATE TABLE kept AS SELECT * FROM nodes WHERE owner = 0")
        for name in ("u", "v", "w"):
            await members.controller.node.controller.create_topics([assigned(name, (1, 2, 3))])
        seen = (await members.settled()).version
        await sql(members.server, "DELETE FROM nodes WHERE name != ''")
        await bring_back(members.server)
        await expire(members, 1, 2, 3)
        await members.until(lambda: members.has_settled and members.alive[1].image.version < seen)
        await members.controller.node.controller.create_topics([assigned("x", (1, 2, 3))])
        image = await members.settled()
        assert sorted(image.topics) == ["t", "x"]

    run(tmp_path / "db", scenario)


def test_a_broker_keeps_a_configuration_that_became_unreadable_while_it_had_no_session(tmp_path: Path) -> None:
    """The defect: with the session, the broker forgot the guarantee of min.insync.replicas."""

    async def scenario(members: Members) -> None:
        await members.start(1, 2)
        topic = assigned("t", (1, 2))._replace(configs=(("min.insync.replicas", "2"),))
        await members.controller.node.controller.create_topics([topic])
        before = (await members.settled()).brokers
        other = await members.server.connect()
        path = znodes.config_path(ResourceType.TOPIC, "t")
        await other.set(path, b"{garbled")
        await expire(members, 1, 2)

        def is_back(image: MetadataImage) -> bool:
            return all(id in image.brokers and image.brokers[id].epoch > before[id].epoch for id in (1, 2))

        await members.until(lambda: all(is_back(member.image) for member in members.alive.values()))
        for member in members.alive.values():
            assert member.image.topics["t"].configs == {"min.insync.replicas": "2"}
        await other.set(path, znodes.encode_configs({"min.insync.replicas": "2"}))

    run(tmp_path / "db", scenario)


def test_a_secret_that_only_the_store_has_lost_is_written_back(tmp_path: Path) -> None:
    async def scenario(members: Members) -> None:
        await members.start(1, 2)
        known = members.alive[1].node.secret.value
        other = await members.server.connect()
        await other.delete(cluster_secret.PATH)

        async def is_back() -> bool:
            return await other.exists(cluster_secret.PATH) is not None

        await until_async(is_back)
        assert (await other.get(cluster_secret.PATH))[0] == known
        await other.set(cluster_secret.PATH, b"another")
        await members.until(lambda: all(m.node.secret.value == b"another" for m in members.alive.values()))

    run(tmp_path / "db", scenario)


def test_a_broker_does_not_join_another_clusters_store(tmp_path: Path) -> None:
    async def scenario(members: Members) -> None:
        await members.start(1)
        failed = asyncio.Event()
        members.alive[1].node._membership._on_failure = failed.set  # type: ignore[union-attr]
        other = await members.server.connect()
        await other.set(znodes.CLUSTER_ID, znodes.encode_cluster_id("another"))
        await expire(members, 1)
        async with asyncio.timeout(30):
            await failed.wait()
        assert await other.children(znodes.BROKER_IDS) == []
        await members.die(1)

    run(tmp_path / "db", scenario)
