"""Who leads, as brokers come and go."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pybroker.cluster.elections import after_change, after_changes, elect
from pybroker.cluster.image import NO_LEADER, MetadataImage, PartitionImage, TopicImage


def partition(leader: int, replicas: tuple[int, ...], isr: tuple[int, ...]) -> PartitionImage:
    return PartitionImage(0, leader, 5, 7, replicas, isr)


def test_the_first_live_isr_member_of_the_replica_list_leads() -> None:
    elected = elect(partition(1, (1, 2, 3), (3, 2, 1)), {2, 3})
    assert (elected.leader, elected.isr) == (2, (3, 2))
    assert (elected.leader_epoch, elected.partition_epoch) == (6, 8)


def test_without_a_live_isr_member_the_partition_is_offline_and_keeps_its_isr() -> None:
    elected = elect(partition(1, (1, 2, 3), (1,)), {2, 3})
    assert (elected.leader, elected.isr, elected.leader_epoch) == (NO_LEADER, (1,), 6)


def test_case_18_unclean_election_lets_a_live_replica_lead_alone() -> None:
    elected = elect(partition(1, (1, 2, 3), (1,)), {2, 3}, unclean=True)
    assert (elected.leader, elected.isr) == (2, (2,))


def test_unclean_election_prefers_a_clean_leader() -> None:
    elected = elect(partition(1, (1, 2, 3), (3,)), {2, 3}, unclean=True)
    assert (elected.leader, elected.isr) == (3, (3,))


def test_a_dead_follower_leaves_the_isr_and_the_leader_stays_in_its_epoch() -> None:
    after = after_change(partition(1, (1, 2), (1, 2)), {1}, ())
    assert (after.leader, after.isr) == (1, (1,))
    assert (after.leader_epoch, after.partition_epoch) == (5, 8)


def test_a_partition_that_is_not_concerned_stays_the_same_object() -> None:
    before = partition(1, (1, 2), (1, 2))
    assert after_change(before, {1, 2, 3}, {2}) is before
    offline = partition(NO_LEADER, (1,), (1,))
    assert after_change(offline, {2}, ()) is offline


def test_a_restarted_leader_leads_in_a_new_epoch() -> None:
    after = after_change(partition(1, (1,), (1,)), {1}, {1})
    assert (after.leader, after.leader_epoch) == (1, 6)


def test_an_offline_partition_comes_back_with_its_last_isr_member() -> None:
    offline = partition(NO_LEADER, (1, 2), (2,))
    assert after_change(offline, {1}, ()) is offline
    assert after_change(offline, {1, 2}, ()).leader == 2


def test_unclean_election_is_asked_per_topic() -> None:
    lost = partition(1, (1, 2), (1,))
    topics = {name: TopicImage(name, name.encode() * 16, (lost,)) for name in "ab"}
    image = MetadataImage(topics=topics)
    changed = after_changes(image, {2}, (), lambda topic: topic.name == "b")
    assert changed["a"].partitions[0].leader == NO_LEADER
    assert changed["b"].partitions[0].leader == 2


@given(
    st.lists(st.integers(1, 6), min_size=1, max_size=4, unique=True),
    st.lists(st.tuples(st.sets(st.integers(1, 6)), st.booleans()), max_size=12),
)
def test_through_any_history_the_leader_is_alive_and_in_an_isr_that_never_gets_empty(
    replicas: list[int], history: list[tuple[set[int], bool]]
) -> None:
    state = partition(replicas[0], tuple(replicas), tuple(replicas))
    for alive, unclean in history:
        before = state
        state = after_change(state, alive, (), unclean=unclean)
        assert state.isr
        assert set(state.isr) <= set(replicas)
        assert state.leader == NO_LEADER or state.leader in alive & set(state.isr)
        assert state.partition_epoch == before.partition_epoch + (state is not before)
        assert state.leader_epoch >= before.leader_epoch
        if state.leader != before.leader:
            assert state.leader_epoch == before.leader_epoch + 1
        if not unclean:
            assert set(state.isr) <= set(before.isr)


@pytest.mark.parametrize("unclean", [False, True])
def test_electing_twice_changes_nothing_but_the_epochs(unclean: bool) -> None:
    once = elect(partition(1, (1, 2, 3), (2, 3)), {2, 3}, unclean=unclean)
    twice = elect(once, {2, 3}, unclean=unclean)
    epochs = {"leader_epoch": 7, "partition_epoch": 9}
    assert twice == replace(once, **epochs)
