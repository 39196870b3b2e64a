"""Metadata makes, moves and deletes partitions; disks fail; acks wait for the disk."""

from __future__ import annotations

import asyncio
import os
import threading

import pytest

from cy.batch.compression import Codec
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
from pybroker.log.producers.marker import EndTxnMarker
from pybroker.log.segment.segment_files import SegmentFiles
from pybroker.log.segment.segments import REMOVED_PER_TURN
from pybroker.log.tests.helpers import contents
from pybroker.replication.tests.harness import NOW, TP, MakeNode, Node, batch, folders, topic_id
from pybroker.topic_partition import TopicPartition
from pyclient.protocol import errors


def test_topic_gets_its_logs_and_leaders(node: Node) -> None:
    node.create(partitions=3, epoch=4)
    assert folders(node) == ["t-0", "t-1", "t-2"]
    assert node.led == [(TopicPartition("t", n), 4) for n in range(3)]
    assert node.replicas.by_id(topic_id("t"), 2) is node.replicas.partition(TopicPartition("t", 2))


def test_deleted_topic_has_no_partitions_or_logs(node: Node) -> None:
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


def test_partitions_of_other_brokers_are_known(node: Node) -> None:
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


def test_a_replica_assigned_to_another_broker_is_deleted(node: Node) -> None:
    node.create()
    node.create(replicas=(2,), leader=2, epoch=1)
    assert folders(node) == []
    with pytest.raises(errors.NotLeaderOrFollower):
        node.replicas.partition(TP)


class SlowToRemove(Storage):
    """A disk on which files are removed only on command."""

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


def test_leadership_is_announced_only_when_it_changes(node: Node) -> None:
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


def test_the_broker_wide_limit_of_an_unpacked_record_reaches_the_log_at_once(node: Node) -> None:
    partition = node.create()
    partition.append(batch(bytes(4096), codec=Codec.GZIP), 1, NOW)
    node.config.override({"max.decompressed.message.bytes": "512"}, {})
    with pytest.raises(errors.InvalidRecord):
        partition.append(batch(bytes(4096), codec=Codec.GZIP), 1, NOW)


def test_a_lower_broker_wide_min_insync_replicas_completes_waiting_requests(node: Node) -> None:
    node.config.override({"min.insync.replicas": "2"}, {})
    partition = node.create(replicas=(1, 2), isr=(1,))
    node.append(b"a")
    assert partition.high_watermark == 0
    node.config.override({"min.insync.replicas": "1"}, {})
    assert partition.high_watermark == 1


@pytest.mark.parametrize("unknown", [UNREADABLE_CONFIGS, MISSING_CONFIGS])
def test_an_unreadable_min_insync_replicas_requires_all_replicas(node: Node, unknown: Configs) -> None:
    """The defect: a broker that started with an unreadable configuration of a topic acknowledged records that only it
had."""
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


def test_leadership_is_announced_when_its_metadata_are_published(node: Node) -> None:
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


def test_a_marker_is_acknowledged_by_all_in_sync_replicas(node: Node) -> None:
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
