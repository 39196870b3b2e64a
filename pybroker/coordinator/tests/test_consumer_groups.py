"""The new consumer protocol on a real log: durable state, effects, and requests that are refused at once."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from pybroker.coordinator.group.joining import Caller
from pybroker.coordinator.tests.harness import Node
from pyclient.protocol import ConsumerGroupHeartbeat, errors

CALLER = Caller(1, "c", "/127.0.0.1")


@pytest.fixture
def node(tmp_path: Path) -> Iterator[Node]:
    one = Node(tmp_path)
    one.start()
    one.offsets_topic()
    one.create("t", 2)
    yield one
    one.stop()


def beat(node: Node, epoch: int = 0, **fields: Any) -> Any:
    if epoch == 0:
        fields = {"subscribed_topic_names": ["t"], "rebalance_timeout_ms": 60_000} | fields
        fields["topic_partitions"] = []
    request = ConsumerGroupHeartbeat.Request(
        group_id="g", member_id="m", member_epoch=epoch, **fields
    )
    return node.run(node.groups.consumers.heartbeat(request, CALLER))


def describe(node: Node, group_id: str = "g") -> Any:
    return node.run(node.groups.consumers.describe(group_id))


def test_a_group_outlives_its_broker(node: Node) -> None:
    assert beat(node).member_epoch == 2
    node.stop()
    node.start()
    row = describe(node)
    assert (row.group_epoch, row.group_state, len(row.members)) == (2, "Stable", 1)
    assert beat(node, 2).error_code == 0


def test_regular_expressions_are_looked_up_on_another_thread_and_told(node: Node) -> None:
    beat(node, subscribed_topic_names=None, subscribed_topic_regex="t.*")
    node.until_told(lambda: node.groups.consumers.describe("g"), lambda row: row.group_epoch > 1)
    answer = beat(node, 1)
    assert answer.error_code == 0
    assert len(answer.assignment.topic_partitions[0].partitions) == 2


def test_an_unknown_or_nameless_group_gets_its_error(node: Node) -> None:
    row = describe(node)
    assert (row.error_code, row.error_message) == (errors.GroupIdNotFound.code, "Group g not found.")
    assert describe(node, "").error_code == errors.InvalidGroupId.code


def test_a_broker_may_have_the_classic_protocol_only(tmp_path: Path) -> None:
    node = Node(tmp_path, **{"group.coordinator.rebalance.protocols": "classic"})
    node.start()
    node.offsets_topic()
    assert beat(node).error_code == errors.UnsupportedVersion.code
    assert describe(node).error_code == errors.UnsupportedVersion.code
    node.stop()
