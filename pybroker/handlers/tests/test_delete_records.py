"""DeleteRecords: the log start, the files, and which records survive."""

from __future__ import annotations

import os
from typing import Any

import pytest

from pybroker.handlers import delete_records
from pybroker.handlers.tests.harness import Node
from pybroker.log.tests.helpers import contents
from pybroker.replication.tests.harness import TP
from pyclient.protocol import DeleteRecords, errors

Request = DeleteRecords.Request


def ask(node: Node, offset: int, *, topic: str = "t", timeout_ms: int = 1000) -> tuple[int, int]:
    """Sends a DeleteRecords; returns error code and low watermark."""
    wanted = Request.DeleteRecordsPartition(partition_index=0, offset=offset)
    topics = [Request.DeleteRecordsTopic(name=topic, partitions=[wanted])]
    request = Request(topics=topics, timeout_ms=timeout_ms)
    answer: Any = node.ask(delete_records, request, 2).topics[0].partitions[0]
    return answer.error_code, answer.low_watermark


def fill(node: Node, count: int = 10, **configs: str) -> None:
    node.create(**configs)
    for number in range(count):
        node.append(b"%d" % number)


def test_delete_records_removes_the_records_below_the_offset(node: Node) -> None:
    fill(node)
    assert ask(node, 4) == (0, 4)
    log = node.replicas.partition(TP).log
    assert log.log_start_offset == 4
    assert contents(log)[0] == (4, b"4")
    assert ask(node, 2) == (0, 4)


def test_offset_minus_one_deletes_the_records_up_to_the_high_watermark(node: Node) -> None:
    fill(node)
    assert ask(node, -1) == (0, 10)
    assert node.append(b"next") == 10


def test_deleted_records_stay_deleted_after_kill_9(node: Node) -> None:
    fill(node)
    ask(node, 7)
    node.replicas.close()
    node.start()
    assert node.replicas.partition(TP).log.log_start_offset == 7


def test_delete_records_removes_the_segments_below_the_offset_from_the_disk(node: Node) -> None:
    fill(node, 100, segment_bytes="1024")
    folder = node.replicas.partition(TP).log.folder
    before = sorted(name for name in os.listdir(folder) if name.endswith(".log"))
    ask(node, 50)
    node.pools.removals.submit(lambda: None).result()
    after = sorted(name for name in os.listdir(folder) if name.endswith(".log"))
    assert len(after) < len(before)
    assert int(after[0][:20]) <= 50
    assert contents(node.replicas.partition(TP).log)[0] == (50, b"50")


@pytest.mark.parametrize("offset", [11, -2])
def test_delete_records_refuses_an_offset_outside_the_log(node: Node, offset: int) -> None:
    fill(node)
    assert ask(node, offset) == (errors.OffsetOutOfRange.code, -1)


def test_delete_records_refuses_a_topic_that_is_only_compacted(node: Node) -> None:
    fill(node, cleanup_policy="compact")
    assert ask(node, 4) == (errors.PolicyViolation.code, -1)
    fill(node, cleanup_policy="compact,delete")
    assert ask(node, 4) == (0, 4)


def test_delete_records_refuses_an_internal_topic(node: Node) -> None:
    node.create("__consumer_offsets")
    assert ask(node, 0, topic="__consumer_offsets")[0] == errors.InvalidTopicException.code


def test_delete_records_refuses_an_unknown_partition(node: Node) -> None:
    assert ask(node, 0) == (errors.UnknownTopicOrPartition.code, -1)


def test_delete_records_waits_for_a_late_follower_until_the_timeout(node: Node) -> None:
    partition = node.create(replicas=(1, 2))
    node.append(b"a")
    partition.on_follower_fetch(2, 1, 0, 0)
    assert ask(node, 1, timeout_ms=1)[0] == errors.RequestTimedOut.code
    assert len(node.replicas.purgatory) == 0
    partition.on_follower_fetch(2, 1, 1, 0)
    assert ask(node, 1) == (0, 1)
