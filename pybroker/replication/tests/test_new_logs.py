"""The logs of new partitions are made after the metadata: when they are needed, or one by one."""

from __future__ import annotations

import errno
import os
import threading
from collections.abc import Callable

import pytest

from proofs.faulty_storage import FaultyStorage
from pybroker.cluster.metadata.image import (
    OFFSETS_TOPIC,
    MetadataDelta,
    MetadataImage,
    PartitionImage,
    Reading,
    TopicImage,
)
from pybroker.replication.fetch_partition import FetchPartition
from pybroker.replication.partition import Partition
from pybroker.replication.tests.harness import NODE, TP, MakeNode, Node, most_logs_at_once, topic_id
from pybroker.tests.waiting import PATIENCE_S
from pybroker.topic_partition import TopicPartition
from pyclient.keywords import with_dots
from pyclient.protocol import errors

OTHER = 2


def topic(
    name: str = "t",
    partitions: int = 1,
    *,
    generation: int = 0,
    replicas: tuple[int, ...] = (NODE,),
    leader: int = NODE,
    epoch: int = 0,
    **configs: str,
) -> TopicImage:
    images = tuple(PartitionImage(n, leader, epoch, 0, replicas, replicas) for n in range(partitions))
    overrides = with_dots(configs)
    return TopicImage(name, topic_id(name, generation), images, overrides)


def publish(node: Node, *topics: TopicImage) -> None:
    """Publishes the topics. When this returns, a client would have its answer."""
    node.publish(MetadataDelta(changed={each.name: each for each in topics}), makes_logs=False)


def finish(node: Node) -> None:
    node.until(lambda: not node.replicas.partitions.new)


def made(node: Node) -> list[str]:
    """Returns the folders of logs, in the order in which they were made."""
    for log in node.logs:
        assert os.path.isdir(log.folder)
    return [str(log.topic_partition) for log in node.logs]


def kill(node: Node) -> None:
    """Stops the broker without closing its logs, as a kill does."""
    node.replicas.close()
    for pool in node.pools:
        pool.shutdown()


def test_metadata_do_not_wait_for_new_logs(node: Node) -> None:
    publish(node, topic("a", 100), topic("b"))
    publish(node, topic("c"))
    assert "c-0" not in made(node)
    finish(node)
    assert made(node) == [*(f"a-{n}" for n in range(100)), "b-0", "c-0"]


def test_between_two_new_logs_others_have_their_turn(node: Node) -> None:
    publish(node, topic(partitions=20))
    assert most_logs_at_once(node, lambda: finish(node)) == 1
    assert len(node.logs) == 20


@pytest.mark.parametrize(
    "look_up",
    [
        lambda node: node.replicas.find("t", 7),
        lambda node: node.replicas.partition(TopicPartition("t", 7)),
        lambda node: node.replicas.by_id(topic_id("t"), 7),
        lambda node: node.replicas.resolve(FetchPartition("t", bytes(16), 7, 0, 1)),
        lambda node: node.replicas.resolve(FetchPartition(None, topic_id("t"), 7, 0, 1)),
        lambda node: node.replicas.partitions.make("t", 7),
    ],
)
def test_a_partition_has_its_log_when_it_is_found(node: Node, look_up: Callable[[Node], Partition]) -> None:
    node.run(node.replicas.apply(*one_delta(node, topic(partitions=8))))
    partition = look_up(node)
    assert made(node) == ["t-7"]
    assert partition is node.replicas.find("t", 7)
    assert partition.is_leader
    assert partition.log.topic_id == topic_id("t")


def one_delta(node: Node, *topics: TopicImage) -> tuple[MetadataDelta, MetadataImage]:
    delta = MetadataDelta(changed={each.name: each for each in topics})
    return delta, node.metadata.image.apply(delta)


def test_a_log_created_by_a_request_is_not_created_again_in_the_background(
    node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    publish(node, topic())
    node.logs.dirs[0].stale.add(TP)
    found: list[Partition] = []
    was_found = threading.Event()

    def find() -> None:
        found.append(node.replicas.find(*TP))
        was_found.set()

    def forget() -> None:
        node.loop.call_soon_threadsafe(find)
        assert was_found.wait(PATIENCE_S)

    monkeypatch.setattr(node.logs, "forget_deleted", forget)
    node.run(node.replicas.apply(*one_delta(node, topic(epoch=1))))
    assert [node.replicas.find(*TP)] == found
    assert found[0].leader_epoch == 1


def test_records_appended_before_the_other_logs_exist_stay(node: Node) -> None:
    publish(node, topic(partitions=50))
    assert node.append(b"a", index=40) == 0
    finish(node)
    assert node.append(b"b", index=40) == 1
    assert len(made(node)) == 50


def test_leadership_is_announced_when_the_log_exists(node: Node) -> None:
    publish(node, topic(partitions=3, epoch=4))
    node.replicas.find("t", 2)
    assert (TopicPartition("t", 2), 4) in node.led
    finish(node)
    assert sorted(node.led) == [(TopicPartition("t", n), 4) for n in range(3)]


def test_leadership_is_not_announced_before_the_metadata_are_published(node: Node) -> None:
    node.run(node.replicas.apply(*one_delta(node, topic())))
    assert node.replicas.find("t", 0).is_leader
    assert node.led == []
    node.replicas.announce()
    assert node.led == [(TP, 0)]


def test_a_coordinator_finds_its_log_at_once(node: Node) -> None:
    publish(node, topic(OFFSETS_TOPIC, 3))
    assert node.led == [(TopicPartition(OFFSETS_TOPIC, n), 0) for n in range(3)]


def test_a_new_log_follows_the_metadata_at_its_creation(node: Node) -> None:
    publish(node, topic(partitions=30))
    publish(node, topic(partitions=30, leader=OTHER, epoch=1, replicas=(NODE, OTHER), retention_ms="7"))
    last = node.replicas.find("t", 29)
    assert not last.is_leader
    assert (last.leader, last.leader_epoch, last.log.config.retention_ms) == (OTHER, 1, 7)
    finish(node)
    assert {partition.log.config for partition in node.replicas.partitions} == {last.log.config}


def test_a_topic_that_grows_gets_the_logs_that_it_lacks(node: Node) -> None:
    publish(node, topic(partitions=10))
    publish(node, topic(partitions=30))
    finish(node)
    assert made(node) == [f"t-{n}" for n in range(30)]


def test_a_topic_deleted_before_its_log_exists_gets_no_log(node: Node) -> None:
    publish(node, topic(partitions=50))
    node.publish(MetadataDelta(deleted={"t": topic(partitions=50)}), makes_logs=False)
    assert not node.replicas.partitions.new
    assert made(node) == []
    publish(node, topic(partitions=2, generation=1))
    finish(node)
    assert [log.topic_id for log in node.logs] == [topic_id("t", 1)] * 2


def test_a_replica_moved_before_its_log_exists_gets_no_log(node: Node) -> None:
    publish(node, topic(partitions=50))
    publish(node, topic(partitions=50, replicas=(OTHER,), leader=OTHER, epoch=1))
    here = made(node)
    finish(node)
    node.turn()
    assert made(node) == here == []
    with pytest.raises(errors.NotLeaderOrFollower):
        node.replicas.find("t", 0)


def test_metadata_that_are_read_again_forget_no_log(node: Node) -> None:
    publish(node, topic(partitions=50))
    node.publish(MetadataDelta(reading=Reading()), makes_logs=False)
    assert node.replicas.partitions.new
    finish(node)
    assert len(made(node)) == 50


def test_a_topic_that_is_missing_from_the_metadata_gets_no_log(node: Node) -> None:
    publish(node, topic(partitions=50))
    node.publish(MetadataDelta(missing={"t": topic(partitions=50)}), makes_logs=False)
    assert not node.replicas.partitions.new
    assert made(node) == []


def test_a_log_that_is_not_made_yet_is_not_lost(node: Node) -> None:
    publish(node, topic(partitions=50))
    assert node.replicas.partitions.new
    assert node.replicas.partitions.lost() == frozenset()


@pytest.mark.parametrize("end", [kill, Node.stop])
def test_the_next_start_creates_missing_logs(make_node: MakeNode, end: Callable[[Node], None]) -> None:
    node = make_node(dirs=2)
    publish(node, topic(partitions=50, epoch=3))
    assert node.append(b"a", index=49) == 0
    end(node)
    assert len(made(node)) < 50
    node.start()
    finish(node)
    assert len(made(node)) == 50
    assert all(partition.is_leader for partition in node.replicas.partitions)
    assert node.replicas.find("t", 49).log.log_end_offset == 1
    assert node.replicas.partitions.lost() == frozenset()


def test_a_stopping_broker_creates_no_more_logs(make_node: MakeNode) -> None:
    node = make_node()
    publish(node, topic(partitions=50))
    node.stop()
    here = made(node)
    node.turn()
    assert made(node) == here
    node.start()


def refuse(storage: FaultyStorage) -> None:
    """Lets the storage refuse to open files, as when no descriptor is left."""
    storage.fail("open", errno.EMFILE, lambda path: "/t-" in path)


def test_a_log_that_cannot_be_created_is_reported_as_lost(make_node: MakeNode) -> None:
    storage = FaultyStorage()
    node = make_node(storage=storage)
    told: list[int] = []
    node.replicas.on_lost(lambda: told.append(len(node.replicas.partitions.lost())))
    refuse(storage)
    publish(node, topic(partitions=10))
    with pytest.raises(errors.NotLeaderOrFollower):
        node.replicas.find("t", 9)
    assert (topic_id("t"), 9) in node.replicas.partitions.lost()
    finish(node)
    assert node.replicas.partitions.lost() == {(topic_id("t"), n) for n in range(10)}
    node.until(lambda: told and told[-1] == 10)


def test_a_log_that_could_not_be_made_is_tried_again_with_the_next_metadata(make_node: MakeNode) -> None:
    storage = FaultyStorage()
    node = make_node(storage=storage)
    refuse(storage)
    publish(node, topic(partitions=3))
    finish(node)
    publish(node, topic(partitions=3, epoch=1))
    assert len(node.replicas.partitions.lost()) == 3
    assert not node.replicas.partitions.new
    storage.heal()
    publish(node, topic(partitions=3, epoch=2))
    assert node.replicas.partitions.lost() == frozenset()
    assert made(node) == ["t-0", "t-1", "t-2"]


def test_a_failed_disk_gets_no_new_log(make_node: MakeNode) -> None:
    storage = FaultyStorage()
    node = make_node(dirs=2, storage=storage)
    node.run(node.replicas.apply(*one_delta(node, topic(partitions=10))))
    storage.fail("open", where=lambda path: path.startswith(f"{node.paths[0]}/"))
    node.replicas.announce()
    finish(node)
    [lost] = node.replicas.partitions.lost()
    led = {each.topic_partition.partition: each for each in node.replicas.partitions if each.is_leader}
    assert sorted([*led, lost[1]]) == list(range(10))
    assert {each.log.log_dir.path for each in led.values()} == {node.paths[1]}
