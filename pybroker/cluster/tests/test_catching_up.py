"""Brokers that find out that they lag, or are no longer the controller, and catch up."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from pybroker.cluster import membership
from pybroker.cluster.decisions.plan import NewTopic, TopicName
from pybroker.cluster.following import entries_after
from pybroker.cluster.metadata import znodes
from pybroker.cluster.nodes.loading import Deleted
from pybroker.cluster.tests.harness import Member, Members, run
from pybroker.store.embedded import EmbeddedStore
from pybroker.store.interface import CoordinationStore


class Slow:
    """A store whose ``slow``-th answer on deleted topics, from now on, waits for ``goes_on``."""

    def __init__(self, store: EmbeddedStore) -> None:
        self._store = store
        self.slow = 0
        self.waits = asyncio.Event()
        self.goes_on = asyncio.Event()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    async def children(self, path: str) -> list[str]:
        found = await self._store.children(path)
        if path == znodes.DELETED_TOPICS:
            self.slow -= 1
            if self.slow == 0:
                self.waits.set()
                await self.goes_on.wait()
        return found


def check_nothing_is_lost(member: Member, *names: str) -> None:
    assert member.image.topics.keys() == set(names)
    assert [delta.deleted for delta in member.deltas if delta.deleted] == []


def test_metadata_read_late_from_the_store_remove_no_newer_topic(tmp_path: Path) -> None:
    async def scenario(members: Members) -> None:
        await members.start(1)
        member = await members.start(2, wrap=Slow)
        store: Any = member.store
        await members.settled()
        store.slow = 2  # by then the image itself is complete
        member.node.controller.term.on_fenced()
        await store.waits.wait()
        service = members.controller.node.controller
        await service.create_topics([NewTopic("t", 1, 2)])
        for _ in range(10):  # a broker that did not wait for the reading would follow by now
            await store.get_many([znodes.CONTROLLER])
        store.goes_on.set()
        await service.create_topics([NewTopic("u", 1, 2)])
        await members.settled()
        check_nothing_is_lost(member, "t", "u")

    run(tmp_path / "db", scenario)


def test_a_topic_deleted_while_a_broker_rejoins_disappears_at_the_same_version_on_every_broker(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The broker has read the metadata, then the topic is deleted, then the broker reads what is deleted."""

    async def scenario(members: Members) -> None:
        await members.start(1, 2)
        service = members.controller.node.controller
        await service.create_topics([NewTopic("t", 1, 2)])
        await members.settled()
        follower = next(member for member in members.alive.values() if not member.is_controller)
        read, is_deleted = membership.load_deleted, asyncio.Event()

        async def load_deleted(store: CoordinationStore) -> list[Deleted]:
            if store is follower.store and not is_deleted.is_set():
                await service.delete_topics([TopicName("t")])
                is_deleted.set()
            return await read(store)

        monkeypatch.setattr(membership, "load_deleted", load_deleted)
        await members.server.expire(follower.store.session.id)
        await is_deleted.wait()
        assert not (await members.settled()).topics
        assert any("t" in delta.deleted for delta in follower.deltas)

    run(tmp_path / "db", scenario)


def test_an_older_metadata_image_is_not_published(tmp_path: Path) -> None:
    async def scenario(members: Members) -> None:
        member = await members.start(1, 2)
        old = await members.settled()
        await members.controller.node.controller.create_topics([NewTopic("t", 1, 2)])
        newest = await members.settled()
        await member.node.controller.follow(old)
        assert member.image == newest
        check_nothing_is_lost(member, "t")

    run(tmp_path / "db", scenario)


def test_a_journal_entry_is_applied_only_to_the_version_before_it(tmp_path: Path) -> None:
    async def scenario(members: Members) -> None:
        member = await members.start(1, 2)
        version = (await members.settled()).version
        service = members.controller.node.controller
        await service.create_topics([NewTopic("t", 1, 2)])
        await members.settled()
        [late] = (await entries_after(member.store, version)).entries
        await member.node.controller.follow_entry(version + 1, late)
        await service.create_topics([NewTopic("u", 1, 2)])
        await members.settled()
        check_nothing_is_lost(member, "t", "u")

    run(tmp_path / "db", scenario)


def test_a_controller_whose_node_was_deleted_steps_down(tmp_path: Path) -> None:
    async def scenario(members: Members) -> None:
        await members.start(1, 2)
        await members.settled()
        await members.alive[2].store.delete(znodes.CONTROLLER)
        await members.until(lambda: members.has_settled and members.controller.image.controller_epoch > 1)
        image = members.controller.image
        assert (image.controller_id, image.controller_epoch) == (members.controller.id, 2)
        await members.controller.node.controller.create_topics([NewTopic("t", 1, 2)])
        for member in members.alive.values():
            await members.settled()
            check_nothing_is_lost(member, "t")

    run(tmp_path / "db", scenario)
