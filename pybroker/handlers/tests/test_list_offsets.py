"""ListOffsets in all its forms."""

from __future__ import annotations

from typing import Any

import pytest

from pybroker.handlers import list_offsets
from pybroker.handlers.tests.harness import Node
from pybroker.replication.tests.harness import NOW, TP, batch
from pyclient.protocol import ListOffsets, errors

Request = ListOffsets.Request
LATEST, EARLIEST, MAX_TIMESTAMP, LOCAL, TIERED, PENDING = -1, -2, -3, -4, -5, -6


def ask(
    node: Node,
    timestamp: int,
    version: int = 11,
    *,
    epoch: int = -1,
    isolation: int = 0,
    replica: int = -1,
    times: int = 1,
) -> Any:
    """Sends ListOffsets; returns the answer for partition 0 of topic t."""
    wanted = Request.ListOffsetsPartition(partition_index=0, timestamp=timestamp, current_leader_epoch=epoch)
    topic = Request.ListOffsetsTopic(name="t", partitions=[wanted] * times)
    request = Request(replica_id=replica, isolation_level=isolation, topics=[topic])
    return node.ask(list_offsets, request, version).topics[0].partitions[0]


def found(answer: Any) -> tuple[int, int, int]:
    assert answer.error_code == 0
    return answer.offset, answer.timestamp, answer.leader_epoch


def fill(node: Node) -> None:
    """Appends records dated 1000, 1001, 1002 and 3000, 3001 and 2000, in epoch 4."""
    node.create(epoch=4)
    for timestamp, count in ((1000, 3), (3000, 2), (2000, 1)):
        node.replicas.append(TP, batch(*[b"v"] * count, timestamp=timestamp), 1, NOW)


@pytest.mark.parametrize("version", range(1, 12))
def test_every_version_of_list_offsets_finds_the_earliest_and_the_latest_offset(node: Node, version: int) -> None:
    fill(node)
    assert found(ask(node, LATEST, version)) == (6, -1, 4)
    assert found(ask(node, EARLIEST, version)) == (0, -1, 4)


@pytest.mark.parametrize(
    ("timestamp", "expected"),
    [
        (0, (0, 1000, 4)),
        (1001, (1, 1001, 4)),
        (1003, (3, 3000, 4)),
        (3001, (4, 3001, 4)),
        (3002, (-1, -1, -1)),
    ],
)
def test_a_timestamp_finds_the_first_record_that_is_at_least_as_new(
    node: Node, timestamp: int, expected: tuple[int, int, int]
) -> None:
    fill(node)
    assert found(ask(node, timestamp)) == expected


def test_max_timestamp_finds_the_record_with_the_greatest_timestamp(node: Node) -> None:
    fill(node)
    assert found(ask(node, MAX_TIMESTAMP)) == (4, 3001, 4)


def test_an_empty_log_begins_and_ends_at_zero_and_has_no_timestamp(node: Node) -> None:
    node.create()
    assert found(ask(node, MAX_TIMESTAMP)) == (-1, -1, -1)
    assert found(ask(node, 0)) == (-1, -1, -1)
    assert found(ask(node, LATEST))[0] == 0
    assert found(ask(node, EARLIEST))[0] == 0


def test_every_record_is_local_and_none_is_in_tiered_storage(node: Node) -> None:
    fill(node)
    assert found(ask(node, LOCAL)) == (0, -1, 4)
    assert found(ask(node, TIERED)) == (-1, -1, -1)
    assert found(ask(node, PENDING)) == (-1, -1, -1)


@pytest.mark.parametrize(
    ("timestamp", "version"),
    [(MAX_TIMESTAMP, 6), (LOCAL, 7), (TIERED, 8), (PENDING, 10), (-7, 11), (-(1 << 63), 11)],
)
def test_list_offsets_refuses_a_special_timestamp_that_its_version_does_not_have(
    node: Node, timestamp: int, version: int
) -> None:
    fill(node)
    assert ask(node, timestamp, version).error_code == errors.UnsupportedVersion.code


def test_the_latest_offset_for_read_committed_is_the_last_stable_offset(node: Node) -> None:
    fill(node)
    records = batch(producer_id=7, producer_epoch=0, base_sequence=0, transactional=True)
    node.replicas.append(TP, records, 1, NOW)
    assert found(ask(node, LATEST, isolation=1))[0] == 6
    assert found(ask(node, LATEST, isolation=0))[0] == 7
    assert found(ask(node, NOW, isolation=1))[0] == -1
    assert found(ask(node, NOW, isolation=0))[0] == 6


def test_a_transaction_that_is_open_when_a_leader_starts_hides_no_committed_records(node: Node) -> None:
    fill(node)
    records = batch(producer_id=7, producer_epoch=0, base_sequence=0, transactional=True)
    node.replicas.append(TP, records, 1, NOW)
    node.create(epoch=5)
    assert found(ask(node, LATEST, isolation=1))[0] == 6


def test_only_replicas_find_records_beyond_the_high_watermark(node: Node) -> None:
    node.create(replicas=(1, 2), epoch=1)
    node.append(b"a")
    assert found(ask(node, LATEST))[0] == 0
    assert found(ask(node, 0))[0] == -1
    assert found(ask(node, LATEST, replica=2))[0] == 1


def test_list_offsets_does_not_find_deleted_records(node: Node) -> None:
    fill(node)
    node.replicas.partition(TP).delete_records(2)
    assert found(ask(node, EARLIEST))[0] == 2
    assert found(ask(node, 0)) == (2, 1002, 4)


def test_list_offsets_refuses_an_old_and_an_unknown_leader_epoch(node: Node) -> None:
    fill(node)
    assert found(ask(node, LATEST, epoch=4))[0] == 6
    assert ask(node, LATEST, epoch=3).error_code == errors.FencedLeaderEpoch.code
    assert ask(node, LATEST, epoch=5).error_code == errors.UnknownLeaderEpoch.code


def test_a_new_leader_that_does_not_know_the_high_watermark_yet_refuses_list_offsets(node: Node) -> None:
    node.create(replicas=(1, 2), epoch=1)
    node.append(b"a")
    node.create(replicas=(1, 2), epoch=2)
    assert ask(node, LATEST, 5).error_code == errors.OffsetNotAvailable.code
    assert ask(node, LATEST, 4).error_code == errors.LeaderNotAvailable.code


def test_list_offsets_refuses_a_partition_that_is_named_twice(node: Node) -> None:
    fill(node)
    assert ask(node, LATEST, times=2).error_code == errors.InvalidRequest.code


def test_list_offsets_refuses_an_unknown_partition_and_one_that_another_broker_leads(node: Node) -> None:
    assert ask(node, LATEST).error_code == errors.UnknownTopicOrPartition.code
    node.create(leader=2, replicas=(1, 2), epoch=1)
    assert ask(node, LATEST).error_code == errors.NotLeaderOrFollower.code
    assert found(ask(node, LATEST, replica=-2))[0] == 0
