"""A deletion of several steps that ends between two of them, whether or not the controller survives it."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from pybroker.clock import ManualClock
from pybroker.cluster import deletions
from pybroker.cluster.decisions import plan, topic_steps
from pybroker.cluster.decisions.plan import NewTopic, TopicName
from pybroker.cluster.metadata import znodes
from pybroker.cluster.metadata.image import TopicImage
from pybroker.cluster.node import ClusterNode
from pybroker.cluster.tests.harness import Members, run
from pybroker.config import BrokerConfig
from pybroker.store.embedded import EmbeddedStore
from pybroker.store.interface import ConnectionLoss, CoordinationError, Operation
from pybroker.tests.waiting import PATIENCE_S, until_async
from pyclient.protocol import errors


@pytest.fixture(autouse=True)
def small_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plan, "PARTITIONS_PER_STEP", 4)
    monkeypatch.setattr(topic_steps, "PARTITIONS_PER_STEP", 4)
    monkeypatch.setattr(topic_steps, "REMOVED_AT_ONCE", 1)


class Interrupting:
    """A store that raises ``error``, while it is set, for each step of a deletion but the first, which ``is_done``."""

    def __init__(self, store: EmbeddedStore) -> None:
        self._store = store
        self.error: CoordinationError | None = None
        self.is_done = False
        self.asked = 0
        self.was_asked = asyncio.Event()
        self.answers = asyncio.Event()
        self.answers.set()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    async def multi(self, operations: Sequence[Operation]) -> object:
        paths = [operation.path for operation in operations]
        is_later = any(path.startswith(znodes.TOPICS) for path in paths) and not any(
            path.startswith(znodes.JOURNAL) for path in paths
        )
        if is_later and self.error is not None:
            self.asked += 1
            self.was_asked.set()
            await self.answers.wait()
            if self.is_done:
                await self._store.multi(operations)
            raise self.error
        return await self._store.multi(operations)


async def children(members: Members, path: str) -> list[str]:
    store = await members.server.connect()
    try:
        return await store.children(path)
    finally:
        await store.close()


async def note_of(members: Members, topic: TopicImage) -> znodes.Left:
    store = await members.server.connect()
    try:
        return znodes.decode_left((await store.get(znodes.deleted_path(topic.id)))[0])
    finally:
        await store.close()


async def until_all_logs_are_gone(members: Members, topic: TopicImage) -> None:
    async def are_gone() -> bool:
        return (await note_of(members, topic)).brokers == ()

    await until_async(are_gone)


async def until_nothing_is_left(members: Members) -> None:
    async def is_empty() -> bool:
        return not (await children(members, znodes.DELETED_TOPICS) or await children(members, znodes.TOPICS))

    await until_async(is_empty)


async def check_name_is_free(members: Members) -> None:
    """Checks that the topic can be created again, and that all others survive the death of a broker."""
    [outcome] = await members.controller.node.controller.create_topics([NewTopic("t", 2, 3)])
    assert isinstance(outcome, TopicImage)
    await members.check_store()
    controller = members.controller.id
    await members.die(next(id for id in members.alive if id != controller))
    image = await members.settled()
    assert all(len(partition.isr) == 2 for partition in image.topics["t"].partitions)
    await members.check_store()


def test_nodes_left_by_a_refused_deletion_step_are_removed_before_the_topic_is_created_again(tmp_path: Path) -> None:
    async def scenario(members: Members) -> None:
        first = await members.start(1, wrap=Interrupting)
        await members.start(2, 3)
        store: Any = first.store
        service = first.node.controller
        [topic] = await service.create_topics([NewTopic("t", 9, 3)])
        assert isinstance(topic, TopicImage)
        await members.settled()
        store.error = CoordinationError("refused")
        assert await service.delete_topics([TopicName("t")]) == [topic]
        await until_all_logs_are_gone(members, topic)
        assert await children(members, znodes.partitions_path("t")) == [str(index) for index in range(9)]
        with pytest.raises(errors.UnknownServerError):
            await service.create_topics([NewTopic("t", 2, 3)])
        store.error = None
        late = await members.start(4)
        assert "t" not in late.image.topics
        await members.die(4)
        await members.settled()
        await check_name_is_free(members)
        assert (await members.settled()).controller_epoch == 1

    run(tmp_path / "db", scenario)


def test_a_refused_deletion_step_is_repeated(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is repeated even though nobody requests the name, and no other broker becomes controller."""
    monkeypatch.setattr(deletions, "LONGEST_PAUSE_S", deletions.PAUSE_S)

    async def scenario(members: Members) -> None:
        first = await members.start(1, wrap=Interrupting)
        store: Any = first.store
        service = first.node.controller
        [topic] = await service.create_topics([NewTopic("t", 9, 1)])
        assert isinstance(topic, TopicImage)
        store.error = CoordinationError("refused")
        await service.delete_topics([TopicName("t")])
        await until_all_logs_are_gone(members, topic)
        store.error = None
        await until_nothing_is_left(members)
        assert (await members.settled()).controller_epoch == 1

    run(tmp_path / "db", scenario)


def test_a_topic_deletion_continues_if_another_program_has_removed_some_nodes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(deletions, "PAUSE_S", PATIENCE_S)

    async def scenario(members: Members) -> None:
        first = await members.start(1)
        service = first.node.controller
        await service.create_topics([NewTopic("t", 9, 1)])
        await service.delete_topics([TopicName("t")])
        outside = await members.server.connect()
        await outside.delete(znodes.state_path("t", 5))
        await outside.close()
        [made] = await service.create_topics([NewTopic("t", 2, 1)])
        assert isinstance(made, TopicImage)
        assert first.image.controller_epoch == 1

    run(tmp_path / "db", scenario)


def test_a_deletion_of_several_topics_completes_if_the_nodes_of_one_are_incomplete(tmp_path: Path) -> None:
    """The correction reads what the first steps have left, so that their later steps are not needed."""

    async def scenario(members: Members) -> None:
        first = await members.start(1)
        service = first.node.controller
        created = await service.create_topics([NewTopic("a", 9, 1), NewTopic("b", 9, 1), NewTopic("c", 1, 1)])
        outside = await members.server.connect()
        await outside.delete(znodes.state_path("c", 0))
        await outside.close()
        assert await service.delete_topics([TopicName("a"), TopicName("b"), TopicName("c")]) == created
        [made] = await service.create_topics([NewTopic("a", 2, 1)])
        assert isinstance(made, TopicImage)
        await service.delete_topics([TopicName("a")])
        await until_nothing_is_left(members)

    run(tmp_path / "db", scenario)


class Counting:
    """A store that counts how often children are listed."""

    def __init__(self, store: EmbeddedStore) -> None:
        self._store = store
        self.reads = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    async def children(self, path: str) -> list[str]:
        self.reads += 1
        return await self._store.children(path)


def test_a_controller_leads_before_it_reads_the_nodes_of_deleted_topics(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise partitions without a leader would get one only after the reads."""
    monkeypatch.setattr(deletions, "PAUSE_S", PATIENCE_S)

    async def scenario(members: Members) -> None:
        await members.start(1)
        second = await members.start(2, wrap=Counting)
        await members.controller.node.controller.create_topics([NewTopic("t", 100, 2)])
        await members.settled()
        await members.controller.node.controller.delete_topics([TopicName("t")])
        store: Any = second.store
        before = store.reads
        await members.die(members.controller.id)
        await members.until(lambda: second.is_controller)
        assert store.reads - before < 100
        await second.node.controller.deletions.nodes.remove_all()

    run(tmp_path / "db", scenario)


@pytest.mark.parametrize("is_done", [False, True])
def test_a_deletion_step_of_unknown_outcome_is_repeated_in_the_same_term(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_done: bool
) -> None:
    """The term can go on, because the step changes no image, so that later plans have a correct image."""
    monkeypatch.setattr(deletions, "LONGEST_PAUSE_S", deletions.PAUSE_S)

    async def scenario(members: Members) -> None:
        first = await members.start(1, wrap=Interrupting)
        await members.start(2, 3)
        store: Any = first.store
        await first.node.controller.create_topics([NewTopic("t", 9, 3)])
        await members.settled()
        store.is_done = is_done
        store.error = ConnectionLoss("no answer")
        await first.node.controller.delete_topics([TopicName("t")])
        await members.until(lambda: store.asked > 1)
        if not is_done:
            store.error = None
        await until_nothing_is_left(members)
        image = await members.settled()
        assert (image.controller_epoch, len(image.topics)) == (1, 0)
        await check_name_is_free(members)

    run(tmp_path / "db", scenario)


def test_leftovers_are_removed_if_the_controller_dies_after_all_logs_are_gone(tmp_path: Path) -> None:
    """The controller dies when all brokers with logs have removed themselves from the note."""

    async def scenario(members: Members) -> None:
        first = await members.start(1, wrap=Interrupting)
        await members.start(2, 3, 4)
        store: Any = first.store
        assignments = tuple((index, (2, 3)) for index in range(9))
        [topic] = await first.node.controller.create_topics([NewTopic("t", assignments=assignments)])
        assert isinstance(topic, TopicImage)
        await members.settled()
        store.answers.clear()
        store.error = ConnectionLoss("killed")
        await first.node.controller.delete_topics([TopicName("t")])
        await store.was_asked.wait()
        await until_all_logs_are_gone(members, topic)
        store.answers.set()
        await members.die(1)
        await until_nothing_is_left(members)
        assert not (await members.settled()).topics
        await check_name_is_free(members)

    run(tmp_path / "db", scenario)


def test_nodes_that_cannot_be_removed_do_not_prevent_the_election_of_a_controller(tmp_path: Path) -> None:
    async def scenario(members: Members) -> None:
        stores: list[Any] = [(await members.start(node_id, wrap=Interrupting)).store for node_id in (1, 2, 3)]
        service = members.controller.node.controller
        [topic] = await service.create_topics([NewTopic("t", 9, 3)])
        assert isinstance(topic, TopicImage)
        await members.settled()
        for store in stores:
            store.error = CoordinationError("refused")
        await service.delete_topics([TopicName("t")])
        await until_all_logs_are_gone(members, topic)
        await members.die(1)
        image = await members.settled()
        assert (image.controller_epoch, len(image.topics)) == (2, 0)
        for store in stores:
            store.error = None
        await members.die(image.controller_id)
        await until_nothing_is_left(members)

    run(tmp_path / "db", scenario)


def test_a_topic_is_created_again_without_the_pause_before_its_old_nodes_are_removed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(deletions, "PAUSE_S", PATIENCE_S)

    async def scenario(members: Members) -> None:
        await members.start(1, 2, 3)
        service = members.controller.node.controller
        for _ in range(2):
            [topic] = await service.create_topics([NewTopic("t", 9, 3)])
            assert isinstance(topic, TopicImage)
            await service.delete_topics([TopicName("t"), TopicName("u")])
            assert "t" not in members.controller.image.topics
            assert await children(members, znodes.TOPICS) == ["t"]
            late = await members.start(4)
            assert "t" not in late.image.topics
            await members.die(4)
        await service.create_topics([NewTopic("t", 2, 3)])

    run(tmp_path / "db", scenario)


def test_a_later_term_drops_the_deletion_steps_of_earlier_ones(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise they would remove nodes of a new topic with the same name."""
    monkeypatch.setattr(deletions, "PAUSE_S", PATIENCE_S)

    async def scenario(members: Members) -> None:
        first = await members.start(1)
        await first.node.controller.create_topics([NewTopic("t", 9, 1)])
        await first.node.controller.delete_topics([TopicName("t")])
        await first.node.controller.resign()
        await members.until(lambda: first.is_controller)
        assert first.image.controller_epoch == 2
        await first.node.controller.create_topics([NewTopic("t", 9, 1)])
        await first.node.controller.deletions.nodes.remove_all()
        await members.check_store()

    run(tmp_path / "db", scenario)


def test_a_topic_whose_nodes_are_incomplete_is_deleted_completely(tmp_path: Path) -> None:
    async def scenario(members: Members) -> None:
        await members.start(1, 2, 3)
        service = members.controller.node.controller
        await service.create_topics([NewTopic("t", 9, 3)])
        outside = await members.server.connect()
        await outside.delete(znodes.state_path("t", 5))
        await outside.close()
        await service.delete_topics([TopicName("t")])
        await until_nothing_is_left(members)
        await check_name_is_free(members)

    run(tmp_path / "db", scenario)


def test_a_broker_that_has_left_starts_no_deletion(tmp_path: Path) -> None:
    """A broker that leaves still applies entries of the journal."""

    async def main() -> None:
        store = await EmbeddedStore.open(str(tmp_path / "db"))
        node = await ClusterNode.open(store, BrokerConfig({}), 1, ManualClock())
        await node.leave()
        before = asyncio.all_tasks()
        node.controller.deletions.add([TopicImage("t", bytes(16), ())])
        assert asyncio.all_tasks() == before
        await store.close()

    asyncio.run(main())
