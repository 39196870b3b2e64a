"""A request that arrives before the logs of a new topic exist gets the same answer as a later one."""

from __future__ import annotations

from typing import Any

import pytest

from pybroker.handlers import (
    alter_replica_log_dirs,
    delete_records,
    describe_producers,
    fetch,
    list_offsets,
    offset_for_leader_epoch,
    produce,
)
from pybroker.handlers.common.turns import Turn
from pybroker.handlers.tests import test_fetch, test_log_dirs
from pybroker.handlers.tests.harness import Node
from pybroker.replication.tests.harness import batch, most_logs_at_once
from pyclient.protocol import (
    AlterReplicaLogDirs,
    DeleteRecords,
    DescribeLogDirs,
    DescribeProducers,
    ListOffsets,
    OffsetForLeaderEpoch,
    Produce,
)

MANY = 50
LAST = MANY - 1


@pytest.fixture
def fresh(node: Node) -> Node:
    """Returns the broker with a topic without logs; at least the last partition has none."""
    node.create(partitions=MANY, makes_logs=False)
    assert not has_log(node)
    return node


def has_log(node: Node) -> bool:
    return any(log.topic_partition.partition == LAST for log in node.logs)


def producing() -> Any:
    data = Produce.Request.PartitionProduceData(index=LAST, records=bytearray(batch()))
    return Produce.Request(acks=1, topic_data=[Produce.Request.TopicProduceData(name="t", partition_data=[data])])


def offsets() -> Any:
    wanted = ListOffsets.Request.ListOffsetsPartition(partition_index=LAST, timestamp=-1)
    return ListOffsets.Request(topics=[ListOffsets.Request.ListOffsetsTopic(name="t", partitions=[wanted])])


def epochs() -> Any:
    request = OffsetForLeaderEpoch.Request
    wanted = request.OffsetForLeaderPartition(partition=LAST, current_leader_epoch=0, leader_epoch=0)
    return request(topics=[request.OffsetForLeaderTopic(topic="t", partitions=[wanted])])


def producers() -> Any:
    return DescribeProducers.Request(
        topics=[DescribeProducers.Request.TopicRequest(name="t", partition_indexes=[LAST])]
    )


def deleting() -> Any:
    request = DeleteRecords.Request
    wanted = request.DeleteRecordsPartition(partition_index=LAST, offset=0)
    return request(topics=[request.DeleteRecordsTopic(name="t", partitions=[wanted])], timeout_ms=1000)


@pytest.mark.parametrize(
    ("handler", "request_", "version", "field", "value"),
    [
        (produce, producing(), 9, "responses.0.partition_responses.0.base_offset", 0),
        (list_offsets, offsets(), 7, "topics.0.partitions.0.offset", 0),
        (offset_for_leader_epoch, epochs(), 4, "topics.0.partitions.0.end_offset", 0),
        (describe_producers, producers(), 0, "topics.0.partitions.0.active_producers", []),
        (delete_records, deleting(), 2, "topics.0.partitions.0.low_watermark", 0),
    ],
)
def test_a_request_to_a_new_partition_finds_an_empty_log(
    fresh: Node, handler: Any, request_: Any, version: int, field: str, value: object
) -> None:
    found = fresh.ask(handler, request_, version)
    for name in field.split("."):
        found = found[int(name)] if name.isdigit() else getattr(found, name)
    assert found == value
    assert has_log(fresh)


@pytest.mark.parametrize("version", [12, 13])
def test_a_fetch_of_new_partitions_reads_empty_logs(fresh: Node, version: int) -> None:
    asked = test_fetch.request(*[0] * MANY, max_wait_ms=0)
    answers = [each for topic in fresh.ask(fetch, asked, version).responses for each in topic.partitions]
    assert [(each.partition_index, each.error_code, each.high_watermark) for each in answers] == [
        (n, 0, 0) for n in range(MANY)
    ]
    assert len(fresh.logs) == MANY
    assert fresh.connection.held == 0


def test_a_fetch_of_many_new_partitions_creates_one_log_per_turn(fresh: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Turn, "is_over", lambda turn: True)
    fresh.replicas.partitions.new.pause()
    asked = test_fetch.request(*[0] * MANY, max_wait_ms=0)
    assert most_logs_at_once(fresh, lambda: fresh.ask(fetch, asked, 12)) == 1
    assert len(fresh.logs) == MANY


def test_a_transactional_produce_to_new_partitions_creates_one_log_per_turn(
    fresh: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Turn, "is_over", lambda turn: True)
    fresh.replicas.partitions.new.pause()
    rows = [Produce.Request.PartitionProduceData(index=n, records=bytearray(batch())) for n in range(MANY)]
    topic = Produce.Request.TopicProduceData(name="t", partition_data=rows)
    request = Produce.Request(acks=1, transactional_id="x", topic_data=[topic])
    assert most_logs_at_once(fresh, lambda: fresh.ask(produce, request, 9)) == 1
    assert len(fresh.logs) == MANY


def test_a_fetch_of_a_new_partition_waits_for_its_first_record(fresh: Node) -> None:
    asked = test_fetch.request(0, max_wait_ms=30_000)
    waiting = fresh.loop.create_task(fetch.handle(asked, fresh.call(12)))
    fresh.until(lambda: not fresh.replicas.partitions.new)
    assert not waiting.done()
    fresh.append(b"a")
    [answer] = fresh.run(waiting).responses[0].partitions
    assert answer.high_watermark == 1


def test_describe_log_dirs_returns_replicas_whose_logs_do_not_exist_yet(fresh: Node) -> None:
    [found] = test_log_dirs.describe(fresh).values()
    assert {key: each.partition_size for key, each in found.items()} == {("t", n): 0 for n in range(MANY)}


def test_describe_log_dirs_returns_a_named_replica_whose_log_does_not_exist_yet(fresh: Node) -> None:
    topic = DescribeLogDirs.Request.DescribableLogDirTopic(topic="t", partitions=[LAST, MANY])
    [found] = test_log_dirs.describe(fresh, [topic]).values()
    assert list(found) == [("t", LAST)]


def test_a_new_replica_without_a_log_moves_to_another_log_dir(make_node: Any) -> None:
    node = make_node(dirs=2)
    node.create(partitions=MANY, makes_logs=False)
    request = AlterReplicaLogDirs.Request
    named = request.AlterReplicaLogDirTopic(name="t", partitions=[LAST, LAST - 1])
    dirs = [request.AlterReplicaLogDir(path=node.paths[1], topics=[named])]
    response = node.ask(alter_replica_log_dirs, request(dirs=dirs), 2)
    assert [each.error_code for each in response.results[0].partitions] == [0, 0]
    logs = [node.replicas.find("t", n).log for n in (LAST, LAST - 1)]
    node.until(lambda: all(log.log_dir.path == node.paths[1] for log in logs))
