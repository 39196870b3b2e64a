"""Logs that the metadata do not know are kept: they are set aside as strays, and return with their topic."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import pytest

from pybroker.cluster.metadata.image import MetadataDelta, MetadataImage, Reading, TopicImage
from pybroker.log.removal.strays import find
from pybroker.replication.tests.harness import NOW, TP, MakeNode, Node, topic_id, values
from pyclient.protocol import errors

DAY_MS = 86_400_000


def folders(node: Node) -> list[str]:
    names = sorted(name for path in node.paths for name in os.listdir(path) if os.path.isdir(f"{path}/{name}"))
    return [name for name in names if not name.endswith("-delete")]


def strays(node: Node) -> list[tuple[str, int, int]]:
    """Returns topic, partition and end of each stray log."""
    found = [note for path in node.paths for _, _, note in find(node.storage, path)]
    return sorted((*each.topic_partition, each.checkpointed.recovery_point) for each in found)


def topic_of(node: Node, name: str = "t") -> TopicImage:
    return node.metadata.image.topics[name]


def lose(node: Node, name: str = "t") -> TopicImage:
    """Publishes an image without the topic, like an image that was read again."""
    topic = topic_of(node, name)
    node.publish(MetadataDelta(missing={name: topic}, reading=Reading()))
    return topic


def restart_with(node: Node, image: MetadataImage) -> None:
    node.stop()
    node.metadata.image = image
    node.start()


def without(node: Node, name: str) -> MetadataImage:
    return node.metadata.image.apply(MetadataDelta(missing={name: topic_of(node, name)}))


def read(node: Node) -> list[bytes | None]:
    log = node.replicas.partition(TP).log
    return values(log.read(log.log_start_offset, log.log_end_offset, 1 << 20).records)


def test_the_log_of_a_topic_that_is_missing_is_kept_and_no_longer_served(node: Node) -> None:
    node.create(epoch=4)
    node.append(b"a", b"b")
    lose(node)
    assert strays(node) == [("t", 0, 2)]
    assert node.led == [(TP, 4), (TP, None)]
    assert list(node.replicas.partitions) == list(node.logs) == []
    with pytest.raises(errors.UnknownTopicOrPartition):
        node.replicas.partition(TP)


def test_the_log_of_a_topic_missing_at_the_start_is_kept(node: Node) -> None:
    node.create()
    node.append(b"a", b"b")
    restart_with(node, without(node, "t"))
    assert strays(node) == [("t", 0, 2)]
    assert list(node.logs) == []


@pytest.mark.parametrize("restarts", [0, 1])
def test_a_topic_that_is_there_again_has_its_log_again(node: Node, restarts: int) -> None:
    node.create(partitions=2)
    node.append(b"a", b"b", b"c")
    node.replicas.partition(TP).delete_records(1)
    topic = lose(node)
    for _ in range(restarts):
        restart_with(node, node.metadata.image)
    node.publish(MetadataDelta(changed={"t": topic}, reading=Reading()))
    assert folders(node) == ["t-0", "t-1"]
    log = node.replicas.partition(TP).log
    assert (log.log_start_offset, log.high_watermark, log.log_end_offset) == (1, 3, 3)
    assert node.append(b"d") == 3


def test_deleted_records_of_a_stray_stay_deleted_without_a_checkpoint(make_node: MakeNode) -> None:
    node = make_node()
    node.create()
    node.append(b"a", b"b", b"c")
    node.replicas.partition(TP).delete_records(2)
    topic = lose(node)
    node.publish(MetadataDelta(changed={"t": topic}))
    node.logs.close = lambda: None  # type: ignore[method-assign]  # killed
    restart_with(node, node.metadata.image)
    assert node.replicas.partition(TP).log.log_start_offset == 2
    assert folders(node) == ["t-0"]
    assert not os.path.exists(f"{node.paths[0]}/t-0/stray.json")


@pytest.mark.parametrize("is_running", [False, True])
def test_a_new_topic_begins_empty_beside_the_stray_of_its_name(node: Node, is_running: bool) -> None:
    node.create()
    node.append(b"a", b"b")
    if not is_running:
        restart_with(node, without(node, "t"))
    assert node.create(generation=1).log.log_end_offset == 0
    assert node.append(b"other") == 0
    assert strays(node) == [("t", 0, 2)]
    assert node.replicas.by_id(topic_id("t", 1), 0) is node.replicas.partition(TP)
    with pytest.raises(errors.UnknownTopicId):
        node.replicas.by_id(topic_id("t"), 0)


def test_a_deleted_topic_has_no_stray(node: Node) -> None:
    node.create()
    node.append(b"a")
    node.delete()
    assert folders(node) == []


def test_logs_of_partitions_that_the_topic_no_longer_has_are_kept(node: Node) -> None:
    node.create(partitions=2)
    node.append(b"a", index=1)
    topic = topic_of(node)
    node.publish(MetadataDelta(changed={"t": topic._replace(partitions=topic.partitions[:1])}, reading=Reading()))
    assert strays(node) == [("t", 1, 1)]
    assert list(node.replicas.partitions) == [node.replicas.partition(TP)]


@pytest.mark.parametrize("is_running", [False, True])
def test_replicas_are_kept_that_an_image_read_again_has_elsewhere(node: Node, is_running: bool) -> None:
    """A store restored from a backup before a reassignment would give the same image."""
    node.create(partitions=2)
    node.append(b"a", index=1)
    topic = topic_of(node)
    stays, leaves = topic.partitions
    elsewhere = replace(leaves, leader=2, replicas=(2, 3), isr=(2, 3))
    delta = MetadataDelta(changed={"t": topic._replace(partitions=(stays, elsewhere))}, reading=Reading())
    if is_running:
        node.publish(delta)
    else:
        restart_with(node, node.metadata.image.apply(delta))
    assert strays(node) == [("t", 1, 1)]
    assert folders(node)[0] == "t-0"
    node.publish(MetadataDelta(changed={"t": topic}))
    assert (strays(node), folders(node)) == ([], ["t-0", "t-1"])


def test_a_reassignment_that_ends_while_the_broker_follows_removes_the_log(node: Node) -> None:
    node.create()
    node.create(replicas=(2,), leader=2, epoch=1)
    assert folders(node) == []


def test_the_log_of_a_topic_that_cannot_be_read_stays_where_it_is(node: Node) -> None:
    node.create()
    node.append(b"a")
    image = without(node, "t")
    reading = Reading(frozenset({"t"}))
    node.stop()
    node.metadata.image = MetadataImage()
    topic = image.topics.get("t")
    assert topic is None
    node.start(reading=reading)
    assert folders(node) == ["t-0"]
    assert list(node.replicas.partitions) == []


def test_strays_are_not_under_retention(node: Node) -> None:
    topic = node.create(retention_ms="-1", segment_bytes="1024")
    for _ in range(40):
        node.append(bytes(200))
    end = topic.log.log_end_offset
    node.stop()
    node.metadata.image = MetadataImage()
    node.start(reading=Reading(frozenset({"t"})))
    [log] = node.logs
    log.update_high_watermark(end)
    assert sum(node.logs.retention_round(NOW + 30 * DAY_MS)) == 0
    assert (log.log_start_offset, log.log_end_offset) == (0, end)


def test_a_log_without_an_id_is_that_of_the_topic_of_its_name(node: Node) -> None:
    node.create()
    node.append(b"a")
    node.stop()
    os.unlink(f"{node.paths[0]}/t-0/partition.metadata")
    node.start()
    assert node.replicas.partition(TP).log.log_end_offset == 1


def test_a_log_on_a_failed_disk_does_not_become_a_stray(make_node: MakeNode, tmp_path: Path) -> None:
    node = make_node(dirs=2)
    node.create("t", partitions=2)
    node.append(b"a")
    log_dir = node.replicas.partition(TP).log.log_dir
    log_dir.fail(OSError(5, "Input/output error"), "a test")
    lose(node)
    assert os.path.isdir(f"{log_dir.path}/t-0")
    assert len(strays(node)) == 1
