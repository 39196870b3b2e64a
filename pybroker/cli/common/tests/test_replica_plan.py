"""Replicas move as little as they can, and end up spread evenly."""

from __future__ import annotations

from collections import Counter

import click
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pybroker.cli.common.replica_plan import plan

BROKERS = st.lists(st.integers(0, 20), min_size=1, max_size=6, unique=True)


def test_replicas_that_are_on_a_wanted_broker_stay() -> None:
    now = {("t", 0): (1, 2), ("t", 1): (2, 3), ("t", 2): (3, 1)}
    assert plan(now, [1, 2, 3]) == now


def test_replicas_of_a_removed_broker_go_to_the_least_loaded_ones() -> None:
    now = {("t", 0): (1, 2), ("t", 1): (2, 1), ("t", 2): (1, 2)}
    then = plan(now, [2, 3])
    assert then[("t", 1)] == (2, 3)
    assert all(set(replicas) == {2, 3} for replicas in then.values())


def test_more_replicas_keep_the_leader() -> None:
    now = {("t", number): (1,) for number in range(6)}
    then = plan(now, [1, 2, 3], 2)
    assert {replicas[0] for replicas in then.values()} == {1}
    assert Counter(replicas[1] for replicas in then.values()) == {2: 3, 3: 3}


def test_the_partitions_of_a_removed_leader_get_different_leaders() -> None:
    now = {("t", number): (9,) for number in range(6)}
    assert Counter(replicas[0] for replicas in plan(now, [1, 2, 3]).values()) == {1: 2, 2: 2, 3: 2}


def test_more_replicas_than_brokers_are_refused() -> None:
    with pytest.raises(click.UsageError, match="t-0: 3 replicas do not fit onto 2 brokers"):
        plan({("t", 0): (1,)}, [1, 2], 3)


@given(st.data(), BROKERS, BROKERS)
def test_every_plan_is_valid_and_moves_no_more_than_it_must(
    data: st.DataObject, before: list[int], after: list[int]
) -> None:
    sizes = st.integers(1, min(len(before), len(after)))
    now = {
        ("t", number): tuple(data.draw(st.permutations(before))[: data.draw(sizes)])
        for number in range(data.draw(st.integers(1, 8)))
    }
    then = plan(now, after)
    for key, replicas in then.items():
        assert len(set(replicas)) == len(replicas) == len(now[key])
        assert set(replicas) <= set(after)
        assert set(now[key]) & set(after) <= set(replicas)
        assert now[key][0] not in after or replicas[0] == now[key][0]
