"""What a consumer reads, and how far it has read."""

from __future__ import annotations

import re

import pytest

from pyclient.consumer.errors import IllegalState
from pyclient.consumer.subscription import EARLIEST, Subscription
from pyclient.topic_partition import TopicPartition

A0, A1, B0 = TopicPartition("a", 0), TopicPartition("a", 1), TopicPartition("b", 0)


def test_partitions_kept_in_a_rebalance_keep_their_positions() -> None:
    subscription = Subscription()
    subscription.subscribe(["a"])
    subscription.set_assigned([A0, A1])
    subscription.state(A0).seek(7, 3)
    subscription.set_assigned([A0, B0])
    assert subscription.state(A0).position == 7
    assert subscription.state(B0).position is None
    with pytest.raises(IllegalState, match="a-1 is not assigned"):
        subscription.state(A1)


def test_a_seek_begins_a_new_turn_so_that_older_fetches_are_dropped() -> None:
    subscription = Subscription()
    subscription.assign([A0])
    state = subscription.state(A0)
    turn = state.turn
    state.seek(1)
    assert state.turn != turn
    turn = state.turn
    state.seek_by(EARLIEST)
    assert (state.turn != turn, state.position, state.reset) == (True, None, EARLIEST)


def test_a_revoked_partition_begins_a_new_turn() -> None:
    subscription = Subscription()
    subscription.assign([A0])
    state = subscription.state(A0)
    turn = state.turn
    subscription.assign([A1])
    assert state.turn != turn


def test_subscribe_assign_and_patterns_cannot_be_mixed() -> None:
    subscription = Subscription()
    subscription.subscribe(["a"])
    with pytest.raises(IllegalState, match=r"^the consumer already reads topics: unsubscribe\(\) first$"):
        subscription.assign([A0])
    with pytest.raises(IllegalState, match="unsubscribe"):
        subscription.subscribe_pattern(re.compile("a.*"))
    subscription.unsubscribe()
    subscription.assign([A0])
    assert not subscription.by_group


def test_a_pattern_must_match_the_whole_name() -> None:
    subscription = Subscription()
    subscription.subscribe_pattern(re.compile("a|b."))
    assert subscription.match(["a", "ab", "bb", "b"])
    assert subscription.topics == {"a", "bb"}
    assert not subscription.match(["bb", "a", "c"])


def test_settled_positions_are_those_of_the_last_poll() -> None:
    subscription = Subscription()
    subscription.assign([A0])
    state = subscription.state(A0)
    state.seek(5)
    state.position, state.epoch = 9, 2
    assert state.settled == 5
    state.settle()
    assert (state.settled, state.settled_epoch) == (9, 2)


def test_pauses_survive_an_eager_rebalance_that_returns_the_partition() -> None:
    subscription = Subscription()
    subscription.subscribe(["a", "b"])
    subscription.set_assigned([A0, A1, B0])
    for tp in (A0, B0):
        subscription.state(tp).paused = True
    subscription.keep_pauses(subscription.paused())
    subscription.set_assigned([])
    subscription.set_assigned([A0, A1])
    subscription.keep_pauses(())
    assert subscription.paused() == {A0}
    subscription.set_assigned([A0, A1, B0])
    assert subscription.paused() == {A0}, "it was another's meanwhile"


def test_a_topic_that_matches_the_pattern_is_wanted_before_it_is_known() -> None:
    subscription = Subscription()
    subscription.subscribe_pattern(re.compile("a.*"))
    assert subscription.match(["a", "b"])
    assert [subscription.wants(topic) for topic in ("a", "ab", "b", "ba")] == [True, True, False, False]
    subscription.unsubscribe()
    subscription.subscribe(["b"])
    assert [subscription.wants(topic) for topic in ("a", "b")] == [False, True]
