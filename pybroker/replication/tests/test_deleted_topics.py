"""Logs of deleted topics are removed after the metadata; until then they cannot be reached."""

from __future__ import annotations

import asyncio

import pytest

from pybroker.cluster.metadata.image import MetadataDelta, TopicImage
from pybroker.log.removal import leaving
from pybroker.log.removal.removals import Removals
from pybroker.replication.tests.harness import TP, Node, folders, topic_id
from pybroker.topic_partition import TopicPartition
from pyclient.protocol import errors


@pytest.fixture
def deleted(node: Node) -> TopicImage:
    """Returns a topic that is no longer in the metadata; its logs still have their names."""
    node.create(partitions=3)
    node.append(b"old")
    topic = node.metadata.image.topics["t"]
    node.publish(MetadataDelta(deleted={"t": topic}))
    return topic


def test_partitions_of_a_deleted_topic_are_unknown_before_logs_are_renamed(node: Node, deleted: TopicImage) -> None:
    assert folders(node) == ["t-0", "t-1", "t-2"]
    assert list(node.replicas.partitions) == list(node.logs) == []
    with pytest.raises(errors.UnknownTopicOrPartition):
        node.append(b"a")
    with pytest.raises(errors.UnknownTopicId):
        node.replicas.by_id(deleted.id, 0)
    node.run(node.replicas.delete_leaving())
    assert folders(node) == []


def test_logs_are_deleted_some_at_a_time_with_one_sync(
    node: Node, deleted: TopicImage, monkeypatch: pytest.MonkeyPatch
) -> None:
    counts: list[int] = []
    delete = Removals.delete
    monkeypatch.setattr(Removals, "delete", lambda *args: (counts.append(len(args[2])), delete(*args)))
    monkeypatch.setattr(leaving, "DELETED_AT_ONCE", 2)
    node.run(node.replicas.delete_leaving())
    assert counts == [2, 1]


def test_a_new_topic_of_the_name_begins_empty_though_the_old_logs_were_there(node: Node, deleted: TopicImage) -> None:
    partition = node.create(partitions=2, generation=1)
    assert partition.log.log_end_offset == 0
    node.append(b"new")
    assert folders(node) == ["t-0", "t-1"]
    node.stop()
    node.start()
    log = node.replicas.partition(TP).log
    assert (log.topic_id, log.log_end_offset) == (topic_id("t", 1), 1)


def test_a_log_that_is_made_directly_waits_for_the_old_one_too(node: Node, deleted: TopicImage) -> None:
    log = node.logs.get_or_create(TP, topic_id("t", 1), node.replicas._placement._config_of(deleted))
    assert (log.topic_id, log.log_end_offset) == (topic_id("t", 1), 0)
    assert folders(node) == ["t-0"]


def test_logs_that_one_thread_deletes_are_waited_for_by_others(node: Node, deleted: TopicImage) -> None:
    async def twice() -> None:
        await asyncio.gather(node.replicas.delete_leaving(), node.replicas.delete_leaving())

    node.run(twice())
    assert folders(node) == []
    assert not node.logs.may_remember(TopicPartition("t", 9))


def test_a_clean_stop_deletes_the_logs_of_deleted_topics(node: Node, deleted: TopicImage) -> None:
    node.stop()
    assert folders(node) == []
    node.start()
    assert list(node.logs) == []


@pytest.mark.parametrize("has_new_topic", [False, True])
def test_a_start_deletes_logs_of_a_deleted_topic_that_a_crash_left(
    node: Node, deleted: TopicImage, has_new_topic: bool
) -> None:
    image = node.metadata.image
    if has_new_topic:
        topic = deleted._replace(id=topic_id("t", 1))
        image = image.apply(MetadataDelta(changed={"t": topic}))
    node.logs.leaving._logs.clear()  # as if the process had died
    node.stop()
    node.metadata.image = image
    node.start(deleted={"an id": TopicImage("t", deleted.id, ())})
    node.run(node.replicas.delete_leaving())
    assert folders(node) == (["t-0", "t-1", "t-2"] if has_new_topic else [])
    assert all(log.log_end_offset == 0 and log.topic_id == topic_id("t", 1) for log in node.logs)
