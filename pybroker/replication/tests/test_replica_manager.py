"""Metadata makes, moves and deletes partitions; disks fail; acks wait for the disk."""

from __future__ import annotations

import asyncio
import os
import shutil
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from proofs.faulty_storage import FaultyStorage
from pybroker.cluster.metadata.image import (
    MISSING_CONFIGS,
    UNREADABLE_CONFIGS,
    Configs,
    MetadataDelta,
    PartitionImage,
    TopicImage,
)
from pybroker.log.dirs.log_dir import LogDir
from pybroker.log.files.storage import Storage
from pybroker.log.moving.move import Move
from pybroker.log.producers.marker import EndTxnMarker
from pybroker.log.segment.segment_files import SegmentFiles
from pybroker.log.segment.segments import REMOVED_PER_TURN
from pybroker.log.tests.helpers import contents
from pybroker.replication.tests.harness import NOW, TP, Node, batch, topic_id
from pybroker.topic_partition import TopicPartition
from pyclient.protocol import errors

MakeNode = Callable[..., Node]


def folders(node: Node) -> list[str]:
    """Folders of logs; those that are being removed have lost their names."""
    names = sorted(name for path in node.paths for name in os.listdir(path) if os.path.isdir(f"{path}/{name}"))
    return [name for name in names if not name.endswith("-delete")]


def test_topic_gets_its_logs_and_leaders(node: Node) -> None:
    node.create(partitions=3, epoch=4)
    assert folders(node) == ["t-0", "t-1", "t-2"]
    assert node.led == [(TopicPartition("t", n), 4) for n in range(3)]
    assert node.replicas.by_id(topic_id("t"), 2) is node.replicas.partition(TopicPartition("t", 2))


def test_deletion_is_durable_when_apply_returns(node: Node) -> None:
    partition = node.create(partitions=2)
    node.append(b"a")
    node.delete()
    assert folders(node) == []
    assert list(node.replicas.partitions) == []
    assert node.led[2:] == [(TopicPartition("t", n), None) for n in range(2)]
    with pytest.raises(errors.UnknownTopicOrPartition):
        partition.append(batch(), 1, NOW)
    with pytest.raises(errors.UnknownTopicOrPartition):
        node.replicas.partition(TP)
    with pytest.raises(errors.UnknownTopicId):
        node.replicas.by_id(topic_id("t"), 0)


def test_topic_of_the_same_name_is_another_topic(node: Node) -> None:
    node.create()
    node.append(b"a")
    old = node.metadata.image.topics["t"]
    node.create("u")
    new = old._replace(id=topic_id("t", 1))
    node.publish(MetadataDelta(changed={"t": new}, deleted={"t": old}))
    partition = node.replicas.partition(TP)
    assert partition.log.log_end_offset == 0
    assert partition.topic_id == topic_id("t", 1)
    with pytest.raises(errors.UnknownTopicId):
        node.replicas.by_id(topic_id("t"), 0)


def test_checkpoint_files_forget_a_deleted_topic_on_a_thread_before_its_name_is_taken(
    node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    node.create()
    node.delete()
    threads: list[int] = []
    write = LogDir.write_checkpoints

    def noted(self: LogDir) -> None:
        threads.append(threading.get_ident())
        write(self)

    monkeypatch.setattr(LogDir, "write_checkpoints", noted)
    node.create()
    assert len(threads) == 1
    assert threading.get_ident() not in threads


def test_deletion_that_a_crash_interrupted_is_finished_at_the_start(node: Node) -> None:
    node.create(partitions=2)
    node.create("u")
    topic = node.metadata.image.topics["t"]
    node.stop()
    node.metadata.image = node.metadata.image.apply(MetadataDelta(deleted={"t": topic}))
    node.start(deleted={"an id": TopicImage("t", topic.id, ())})
    assert folders(node) == ["u-0"]
    assert "t" not in node.metadata.image.topics


def test_what_other_brokers_have_is_not_unknown(node: Node) -> None:
    node.create("elsewhere", replicas=(2, 3), leader=2)
    for find in (
        lambda: node.replicas.find("elsewhere", 0),
        lambda: node.replicas.by_id(topic_id("elsewhere"), 0),
    ):
        with pytest.raises(errors.NotLeaderOrFollower):
            find()
    with pytest.raises(errors.UnknownTopicOrPartition):
        node.replicas.by_id(topic_id("elsewhere"), 1)
    assert folders(node) == []


def test_replica_that_is_assigned_elsewhere_leaves(node: Node) -> None:
    node.create()
    node.create(replicas=(2,), leader=2, epoch=1)
    assert folders(node) == []
    with pytest.raises(errors.NotLeaderOrFollower):
        node.replicas.partition(TP)


class SlowToRemove(Storage):
    """A disk on which nothing is unlinked until a test says so."""

    def __init__(self) -> None:
        self.go_on = threading.Event()

    def unlink(self, path: str) -> None:
        if "-delete/" in path:
            assert self.go_on.wait(60)
        super().unlink(path)


def test_metadata_go_on_while_the_files_of_a_deleted_topic_are_removed(make_node: MakeNode) -> None:
    storage = SlowToRemove()
    node = make_node(storage=storage)
    node.create()
    node.append(b"a")
    node.delete()
    again = node.create(generation=1)
    assert again.log.log_end_offset == 0
    assert [name for name in os.listdir(node.paths[0]) if name.endswith("-delete")]
    storage.go_on.set()
    node.stop()
    node.start()
    assert node.replicas.partition(TP).log.topic_id == topic_id("t", 1)


class SlowToCopy(Storage):
    """A disk on which moves do not get on until a test says so."""

    def __init__(self) -> None:
        self.go_on = threading.Event()

    def make_folder(self, path: str) -> None:
        if path.endswith("-future"):
            assert self.go_on.wait(60)
        super().make_folder(path)


def test_neither_acks_nor_metadata_wait_for_moves(make_node: MakeNode) -> None:
    storage = SlowToCopy()
    node = make_node(dirs=2, storage=storage)
    node.create("moving", partitions=12)
    node.create(flush_acks="true")
    for index in range(12):
        tp = TopicPartition("moving", index)
        source = node.replicas.partition(tp).log.log_dir.path
        node.replicas.moves.start(tp, next(path for path in node.paths if path != source))
    node.turn()
    try:
        appended = node.replicas.append(TP, batch(b"a"), -1, NOW)
        node.run(in_time(appended.done))
        node.create("u")
        deletion = MetadataDelta(deleted={"u": node.metadata.image.topics["u"]})
        node.run(in_time(node.metadata.publish(deletion)))
    finally:
        storage.go_on.set()
    node.run(in_time(asyncio.wait(list(node.replicas.moves._tasks.values()))))


async def in_time(work: Any) -> None:
    """Long before what a test holds up would go on."""
    await asyncio.wait_for(work, 40)


def test_leadership_is_told_when_it_changes_and_only_then(node: Node) -> None:
    node.create(epoch=1)
    node.create(epoch=1, retention_ms="1")
    node.create(epoch=2)
    node.create(leader=2, replicas=(1, 2), epoch=3)
    node.create(leader=2, replicas=(1, 2), epoch=4)
    node.create(replicas=(1, 2), epoch=5)
    assert node.led == [(TP, 1), (TP, 2), (TP, None), (TP, 5)]


def test_configuration_reaches_the_log_at_once(node: Node) -> None:
    partition = node.create()
    node.create(max_message_bytes="100")
    with pytest.raises(errors.MessageTooLarge):
        partition.append(batch(bytes(100)), 1, NOW)
    node.create()
    partition.append(batch(bytes(100)), 1, NOW)


def test_broker_wide_defaults_reach_the_log_at_once(node: Node) -> None:
    partition = node.create()
    node.config.override({"message.max.bytes": "100"}, {})
    with pytest.raises(errors.MessageTooLarge):
        partition.append(batch(bytes(100)), 1, NOW)


def test_a_lower_broker_wide_min_insync_replicas_frees_what_waits(node: Node) -> None:
    node.config.override({"min.insync.replicas": "2"}, {})
    partition = node.create(replicas=(1, 2), isr=(1,))
    node.append(b"a")
    assert partition.high_watermark == 0
    node.config.override({"min.insync.replicas": "1"}, {})
    assert partition.high_watermark == 1


@pytest.mark.parametrize("unknown", [UNREADABLE_CONFIGS, MISSING_CONFIGS])
def test_what_a_topic_asks_of_its_replicas_is_not_known_so_all_of_them_are_needed(node: Node, unknown: Configs) -> None:
    """A broker that began while a topic's configuration was garbled acknowledged what only itself had."""
    partition = node.create(replicas=(1, 2, 3), isr=(1, 2), min_insync_replicas="2")
    known = node.metadata.image.topics["t"]
    node.publish(MetadataDelta(changed={"t": known._replace(configs=unknown)}))
    with pytest.raises(errors.NotEnoughReplicas):
        partition.append(batch(), -1, NOW)
    node.publish(MetadataDelta(changed={"t": known}))
    partition.append(batch(), -1, NOW)


def test_configuration_of_another_version_does_not_stop_the_broker(node: Node) -> None:
    node.create()
    topic = node.metadata.image.topics["t"]._replace(configs={"key.of.tomorrow": "1"})
    node.publish(MetadataDelta(changed={"t": topic}))
    assert node.append(b"a") == 0


def test_restart_keeps_records_epoch_and_high_watermark(node: Node) -> None:
    node.create(epoch=3)
    node.append(b"a", b"b")
    node.stop()
    node.start()
    partition = node.replicas.partition(TP)
    assert contents(partition.log) == [(0, b"a"), (1, b"b")]
    assert (partition.high_watermark, partition.leader_epoch) == (2, 3)
    assert partition.epoch_start_offset == 0


def test_follower_keeps_the_high_watermark_of_the_checkpoint(node: Node) -> None:
    node.create(replicas=(1, 2), isr=(1, 2), epoch=1)
    for _ in range(3):
        node.append(b"a")
    partition = node.replicas.partition(TP)
    partition.on_follower_fetch(2, 2, 0, 0)
    assert partition.high_watermark == 2
    node.logs.checkpoint_high_watermarks()
    node.create(replicas=(1, 2), isr=(1, 2), leader=2, epoch=2)
    node.stop()
    node.start()
    assert node.replicas.partition(TP).high_watermark == 2


def test_case_31_resent_batch_gets_its_first_offset_and_is_not_appended(node: Node) -> None:
    node.create()
    sent = [batch(b"v", producer_id=7, producer_epoch=0, base_sequence=sequence) for sequence in range(7)]
    for each in sent:
        node.replicas.append(TP, each, -1, NOW)
    for sequence in range(2, 7):
        appended = node.replicas.append(TP, sent[sequence], -1, NOW)
        assert (appended.info.first_offset, appended.info.duplicate) == (sequence, True)
        assert appended.done is None
    with pytest.raises(errors.DuplicateSequenceNumber):
        node.replicas.append(TP, sent[1], -1, NOW)
    assert node.replicas.partition(TP).log.log_end_offset == 7


# Disks


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


def test_case_11_partition_of_a_dir_that_is_lost_is_not_created_again(make_node: MakeNode, tmp_path: Path) -> None:
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


# Log dirs


def test_replica_moves_to_another_dir_while_in_use(make_node: MakeNode) -> None:
    node = make_node(dirs=2)
    partition = node.create()
    for _ in range(10):
        node.append(b"a")
    source = partition.log.log_dir.path
    target = next(path for path in node.paths if path != source)
    node.replicas.moves.start(TP, target)
    node.append(b"b")

    async def moved() -> None:
        await node.replicas.moves._tasks[TP]

    node.run(moved())
    node.append(b"c")
    assert partition.log.log_dir.path == target
    assert os.path.isdir(f"{target}/t-0")
    assert not os.path.isdir(f"{source}/t-0")
    assert contents(partition.log)[-2:] == [(10, b"b"), (11, b"c")]
    node.stop()
    node.start()
    assert node.replicas.partition(TP).log.log_end_offset == 12


def test_new_replica_is_made_where_somebody_has_asked(make_node: MakeNode) -> None:
    node = make_node(dirs=3)
    with pytest.raises(errors.ReplicaNotAvailable):
        node.replicas.moves.start(TP, node.paths[2])
    assert node.create().log.log_dir.path == node.paths[2]


def test_deleted_topic_no_longer_moves(make_node: MakeNode) -> None:
    node = make_node(dirs=2)
    partition = node.create()
    target = next(path for path in node.paths if path != partition.log.log_dir.path)
    node.replicas.moves.start(TP, target)
    moving = node.replicas.moves._tasks[TP]
    node.delete()
    node.run(moving)
    node.pools.removals.submit(lambda: None).result()  # and with it all that was removed before
    assert folders(node) == []
    assert not node.logs.offline_dirs


@pytest.mark.parametrize("error", [errors.CorruptMessage("noise"), ValueError("a fault of ours")], ids=repr)
def test_a_move_that_fails_in_whatever_way_is_given_up(
    make_node: MakeNode, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    """Else nobody could move or compact the log before the next start."""

    def copy(self: Move) -> None:
        raise error

    node = make_node(dirs=2)
    partition = node.create()
    target = next(path for path in node.paths if path != partition.log.log_dir.path)
    with monkeypatch.context() as patch:
        patch.setattr(Move, "copy", copy)
        node.replicas.moves.start(TP, target)
        node.run(asyncio.wait([node.replicas.moves._tasks[TP]]))
    assert node.logs.moving_to(TP) is None
    node.replicas.moves.start(TP, target)
    node.run(asyncio.wait([node.replicas.moves._tasks[TP]]))
    assert partition.log.log_dir.path == target


def test_leadership_is_told_when_the_metadata_that_gives_it_is_published(node: Node) -> None:
    seen: list[bool] = []
    node.replicas.on_leadership(lambda tp, epoch: seen.append(node.metadata.image.partition("t", 0) is not None))
    node.create()
    node.create("u")
    assert seen == [True, True]


def test_leadership_that_ended_before_its_metadata_was_published_never_began(node: Node) -> None:
    topic = TopicImage("t", topic_id("t"), (PartitionImage(0, 1, 1, 0, (1,), (1,)),))
    gone = MetadataDelta(deleted={"t": topic})
    image = node.metadata.image.apply(MetadataDelta(changed={"t": topic}))
    node.run(node.replicas.apply(MetadataDelta(changed={"t": topic}), image))
    assert node.replicas.partition(TP).is_leader
    node.run(node.replicas.apply(gone, image.apply(gone)))
    node.replicas.announce()
    assert node.led == [(TP, None)]


# Markers


def open_transaction(node: Node, *, epoch: int = 0) -> None:
    records = batch(producer_id=7, producer_epoch=epoch, base_sequence=0, transactional=True)
    node.replicas.append(TP, records, 1, NOW)


def test_marker_ends_a_transaction_and_takes_an_offset(node: Node) -> None:
    partition = node.create()
    open_transaction(node)
    assert partition.log.last_stable_offset == 0
    appended = node.replicas.append_marker(TP, EndTxnMarker(7, 1, 3, True, 2), NOW)
    assert (appended.info.first_offset, appended.done) == (1, None)
    assert partition.log.last_stable_offset == 2
    entry = partition.log.producers.get(7)
    assert entry is not None
    assert (entry.epoch, entry.coordinator_epoch, entry.last_sequence) == (1, 3, -1)


def test_case_38_marker_with_the_epoch_of_an_open_transaction_is_late_from_version_2_on(node: Node) -> None:
    node.create()
    open_transaction(node, epoch=4)
    late = EndTxnMarker(7, 4, 0, True, 2)
    with pytest.raises(errors.InvalidProducerEpoch):
        node.replicas.append_marker(TP, late, NOW)
    node.replicas.append_marker(TP, late._replace(transaction_version=1), NOW)


def test_marker_that_is_sent_again_is_written_again(node: Node) -> None:
    node.create()
    open_transaction(node)
    marker = EndTxnMarker(7, 1, 0, False, 2)
    for offset in (1, 2):
        assert node.replicas.append_marker(TP, marker, NOW).info.first_offset == offset


def test_marker_with_the_last_epoch_of_all_may_end_a_transaction_of_its_own_epoch(node: Node) -> None:
    node.create()
    open_transaction(node, epoch=32767)
    assert node.replicas.append_marker(TP, EndTxnMarker(7, 32767, 0, True, 2), NOW).info.first_offset == 1


def test_case_36_marker_of_a_replaced_coordinator_is_fenced(node: Node) -> None:
    node.create()
    open_transaction(node)
    node.replicas.append_marker(TP, EndTxnMarker(7, 1, 5, True, 2), NOW)
    with pytest.raises(errors.TransactionCoordinatorFenced):
        node.replicas.append_marker(TP, EndTxnMarker(7, 2, 4, True, 2), NOW)


def test_marker_has_the_promise_of_all_replicas_in_sync(node: Node) -> None:
    partition = node.create(replicas=(1, 2))
    open_transaction(node)
    appended = node.replicas.append_marker(TP, EndTxnMarker(7, 1, 0, True, 2), NOW)
    assert appended.done is not None
    partition.on_follower_fetch(2, 2, 0, 0)
    node.replicas.purgatory.wake(partition)
    assert appended.done.done()
    assert partition.log.last_stable_offset == 2


@pytest.mark.parametrize("is_deleted", [False, True])
def test_deleted_records_take_many_segments_along_in_several_turns(
    node: Node, monkeypatch: pytest.MonkeyPatch, is_deleted: bool
) -> None:
    partition = node.create()
    log = partition.log
    for _ in range(2 * REMOVED_PER_TURN + 1):
        node.append(b"a")
        log.roll(NOW)
    counts = [0]
    delete = SegmentFiles.delete

    def counted(files: SegmentFiles) -> list[str]:
        counts[-1] += 1
        return delete(files)

    async def sleep(delay: float) -> None:
        counts.append(0)
        await turn(delay)
        if is_deleted:
            node.logs.take_out([TP])

    turn = asyncio.sleep
    monkeypatch.setattr(SegmentFiles, "delete", counted)
    monkeypatch.setattr(asyncio, "sleep", sleep)
    assert node.run(node.replicas.delete_records(partition, -1, 1000)) == log.log_end_offset
    assert counts == ([REMOVED_PER_TURN, 0] if is_deleted else [REMOVED_PER_TURN, REMOVED_PER_TURN, 1])
