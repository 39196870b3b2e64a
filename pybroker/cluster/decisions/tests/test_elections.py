"""Leaders as brokers come and go."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pybroker.cluster.decisions.elections import (
    Standing,
    after_change,
    after_changes,
    elect,
    fit_for,
    with_isr,
)
from pybroker.cluster.metadata.image import (
    NO_LEADER,
    BrokerRegistration,
    MetadataDelta,
    MetadataImage,
    PartitionImage,
    TopicImage,
)


def partition(leader: int, replicas: tuple[int, ...], isr: tuple[int, ...]) -> PartitionImage:
    return PartitionImage(0, leader, 5, 7, replicas, isr)


def standing(*fit: int, restarted: Collection[int] = (), lost: Collection[int] = ()) -> Standing:
    return Standing(
        frozenset(fit), restarted=frozenset(restarted) | frozenset(lost), lost=frozenset(lost)
    )


class UncleanForB:
    def min_isr(self, topic: TopicImage, partition: PartitionImage) -> int:
        return 1

    def is_unclean_allowed(self, topic: TopicImage) -> bool:
        return topic.name == "b"


def test_the_first_live_isr_member_of_the_replica_list_leads() -> None:
    elected = elect(partition(1, (1, 2, 3), (3, 2, 1)), {2, 3})
    assert (elected.leader, elected.isr) == (2, (3, 2))
    assert elected.leader_epoch == 6


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
    after = after_change(partition(1, (1, 2), (1, 2)), standing(1))
    assert (after.leader, after.isr) == (1, (1,))
    assert after.leader_epoch == 5


def test_an_election_does_not_copy_an_unaffected_partition() -> None:
    before = partition(1, (1, 2), (1, 2))
    assert after_change(before, standing(1, 2, 3, restarted={2})) is before
    offline = partition(NO_LEADER, (1,), (1,))
    assert after_change(offline, standing(2)) is offline


def test_a_restarted_leader_leads_in_a_new_epoch() -> None:
    after = after_change(partition(1, (1,), (1,)), standing(1, restarted={1}))
    assert (after.leader, after.leader_epoch) == (1, 6)


def test_an_offline_partition_comes_back_with_its_last_isr_member() -> None:
    offline = partition(NO_LEADER, (1, 2), (2,))
    assert after_change(offline, standing(1)) is offline
    assert after_change(offline, standing(1, 2)).leader == 2


def test_unclean_election_is_decided_per_topic() -> None:
    lost = partition(1, (1, 2), (1,))
    topics = {name: TopicImage(name, name.encode() * 16, (lost,)) for name in "ab"}
    image = MetadataImage(topics=topics)
    changed = {t.name: ps for t, ps in after_changes(image, standing(2), UncleanForB())}
    assert changed["a"][0].leader == NO_LEADER
    assert changed["b"][0].leader == 2


@given(
    st.lists(st.integers(1, 6), min_size=1, max_size=4, unique=True),
    st.lists(st.tuples(st.sets(st.integers(1, 6)), st.booleans()), max_size=12),
)
def test_in_any_history_the_leader_is_alive_and_in_the_isr_and_the_isr_is_never_empty(
    replicas: list[int], history: list[tuple[set[int], bool]]
) -> None:
    state = partition(replicas[0], tuple(replicas), tuple(replicas))
    for alive, unclean in history:
        before = state
        state = after_change(state, Standing(frozenset(alive)), unclean=unclean)
        assert state.isr
        assert set(state.isr) <= set(replicas)
        assert state.leader == NO_LEADER or state.leader in alive & set(state.isr)
        assert (state == before) == (state is before)
        assert state.leader_epoch >= before.leader_epoch
        if state.leader != before.leader:
            assert state.leader_epoch == before.leader_epoch + 1
        if not unclean:
            assert set(state.isr) <= set(before.isr)


@pytest.mark.parametrize("unclean", [False, True])
def test_a_second_election_changes_only_the_epochs(unclean: bool) -> None:
    once = elect(partition(1, (1, 2, 3), (2, 3)), {2, 3}, unclean=unclean)
    twice = elect(once, {2, 3}, unclean=unclean)
    assert twice == replace(once, leader_epoch=7)


def test_replicas_that_leave_an_isr_below_min_isr_stay_eligible_leaders() -> None:
    three = partition(1, (1, 2, 3), (1, 2, 3))
    two = after_change(three, standing(1, 2), min_isr=2)
    assert (two.isr, two.elr) == ((1, 2), ())
    one = after_change(two, standing(1), min_isr=2)
    assert (one.isr, one.elr) == ((1,), (2,))
    assert with_isr(one, (1, 3), 2).elr == ()


def test_an_eligible_replica_leads_if_the_whole_isr_is_dead() -> None:
    one = replace(partition(1, (1, 2, 3), (1,)), elr=(2,))
    after = after_change(one, standing(2, 3), min_isr=2)
    assert (after.leader, after.isr, after.elr) == (2, (2,), (1,))
    assert after_change(one, standing(3), min_isr=2).leader == NO_LEADER


@pytest.mark.parametrize(
    ("boot", "lost"),
    [("m a b", set()), ("m2 b a", set()), ("m a b c", set()), ("m a", {1}), ("m", {1}), (" a c", {1})],
)
def test_a_broker_is_trusted_after_a_clean_stop_with_the_same_log_dirs(boot: str, lost: set[int]) -> None:
    broker = BrokerRegistration(1, 8, (), is_clean=True, boot=boot)
    found = Standing.of({1: broker}, {}, {1: "m a b"})
    assert (found.lost, found.restarted) == (lost, lost)


def test_case_27_the_last_replica_after_a_power_cut_is_not_elected_over_a_fuller_log() -> None:
    offline = replace(partition(NO_LEADER, (1, 2, 3), (1,)), elr=(2,))
    waits = after_change(offline, standing(1, lost={1}), min_isr=2)
    assert (waits.leader, waits.isr, waits.elr) == (NO_LEADER, (2,), ())
    led = after_change(waits, standing(1, 2), min_isr=2)
    assert (led.leader, led.isr) == (2, (2,))


def test_if_all_replicas_have_lost_records_one_of_the_last_isr_leads() -> None:
    offline = replace(partition(NO_LEADER, (1, 2, 3), (1, 2)))
    waits = after_change(offline, standing(1, 3, lost={1, 3}))
    assert (waits.leader, waits.isr) == (NO_LEADER, (2,))
    led = after_change(waits, standing(1, 2, 3, lost={2}))
    assert (led.leader, led.isr) == (2, (2,))


def test_an_isr_member_that_returns_after_a_power_cut_is_not_in_sync() -> None:
    before = partition(1, (1, 2, 3), (1, 2, 3))
    after = after_change(before, standing(1, 2, 3, lost={2}), min_isr=2)
    assert (after.leader, after.isr, after.elr) == (1, (1, 3), ())
    alone = after_change(after, standing(1, 2, 3, lost={3}), min_isr=2)
    assert (alone.isr, alone.elr) == ((1,), ())


def test_a_leaving_leader_stays_leader_if_no_other_replica_can_lead() -> None:
    before = partition(1, (1, 2), (1,))
    leaving = Standing(frozenset({2}), frozenset({1}))
    assert after_change(before, leaving) is before
    handed_over = after_change(partition(1, (1, 2), (1, 2)), leaving)
    assert (handed_over.leader, handed_over.isr) == (2, (2,))


def test_a_lost_disk_affects_only_its_replicas() -> None:
    first = partition(1, (1, 2), (1, 2))
    topic = TopicImage("b", bytes(16), (first, replace(first, index=1)))
    lost = Standing(frozenset({1, 2}), offline={(topic.id, 0): frozenset({1})})
    assert lost.at(topic.id, 0).fit == {2}
    assert lost.at(topic.id, 1) is lost
    [(_, [after])] = after_changes(MetadataImage(topics={"b": topic}), lost, UncleanForB())
    assert (after.index, after.leader) == (0, 2)


def test_a_broker_may_be_able_to_lead_one_partition_and_not_another() -> None:
    offline = frozenset((bytes(16), index) for index in range(3))
    image = MetadataImage().apply(
        MetadataDelta(
            brokers={
                1: BrokerRegistration(1, 6, (), offline=offline),
                2: BrokerRegistration(2, 7, (), is_leaving=True),
                3: BrokerRegistration(3, 8, ()),
            }
        )
    )
    standing = Standing.of(image.brokers, image.brokers, image.boots)
    for index in range(4):
        assert fit_for(image, bytes(16), index) == standing.at(bytes(16), index).fit
    assert fit_for(image, bytes(16), 0) == {3}


def test_a_replica_whose_disk_has_failed_is_not_eligible_when_its_broker_is_back() -> None:
    """A failed sync may drop written records, and the next process could not know."""
    topic = TopicImage("a", bytes(16), (partition(1, (1, 2), (1, 2)),))
    failed = Standing(frozenset({1, 2}), offline={(topic.id, 0): frozenset({2})}).at(topic.id, 0)
    alone = after_change(topic.partitions[0], failed, min_isr=2)
    assert (alone.leader, alone.isr, alone.elr) == (1, (1,), ())
    assert after_change(alone, failed, min_isr=2) is alone
    waits = after_change(alone, standing(2, restarted={2}), min_isr=2)
    assert (waits.leader, waits.isr) == (NO_LEADER, (1,))


def test_an_eligible_replica_leads_if_the_disk_of_the_last_isr_member_has_failed() -> None:
    topic = TopicImage("a", bytes(16), (replace(partition(1, (1, 2), (1,)), elr=(2,)),))
    failed = Standing(frozenset({1}), offline={(topic.id, 0): frozenset({1})}).at(topic.id, 0)
    waits = after_change(topic.partitions[0], failed, min_isr=2)
    assert (waits.leader, waits.isr, waits.elr) == (NO_LEADER, (2,), ())
    back = after_change(waits, standing(1, restarted={1}), min_isr=2)
    assert back.leader == NO_LEADER
    assert after_change(back, standing(1, 2), min_isr=2).leader == 2


@given(
    st.integers(1, 3),
    st.lists(
        st.tuples(st.sets(st.integers(1, 3)), st.sets(st.integers(1, 3))), min_size=1, max_size=12
    ),
)
def test_every_elected_leader_has_all_committed_records(
    min_isr: int, history: list[tuple[set[int], set[int]]]
) -> None:
    """A round of ``history`` has the live brokers, and those that return after a power cut. ``whole`` has the replicas
    with every committed record; the leader commits while the ISR is large enough.
    """
    state = partition(1, (1, 2, 3), (1, 2, 3))
    whole, alive = {1, 2, 3}, {1, 2, 3}
    for now, cut in history:
        lost = (now - alive) & cut
        state = after_change(
            state, standing(*now, lost=lost, restarted=now - alive), min_isr=min_isr
        )
        alive = now
        whole -= lost
        if not whole:
            return
        assert state.leader in whole | {NO_LEADER}
        if state.leader != NO_LEADER and len(state.isr) >= min_isr:
            whole &= set(state.isr)


def test_case_27_a_broker_that_returns_after_a_power_cut_lacks_its_unsynced_records() -> None:
    """Found by the simulator: the power cut lasted longer than the session, so the broker's registration was gone."""
    before = BrokerRegistration(2, 7, (), boot="first")
    image = MetadataImage().apply(MetadataDelta(brokers={1: BrokerRegistration(1, 6, (), boot="x"), 2: before}))
    image = image.apply(MetadataDelta(brokers={2: None}))
    back = before._replace(epoch=9, boot="second")
    standing = Standing.of({**image.brokers, 2: back}, image.brokers, image.boots)
    assert standing.lost == {2}
    waits = replace(partition(NO_LEADER, (3, 2, 1), (3,)), elr=(2,))
    assert after_change(waits, standing, min_isr=2).leader == NO_LEADER
    again = Standing.of({**image.brokers, 2: before._replace(epoch=9)}, image.brokers, image.boots)
    assert after_change(waits, again, min_isr=2).leader == 2, "its process was killed: all is in the page cache"
