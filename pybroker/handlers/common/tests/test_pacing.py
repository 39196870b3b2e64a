"""A request with many items is served in several turns, with the same answer as in one turn."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from pybroker import waiting
from pybroker.cluster.metadata.image import ResourceType
from pybroker.handlers import (
    ROWS,
    alter_replica_log_dirs,
    describe_configs,
    describe_producers,
    list_offsets,
    offset_for_leader_epoch,
)
from pybroker.handlers.common.turns import Turns
from pybroker.handlers.tests.harness import Node, OneItemTurns
from pybroker.replication.tests.harness import at_each_turn
from pyclient.protocol import (
    AlterReplicaLogDirs,
    DescribeConfigs,
    DescribeProducers,
    ListOffsets,
    OffsetForLeaderEpoch,
)

PARTITIONS = 5


def of_offsets() -> ListOffsets.Request:
    kind = ListOffsets.Request
    return kind(
        topics=[
            kind.ListOffsetsTopic(
                name=name,
                partitions=[
                    kind.ListOffsetsPartition(partition_index=index, timestamp=-1) for index in range(PARTITIONS)
                ],
            )
            for name in ("t", "none", "u")
        ]
    )


def of_epochs() -> OffsetForLeaderEpoch.Request:
    kind = OffsetForLeaderEpoch.Request
    partitions = [kind.OffsetForLeaderPartition(partition=index, leader_epoch=0) for index in range(PARTITIONS)]
    return kind(
        topics=[
            kind.OffsetForLeaderTopic(topic="t", partitions=partitions),
            kind.OffsetForLeaderTopic(topic="empty"),
            kind.OffsetForLeaderTopic(topic="u", partitions=partitions),
        ]
    )


def of_moves() -> AlterReplicaLogDirs.Request:
    kind = AlterReplicaLogDirs.Request
    topic = kind.AlterReplicaLogDirTopic(name="none", partitions=list(range(PARTITIONS)))
    return kind(dirs=[kind.AlterReplicaLogDir(path="/nowhere", topics=[topic])])


def of_producers() -> DescribeProducers.Request:
    kind = DescribeProducers.Request
    return kind(topics=[kind.TopicRequest(name=name, partition_indexes=list(range(PARTITIONS))) for name in "tu"])


def of_settings() -> DescribeConfigs.Request:
    kind = DescribeConfigs.Request
    row = kind.DescribeConfigsResource
    return kind(resources=[row(resource_type=ResourceType.TOPIC, resource_name=name) for name in "tunone"])


READS = [
    (list_offsets, of_offsets, 7),
    (offset_for_leader_epoch, of_epochs, 4),
    (alter_replica_log_dirs, of_moves, 2),
    (describe_producers, of_producers, 0),
    (describe_configs, of_settings, 4),
]


@pytest.mark.parametrize(("handler", "make", "version"), READS)
def test_a_request_of_many_items_gets_the_same_answer_in_several_turns_as_in_one(
    node: Node, handler: Any, make: Any, version: int
) -> None:
    node.create("t", partitions=PARTITIONS)
    node.create("u", partitions=3)
    node.turns = Turns(lambda: 0.0)
    whole = handler.handle(make(), node.call(version))
    node.turns = OneItemTurns()
    request = make()
    assert node.ask(handler, request, version) == whole
    assert node.turns.count >= PARTITIONS - 1
    assert request == make()
    assert node.connection.held == 0


def test_a_long_request_holds_its_connection_and_lets_other_tasks_run_between_its_turns(node: Node) -> None:
    node.turns = OneItemTurns()
    rounds: list[int] = []

    async def ask() -> None:
        task = waiting.start(list_offsets.handle(of_offsets(), node.call(7)), node.loop)
        with at_each_turn(node.loop, lambda: task.done() or rounds.append(node.connection.held)):
            await task

    node.run(ask())
    assert node.turns.count >= 3 * PARTITIONS
    assert len(rounds) >= node.turns.count - 1
    assert set(rounds) == {1}


def test_a_long_request_that_is_cancelled_between_two_turns_releases_its_connection(node: Node) -> None:
    node.turns = OneItemTurns()

    async def give_up() -> None:
        task = waiting.start(list_offsets.handle(of_offsets(), node.call(7)), node.loop)
        assert node.connection.held == 1
        task.cancel()
        await asyncio.wait([task])
        assert task.cancelled()

    node.run(give_up())
    assert node.connection.held == 0


def test_list_offsets_refuses_a_partition_that_a_long_request_names_twice(node: Node) -> None:
    node.create("t", partitions=PARTITIONS)
    request = of_offsets()
    request.topics[0].partitions += request.topics[0].partitions[:2]
    request.topics.append(ListOffsets.Request.ListOffsetsTopic(name="t", partitions=request.topics[0].partitions[4:5]))
    response = node.ask(list_offsets, request, 7)
    refused = [each.partition_index for each in response.topics[0].partitions if each.error_code]
    assert refused == [0, 1, 4, 0, 1]
    assert [bool(each.error_code) for each in response.topics[-1].partitions] == [True]


def test_every_api_limits_the_number_of_items_in_a_request() -> None:
    for row in ROWS:
        assert row.most_units <= 300_000
