"""Replicas that wait for their budget."""

from __future__ import annotations

import pytest

from pybroker.replication.tests.harness import Node
from pybroker.replication.tests.pair import Pair


def rate(node: Node, side: str, bytes_per_second: int) -> None:
    node.config.override(broker={f"{side}.replication.throttled.rate": str(bytes_per_second)}, cluster={})


@pytest.mark.parametrize("side", ["leader", "follower"])
def test_s98_a_throttled_replica_that_is_not_in_sync_waits_for_its_budget(pair: Pair, side: str) -> None:
    rate(pair.leader if side == "leader" else pair.follower, side, 1000)
    options = {f"{side}_replication_throttled_replicas": "*"}
    pair.create(isr=(1,), **options)
    pair.leader.clock.advance(10_000)
    pair.leader.append(bytes(5000))
    pair.round()
    assert pair.log().log_end_offset == 1
    pair.leader.append(bytes(5000))
    if side == "leader":
        pair.round()
    else:
        assert not pair.source.may_ask(pair.now_ms)
    assert pair.log().log_end_offset == 1
    pair.leader.clock.advance(10_000)
    pair.now_ms = 10_000
    pair.round()
    assert pair.log().log_end_offset == 2


@pytest.mark.parametrize("side", ["leader", "follower"])
def test_s98_a_replica_in_sync_is_not_throttled(pair: Pair, side: str) -> None:
    rate(pair.leader if side == "leader" else pair.follower, side, 1)
    pair.create(**{f"{side}_replication_throttled_replicas": "*"})
    for _ in range(3):
        pair.leader.append(bytes(5000))
        pair.round()
    assert pair.log().log_end_offset == 3
