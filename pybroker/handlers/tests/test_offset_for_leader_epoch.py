"""OffsetForLeaderEpoch: where epochs ended."""

from __future__ import annotations

from typing import Any

import pytest

from pybroker.handlers import offset_for_leader_epoch
from pybroker.handlers.tests.harness import Node
from pyclient.protocol import OffsetForLeaderEpoch, errors

Request = OffsetForLeaderEpoch.Request


def ask(node: Node, epoch: int, *, current: int = -1, version: int = 4) -> Any:
    wanted = Request.OffsetForLeaderPartition(partition=0, leader_epoch=epoch, current_leader_epoch=current)
    topic = Request.OffsetForLeaderTopic(topic="t", partitions=[wanted])
    request = Request(replica_id=-1, topics=[topic])
    return node.ask(offset_for_leader_epoch, request, version).topics[0].partitions[0]


def end(answer: Any) -> tuple[int, int]:
    assert answer.error_code == 0
    return answer.leader_epoch, answer.end_offset


def fill(node: Node) -> None:
    """Appends two records in epoch 1, three in epoch 4, one in epoch 5."""
    for epoch, count in ((1, 2), (4, 3), (5, 1)):
        node.create(epoch=epoch)
        for _ in range(count):
            node.append(b"v")


@pytest.mark.parametrize(
    ("epoch", "expected"),
    [
        (0, (0, 0)),
        (1, (1, 2)),
        (2, (1, 2)),
        (4, (4, 5)),
        (5, (5, 6)),
        (6, (-1, -1)),
        (-1, (-1, -1)),
    ],
)
@pytest.mark.parametrize("version", [2, 3, 4])
def test_offset_for_leader_epoch_returns_the_end_of_the_greatest_epoch_up_to_the_requested_one(
    node: Node, epoch: int, expected: tuple[int, int], version: int
) -> None:
    fill(node)
    assert end(ask(node, epoch, version=version)) == expected


def test_case_17_offset_for_leader_epoch_checks_the_current_leader_epoch_of_the_request(node: Node) -> None:
    fill(node)
    assert end(ask(node, 1, current=5)) == (1, 2)
    assert ask(node, 1, current=4).error_code == errors.FencedLeaderEpoch.code
    answer = ask(node, 1, current=6)
    assert answer.error_code == errors.UnknownLeaderEpoch.code
    assert (answer.leader_epoch, answer.end_offset) == (-1, -1)


def test_only_the_leader_answers_offset_for_leader_epoch(node: Node) -> None:
    assert ask(node, 1).error_code == errors.UnknownTopicOrPartition.code
    node.create(leader=2, replicas=(1, 2))
    assert ask(node, 1).error_code == errors.NotLeaderOrFollower.code


def test_case_26_leader_epochs_survive_a_restart(node: Node) -> None:
    fill(node)
    node.stop()
    node.start()
    assert end(ask(node, 4)) == (4, 5)
