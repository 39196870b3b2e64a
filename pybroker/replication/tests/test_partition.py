"""A replica's roles, its high watermark, its checks of epochs, and what it gives to readers."""

from __future__ import annotations

from dataclasses import replace

import pytest

from pybroker.log.appending import Origin
from pybroker.log.tests.helpers import marker
from pybroker.replication.fetch_partition import FetchPartition, Isolation, PartitionRead
from pybroker.replication.partition import Partition
from pybroker.replication.tests.harness import NODE, NOW, TP, Node, batch, values
from pyclient.protocol import errors

BIG = 1 << 20


def read(
    partition: Partition,
    offset: int,
    isolation: Isolation = Isolation.READ_UNCOMMITTED,
    *,
    epoch: int = -1,
    fetched: int = -1,
    must_lead: bool = True,
) -> PartitionRead:
    wanted = FetchPartition("t", bytes(16), 0, offset, BIG, epoch, fetched)
    return partition.read(wanted, BIG, isolation, min_one=True, must_lead=must_lead)


def three_replicas(node: Node, **options: object) -> Partition:
    """Returns a partition that broker 1 leads in epoch 5, with the replicas 1, 2 and 3."""
    return node.create(replicas=(1, 2, 3), epoch=5, **options)  # type: ignore[arg-type]


def test_alone_a_leader_commits_at_once(node: Node) -> None:
    partition = node.create()
    partition.append(batch(b"a", b"b"), -1, NOW)
    assert partition.high_watermark == 2
    assert partition.is_replicated(1)


def test_high_watermark_is_the_least_log_end_over_the_isr(node: Node) -> None:
    partition = three_replicas(node)
    partition.append(batch(b"a", b"b", b"c"), -1, NOW)
    assert partition.high_watermark == 0
    partition.on_follower_fetch(2, 3, 0, 0)
    assert partition.high_watermark == 0
    partition.on_follower_fetch(3, 2, 0, 0)
    assert partition.high_watermark == 2
    assert partition.is_replicated(1)
    assert not partition.is_replicated(2)


def test_high_watermark_never_falls_within_an_epoch(node: Node) -> None:
    partition = three_replicas(node)
    partition.append(batch(b"a", b"b", b"c"), -1, NOW)
    for replica in (2, 3):
        partition.on_follower_fetch(replica, 3, 0, 0)
    partition.on_follower_fetch(3, 1, 0, 0)
    assert partition.high_watermark == 3


def test_case_16_too_few_in_sync_refuses_before_the_append(node: Node) -> None:
    partition = three_replicas(node, isr=(1,), min_insync_replicas="2")
    with pytest.raises(errors.NotEnoughReplicas):
        partition.append(batch(), -1, NOW)
    assert partition.log.log_end_offset == 0
    partition.append(batch(), 1, NOW)
    assert partition.log.log_end_offset == 1


def test_case_16_high_watermark_stands_still_while_too_few_are_in_sync(node: Node) -> None:
    partition = three_replicas(node, isr=(1,), min_insync_replicas="2")
    partition.append(batch(), 1, NOW)
    assert partition.high_watermark == 0


def test_case_16_an_isr_that_shrinks_after_the_append_is_an_error(node: Node) -> None:
    partition = three_replicas(node, min_insync_replicas="2")
    partition.append(batch(), -1, NOW)
    for replica in (2, 3):
        partition.on_follower_fetch(replica, 1, 0, 0)
    three_replicas(node, isr=(1,), min_insync_replicas="2", partition_epoch=1)
    with pytest.raises(errors.NotEnoughReplicasAfterAppend):
        partition.is_replicated(0)


def test_min_insync_replicas_asks_for_no_more_than_there_are(node: Node) -> None:
    partition = node.create(min_insync_replicas="2")
    partition.append(batch(), -1, NOW)
    assert partition.is_replicated(0)


def test_case_17_epochs_of_requests_are_checked(node: Node) -> None:
    partition = three_replicas(node)
    partition.check_leader(5)
    partition.check_leader()
    with pytest.raises(errors.FencedLeaderEpoch):
        partition.check_leader(4)
    with pytest.raises(errors.UnknownLeaderEpoch):
        partition.check_leader(6)
    with pytest.raises(errors.FencedLeaderEpoch):
        read(partition, 0, epoch=4)


def test_case_17_epoch_is_checked_before_leadership(node: Node) -> None:
    partition = three_replicas(node, leader=2)
    with pytest.raises(errors.NotLeaderOrFollower):
        partition.check_leader(5)
    with pytest.raises(errors.FencedLeaderEpoch):
        partition.check_leader(4)
    with pytest.raises(errors.NotLeaderOrFollower):
        partition.append(batch(), 1, NOW)


def test_follower_serves_reads_where_it_may(node: Node) -> None:
    partition = node.create()
    partition.append(batch(b"a"), 1, NOW)
    node.create(leader=2, epoch=1)
    with pytest.raises(errors.NotLeaderOrFollower):
        read(partition, 0)
    assert values(read(partition, 0, must_lead=False).records) == [b"a"]


def test_case_26_older_image_changes_nothing(node: Node) -> None:
    partition = three_replicas(node, partition_epoch=3)
    known = node.metadata.image.topics["t"].partitions[0]
    old = replace(known, partition_epoch=2, leader=3)
    assert not partition.become(old, 0)
    assert partition.leader == NODE


def test_new_leader_writes_where_its_epoch_begins(node: Node) -> None:
    partition = node.create(epoch=3)
    partition.append(batch(b"a", b"b"), 1, NOW)
    node.create(epoch=4)
    assert partition.epoch_start_offset == 2
    assert partition.end_offset_for_epoch(3) == (3, 2)
    assert partition.end_offset_for_epoch(4) == (4, 2)


def test_reads_end_at_the_high_watermark(node: Node) -> None:
    partition = three_replicas(node)
    for value in (b"a", b"b", b"c"):
        partition.append(batch(value), 1, NOW)
    for replica in (2, 3):
        partition.on_follower_fetch(replica, 2, 0, 0)
    assert values(read(partition, 0).records) == [b"a", b"b"]
    assert values(read(partition, 0, Isolation.LOG_END).records) == [b"a", b"b", b"c"]


def test_between_high_watermark_and_log_end_a_read_is_empty(node: Node) -> None:
    partition = three_replicas(node)
    partition.append(batch(b"a", b"b"), 1, NOW)
    for offset in (0, 1, 2):
        found = read(partition, offset)
        assert (found.size, found.records, found.high_watermark) == (0, b"", 0)


@pytest.mark.parametrize("offset", [-1, 0, 3, 100])
def test_outside_the_log_a_read_is_out_of_range(node: Node, offset: int) -> None:
    partition = node.create()
    partition.append(batch(b"a", b"b"), 1, NOW)
    partition.delete_records(1)
    with pytest.raises(errors.OffsetOutOfRange):
        read(partition, offset)


@pytest.mark.parametrize("epoch", [-1, 5])
def test_a_follower_does_not_report_missing_records_as_out_of_range(node: Node, epoch: int) -> None:
    partition = node.create(replicas=(1, 2), leader=2, epoch=5)
    assert read(partition, 0, epoch=epoch, must_lead=False).size == 0
    with pytest.raises(errors.NotLeaderOrFollower):
        read(partition, 1, epoch=epoch, must_lead=False)
    with pytest.raises(errors.OffsetOutOfRange):
        read(partition, -1, epoch=epoch, must_lead=False)


def test_read_committed_ends_before_an_open_transaction(node: Node) -> None:
    partition = node.create()
    open_batch = batch(b"t", producer_id=7, producer_epoch=0, base_sequence=0, transactional=True)
    partition.append(batch(b"a"), 1, NOW)
    partition.append(open_batch, 1, NOW)
    found = read(partition, 0, Isolation.READ_COMMITTED)
    assert values(found.records) == [b"a"]
    assert (found.last_stable_offset, found.high_watermark, found.aborted) == (1, 2, [])
    assert read(partition, 0).aborted is None

    partition.append(bytes(marker(0)), 1, NOW, Origin.COORDINATOR)
    found = read(partition, 0, Isolation.READ_COMMITTED)
    assert [(each.producer_id, each.first_offset) for each in found.aborted or ()] == [(7, 1)]
    assert found.last_stable_offset == 3


def test_a_fetcher_with_another_history_gets_the_diverging_epoch(node: Node) -> None:
    partition = node.create(epoch=1)
    partition.append(batch(b"a", b"b"), 1, NOW)
    node.create(epoch=3)
    partition.append(batch(b"c"), 1, NOW)
    assert read(partition, 2, fetched=1).diverging is None
    assert read(partition, 3, fetched=1).diverging == (1, 2)
    assert read(partition, 3, fetched=2).diverging == (1, 2)
    assert read(partition, 3, fetched=3).diverging is None
    with pytest.raises(errors.OffsetOutOfRange):
        read(partition, 3, fetched=4)


def test_a_new_leader_returns_no_offsets_before_it_knows_them(node: Node) -> None:
    partition = three_replicas(node)
    partition.append(batch(b"a", b"b"), 1, NOW)
    node.create(replicas=(1, 2, 3), epoch=6)
    with pytest.raises(errors.OffsetNotAvailable):
        partition.check_offsets_are_known(Isolation.READ_UNCOMMITTED)
    for replica in (2, 3):
        partition.on_follower_fetch(replica, 2, 0, 0)
    partition.check_offsets_are_known(Isolation.READ_UNCOMMITTED)


def test_a_fetch_of_a_non_replica_is_refused(node: Node) -> None:
    with pytest.raises(errors.UnknownLeaderEpoch):
        three_replicas(node).on_follower_fetch(9, 0, 0, 0)


def test_case_15_follower_out_and_in_again(node: Node) -> None:
    partition = three_replicas(node)
    now = node.clock.monotonic_ms()
    partition.append(batch(b"a"), 1, NOW)
    partition.on_follower_fetch(2, 1, 0, now)
    shrink = partition.on_tick(now + 30_001)
    assert shrink is not None
    assert shrink.members == {1, 2}
    three_replicas(node, isr=(1, 2), partition_epoch=1)
    assert partition.high_watermark == 1
    expand = partition.on_follower_fetch(3, 1, 0, now + 30_002)
    assert expand is not None
    assert expand.members == {1, 2, 3}


def test_a_removed_replica_does_not_hold_back_the_high_watermark(
    node: Node,
) -> None:
    """The answer to a proposal ends a reassignment. The removed replica fetches once more before the new metadata."""
    partition = three_replicas(node, isr=(1, 2))
    partition.append(batch(b"a", b"b"), -1, NOW)
    partition.on_follower_fetch(2, 2, 0, 0)
    assert partition.decided(5, 1, (1, 2))
    assert partition.on_follower_fetch(3, 2, 0, 0) is not None
    partition.append(batch(b"c"), -1, NOW)
    node.create(replicas=(1, 2), isr=(1, 2), epoch=5, partition_epoch=1)
    partition.on_follower_fetch(2, 3, 0, 0)
    assert partition.high_watermark == 3


def test_a_smaller_isr_takes_effect_together_with_its_metadata(node: Node) -> None:
    """min.insync.replicas was raised before. A replica that leaves is still eligible, so no record may be committed
without it."""
    partition = node.create(replicas=(1, 2), epoch=5)
    partition.append(batch(b"a"), -1, NOW)
    assert partition.on_tick(node.clock.monotonic_ms() + 60_000) is not None
    assert not partition.decided(5, 1, (1,))
    assert partition.high_watermark == 0
    node.create(replicas=(1, 2), isr=(1,), epoch=5, partition_epoch=1, min_insync_replicas="2")
    assert partition.high_watermark == 0
    assert partition.is_stuck


def test_a_smaller_isr_commits_if_the_metadata_allow_it(node: Node) -> None:
    partition = node.create(replicas=(1, 2), epoch=5)
    partition.append(batch(b"a"), -1, NOW)
    assert partition.on_tick(node.clock.monotonic_ms() + 60_000) is not None
    assert not partition.decided(5, 1, (1,))
    node.create(replicas=(1, 2), isr=(1,), epoch=5, partition_epoch=1)
    assert partition.high_watermark == 1


def test_an_offline_partition_answers_with_an_error_and_stays_offline(node: Node) -> None:
    partition = node.create()
    partition.append(batch(b"a"), 1, NOW)
    partition.go_offline(errors.KafkaStorageError("gone bad"))
    for attempt in (
        lambda: partition.append(batch(), 1, NOW),
        lambda: read(partition, 0),
        lambda: read(partition, 0, must_lead=False),
        lambda: partition.is_replicated(0),
        lambda: partition.delete_records(0),
        partition.check_leader,
    ):
        with pytest.raises(errors.KafkaStorageError, match="gone bad"):
            attempt()
    node.create(epoch=1)
    assert not partition.is_leader


def test_earliest_offset_has_the_epoch_in_which_it_was_written(node: Node) -> None:
    partition = node.create(epoch=4)
    assert partition.earliest_offset() == (-1, 0, 4)
    assert repr(partition) == f"Partition({TP}, leader in epoch 4)"
