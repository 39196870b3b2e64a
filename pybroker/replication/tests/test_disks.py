"""What a broker does with its replicas when a disk fails, fills up, or cannot sync."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from proofs.faulty_storage import FaultyStorage
from pybroker.replication.tests.harness import NOW, TP, MakeNode, Node, batch
from pybroker.topic_partition import TopicPartition
from pyclient.protocol import errors


def test_case_11_failed_disk_takes_its_partitions_offline_and_no_others(
    make_node: MakeNode,
) -> None:
    node = make_node(dirs=2)
    node.create(partitions=2)
    first, second = (node.replicas.partition(TopicPartition("t", n)) for n in range(2))
    assert first.log.log_dir is not second.log.log_dir
    first.log.log_dir.fail(OSError(28, "No space left on device"), "testing")
    node.turn()
    assert node.led[2:] == [(TP, None)]
    with pytest.raises(errors.KafkaStorageError):
        node.append(b"a", index=0)
    assert node.append(b"a", index=1) == 0


def test_case_11_append_that_does_not_fit_is_refused_and_not_acked(make_node: MakeNode) -> None:
    storage = FaultyStorage()
    node = make_node(storage=storage)
    node.create()
    node.append(b"a")
    storage.space_left = 30
    with pytest.raises(errors.KafkaStorageError):
        node.append(b"b")
    node.turn()
    storage.heal()
    with pytest.raises(errors.KafkaStorageError):
        node.append(b"c")
    assert node.led[-1] == (TP, None)


def test_case_11_a_partition_of_a_lost_dir_is_not_created_again(make_node: MakeNode, tmp_path: Path) -> None:
    node = make_node(dirs=2)
    node.create(partitions=2)
    node.append(b"a")
    lost = node.replicas.partition(TP).log.log_dir.path
    node.stop()
    shutil.move(lost, tmp_path / "aside")
    Path(lost).write_text("not a folder")
    node.start()
    with pytest.raises(errors.KafkaStorageError):
        node.replicas.partition(TP)
    node.append(b"a", index=1)


def test_case_11_disk_that_fails_while_a_topic_is_made_has_lost_what_it_could_not_take(make_node: MakeNode) -> None:
    storage = FaultyStorage()
    node = make_node(dirs=2, storage=storage)
    told: list[int] = []

    def tell() -> None:
        told.append(len(node.replicas.partitions.lost()))

    node.logs.on_dir_failure(lambda failed: tell())
    node.logs.on_dir_failure(lambda failed: node.loop.call_soon_threadsafe(tell))
    storage.fail("open", where=lambda path: path.startswith(f"{node.paths[0]}/"))
    node.create(partitions=10)
    node.turn()
    lost = {index for _, index in node.replicas.partitions.lost()}
    assert len(node.replicas.partitions.topics["t"]) == 10 - len(lost)
    assert lost == set(range(10)) - node.replicas.partitions.topics["t"].keys()
    assert told
    assert max(told) <= len(lost) == 1
    node.delete()
    assert node.replicas.partitions.lost() == frozenset()


def test_case_13_flush_acks_waits_for_the_disk_and_one_sync_serves_many(
    make_node: MakeNode,
) -> None:
    storage = FaultyStorage()
    node = make_node(storage=storage)
    partition = node.create(flush_acks="true")
    node.run(node.replicas.append(TP, batch(b"warm"), -1, NOW).done)
    before = storage.count("sync")
    waiting = [node.replicas.append(TP, batch(b"a"), -1, NOW).done for _ in range(20)]
    for done in waiting:
        if done is not None:
            node.run(done)
    assert partition.log.recovery_point == 21
    assert storage.count("sync") - before <= 3


def test_flush_acks_is_for_acks_all_only(node: Node) -> None:
    node.create(flush_acks="true")
    assert node.replicas.append(TP, batch(b"a"), 1, NOW).done is None


def test_case_12_failed_sync_fails_the_waiting_requests_and_is_never_retried(
    make_node: MakeNode,
) -> None:
    storage = FaultyStorage()
    node = make_node(storage=storage)
    node.create(flush_acks="true")
    storage.fail("sync", where=lambda path: path.endswith(".log"))
    appended = node.replicas.append(TP, batch(b"a"), -1, NOW)
    assert appended.done is not None
    with pytest.raises(errors.KafkaStorageError):
        node.run(appended.done)
    syncs = storage.count("sync")
    node.turn()
    with pytest.raises(errors.KafkaStorageError):
        node.append(b"b", acks=-1)
    assert storage.count("sync") == syncs
