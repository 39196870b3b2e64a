"""The nodes of deleted topics that a controller removes, and the nodes of other topics, which it keeps."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from pybroker.cluster import deletions
from pybroker.cluster.decisions import topic_steps
from pybroker.cluster.decisions.plan import NewTopic
from pybroker.cluster.decisions.topic_steps import deletion_of, removal_steps
from pybroker.cluster.deletions import Deletions
from pybroker.cluster.metadata import znodes
from pybroker.cluster.metadata.image import MetadataImage, PartitionImage, TopicImage
from pybroker.cluster.metadata_cache import MetadataCache
from pybroker.cluster.nodes import loading
from pybroker.cluster.remaining_nodes import RemainingNodes
from pybroker.cluster.term import Term
from pybroker.cluster.tests.harness import Members, run
from pybroker.store.embedded import EmbeddedStore
from pybroker.store.interface import ANY_VERSION, Check, Delete, ensure_path
from pybroker.tests.waiting import until_async

ID = b"0123456789abcdef"
MARK = znodes.remains_path(ID)


def topic_of(partitions: int) -> TopicImage:
    return TopicImage("t", ID, tuple(PartitionImage(index, 1, 0, 0, (1,), (1,)) for index in range(partitions)))


def paths_of(topic: TopicImage) -> list[str]:
    states = [znodes.state_path("t", partition.index) for partition in topic.partitions]
    below = [path for state in states for path in (state, state.removesuffix("/state"))]
    return [*below, znodes.partitions_path("t"), znodes.topic_path("t"), "/config/topics/t"]


@pytest.mark.parametrize("partitions", range(11, 20))
@pytest.mark.parametrize("is_found", [False, True])
def test_each_step_of_a_topic_deletion_checks_its_mark_and_the_last_one_removes_it(
    monkeypatch: pytest.MonkeyPatch, partitions: int, is_found: bool
) -> None:
    """Otherwise a mark could outlive the root, and the next controller would look for nodes in a new topic of the name.
    """
    monkeypatch.setattr(topic_steps, "PARTITIONS_PER_STEP", 4)
    topic = topic_of(partitions)
    [removal] = deletion_of([topic], {}).later
    steps = removal_steps(ID, "t", paths_of(topic)) if is_found else removal.steps
    assert len(steps) > 1
    assert all(step.operations[0] == Check(MARK, ANY_VERSION) for step in steps[:-1])
    root = {znodes.partitions_path("t"), znodes.topic_path("t"), "/config/topics/t", MARK}
    assert root <= {each.path for each in steps[-1].operations if isinstance(each, Delete)}
    removed = [each.path for step in steps for each in step.operations if isinstance(each, Delete)]
    assert sorted(removed) == sorted([*paths_of(topic), MARK])


def test_nodes_of_many_partitions_are_listed_in_several_steps(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The defect: listing 10,000 nodes at once blocked the loop, and so every client, for seconds."""
    monkeypatch.setattr(loading, "FOLDERS_AT_ONCE", 3)
    waiting, most = 0, 0
    children = EmbeddedStore.children

    async def counted(store: EmbeddedStore, path: str) -> list[str]:
        nonlocal waiting, most
        waiting += 1
        most = max(most, waiting)
        names = await children(store, path)
        waiting -= 1
        return names

    monkeypatch.setattr(EmbeddedStore, "children", counted)

    async def main() -> list[str]:
        store = await EmbeddedStore.open(str(tmp_path / "store"))
        try:
            for path in (znodes.state_path("t", index) for index in range(8)):
                await ensure_path(store, path)
            return await loading.load_nodes(store, "t", ID)
        finally:
            await store.close()

    found = asyncio.run(main())
    assert sorted(found) == sorted(paths_of(topic_of(8))[:-1])
    assert most == 3


def test_a_new_topic_loses_no_nodes_to_an_unfinished_deletion_of_its_namesake(tmp_path: Path) -> None:
    """An earlier version has left the mark of a topic whose nodes are gone."""

    async def scenario(members: Members) -> None:
        await members.start(1, 2)
        [topic] = await members.controller.node.controller.create_topics([NewTopic("t", 2, 2)])
        assert isinstance(topic, TopicImage)
        await members.settled()
        outside = await members.server.connect()
        await outside.create(znodes.deleted_path(ID), znodes.encode_left(znodes.left_of(topic)))
        await outside.create(MARK)
        await members.die(1)
        await members.until(lambda: members.alive[2].is_controller)

        async def is_told() -> bool:
            return not await outside.exists(MARK)

        await until_async(is_told)
        assert await outside.children(znodes.TOPICS) == ["t"]
        await members.check_store()
        await outside.close()

    run(tmp_path / "db", scenario)


def test_a_topic_deletion_that_a_new_term_finds_again_is_repeated(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A broker is deleting the logs of a topic when it becomes controller, and then it also has to remove nodes of it.
    """
    monkeypatch.setattr(deletions, "PAUSE_S", 0)

    async def scenario(members: Members) -> None:
        rounds = 0
        is_deleting, may_end = asyncio.Event(), asyncio.Event()

        async def remove_all() -> set[bytes]:
            nonlocal rounds
            rounds += 1
            return set()

        async def delete_logs() -> None:
            is_deleting.set()
            await may_end.wait()

        store = await members.server.connect()
        nodes = RemainingNodes(store, MetadataCache(MetadataImage()), Term(1), asyncio.Lock())
        monkeypatch.setattr(nodes, "remove_all", remove_all)
        finisher = Deletions(store, 1, nodes)
        finisher.delete_logs = delete_logs
        finisher.add([topic_of(1)])
        await is_deleting.wait()
        finisher.add([topic_of(1)])
        may_end.set()
        await until_async(lambda: rounds == 2)
        finisher.close()
        await store.close()

    run(tmp_path / "db", scenario)
