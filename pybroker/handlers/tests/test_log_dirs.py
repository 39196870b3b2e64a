"""DescribeLogDirs and AlterReplicaLogDirs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from pybroker.handlers import alter_replica_log_dirs, describe_log_dirs
from pybroker.handlers.tests.harness import Node, OneItemTurns
from pybroker.replication.tests.harness import TP, batch
from pyclient.protocol import AlterReplicaLogDirs, DescribeLogDirs, errors

MakeNode = Callable[..., Node]
Described = dict[str, dict[tuple[str, int], Any]]


def describe(node: Node, topics: list[Any] | None = None) -> Described:
    """Sends DescribeLogDirs; returns partitions by log dir."""
    response = node.ask(describe_log_dirs, DescribeLogDirs.Request(topics=topics), 5)
    assert response.error_code == 0
    return {
        result.log_dir: {
            (topic.name, partition.partition_index): partition
            for topic in result.topics
            for partition in topic.partitions
        }
        for result in response.results
    }


def alter(node: Node, path: str, topic: str = "t", index: int = 0) -> int:
    """Sends AlterReplicaLogDirs; returns the error code."""
    request = AlterReplicaLogDirs.Request
    named = request.AlterReplicaLogDirTopic(name=topic, partitions=[index])
    dirs = [request.AlterReplicaLogDir(path=path, topics=[named])]
    response = node.ask(alter_replica_log_dirs, request(dirs=dirs), 2)
    return int(response.results[0].partitions[0].error_code)


def test_describe_log_dirs_returns_every_dir_with_its_partitions_and_their_sizes(make_node: MakeNode) -> None:
    node = make_node(dirs=2)
    node.create(partitions=3)
    node.append(b"a")
    described = describe(node)
    assert sorted(described) == sorted(node.paths)
    everywhere = {key: each for found in described.values() for key, each in found.items()}
    assert sorted(everywhere) == [("t", 0), ("t", 1), ("t", 2)]
    assert everywhere["t", 0].partition_size == len(batch(b"a"))
    assert not everywhere["t", 0].is_future_key
    assert everywhere["t", 0].offset_lag == 0


def test_describe_log_dirs_returns_only_the_requested_partitions(node: Node) -> None:
    node.create(partitions=3)
    node.create("u")
    topic = DescribeLogDirs.Request.DescribableLogDirTopic(topic="t", partitions=[1, 9])
    [found] = describe(node, [topic]).values()
    assert list(found) == [("t", 1)]
    assert describe(node, []) == {node.paths[0]: {}}


def test_describe_log_dirs_gives_the_same_answer_in_several_turns_as_in_one(make_node: MakeNode) -> None:
    node = make_node(dirs=2)
    node.create(partitions=7)
    topic = DescribeLogDirs.Request.DescribableLogDirTopic(topic="t", partitions=[6, 1, 9])
    whole = describe(node), describe(node, [topic])
    node.turns = OneItemTurns()
    assert (describe(node), describe(node, [topic])) == whole
    assert node.turns.count >= 7 + 7 + 3 + 7 + 7
    assert node.connection.held == 0


def test_describe_log_dirs_returns_the_total_and_usable_bytes_of_the_volume(node: Node) -> None:
    response = node.ask(describe_log_dirs, DescribeLogDirs.Request(topics=None), 4)
    [result] = response.results
    assert 0 < result.usable_bytes <= result.total_bytes


def test_case_11_an_offline_dir_is_reported(make_node: MakeNode) -> None:
    node = make_node(dirs=2)
    node.logs.dirs[0].fail(OSError(5, "bad disk"), "testing")
    response = node.ask(describe_log_dirs, DescribeLogDirs.Request(topics=None), 4)
    codes = {result.log_dir: result.error_code for result in response.results}
    assert codes == {node.paths[0]: errors.KafkaStorageError.code, node.paths[1]: 0}


def test_describe_log_dirs_shows_a_replica_as_future_while_it_moves(make_node: MakeNode) -> None:
    node = make_node(dirs=2)
    partition = node.create()
    node.append(b"a")
    target = next(path for path in node.paths if path != partition.log.log_dir.path)
    assert alter(node, target) == 0
    assert describe(node)[target]["t", 0].is_future_key
    node.run(node.replicas.moves._tasks[TP])
    assert not describe(node)[target]["t", 0].is_future_key
    assert alter(node, target) == 0


@pytest.mark.parametrize("dirs", [1, 2])
def test_alter_replica_log_dirs_refuses_an_unknown_dir_an_unknown_replica_and_an_offline_dir(
    make_node: MakeNode, dirs: int
) -> None:
    node = make_node(dirs=dirs)
    node.create()
    assert alter(node, "/nowhere") == errors.LogDirNotFound.code
    assert alter(node, node.paths[0], "u") == errors.ReplicaNotAvailable.code
    assert alter(node, node.paths[0]) == 0
    node.logs.dirs[0].fail(OSError(5, "bad disk"), "testing")
    assert alter(node, node.paths[0]) == errors.KafkaStorageError.code


def test_a_replica_requested_on_a_failed_disk_is_created_elsewhere(
    make_node: MakeNode, caplog: pytest.LogCaptureFixture
) -> None:
    """It is created in the working log dir with the fewest logs."""
    node = make_node(dirs=3)
    node.create("u")
    [used] = [path for path, found in describe(node).items() if found]
    failed, free = (path for path in node.paths if path != used)
    assert alter(node, failed) == errors.ReplicaNotAvailable.code
    node.logs.dir_at(failed).fail(OSError(5, "bad disk"), "testing")
    node.create()
    assert ("t", 0) in describe(node)[free]
    assert f"{TP} is created in another log dir, because its own is offline: {failed}" in caplog.text
