"""Rebalances: which members are awaited, how long, and the protocol that they agree on."""

from __future__ import annotations

from dataclasses import replace

import pytest

from pybroker.coordinator.group import joining
from pybroker.coordinator.group.tests.driver import QUICK, Driver, subscription
from pyclient.protocol import errors

A, B = subscription("a"), subscription("b")


def test_all_members_joined_ends_the_rebalance_at_once() -> None:
    driver = Driver()
    [old] = driver.stable(1)
    new, joined = driver.member()
    assert joined.waits
    rejoined = driver.join(old)
    assert rejoined.answer.leader == old
    assert {each.member_id for each in rejoined.answer.members} == {old, new}
    assert joined.answer.members == []


def test_a_member_that_does_not_join_within_the_rebalance_timeout_is_evicted() -> None:
    driver = Driver()
    [old] = driver.stable(1, rebalance_ms=5_000, session_ms=30_000)
    new, joined = driver.member(rebalance_ms=4_000)
    driver.pass_ms(4_999)
    assert joined.waits, "the longest timeout of all members counts"
    driver.pass_ms(1)
    assert joined.answer.leader == new
    assert driver.heartbeat(old, 2).code == errors.UnknownMemberId.code


def test_a_member_that_does_not_sync_within_the_rebalance_timeout_is_evicted() -> None:
    driver = Driver()
    leader, follower = (driver.member(rebalance_ms=5_000, session_ms=60_000)[0] for _ in "ab")
    driver.pass_ms(1)
    driver.sync(leader, 1, {})
    driver.pass_ms(5_000)
    assert driver.heartbeat(follower, 1).code == errors.UnknownMemberId.code
    assert driver.heartbeat(leader, 1).code == errors.RebalanceInProgress.code


def test_a_member_with_rebalance_timeout_0_is_evicted_before_it_can_sync() -> None:
    driver = Driver()
    member, joined = driver.member(rebalance_ms=0)
    driver.pass_ms(10)
    assert joined.answer.generation_id == 1
    assert driver.sync(member, 1).code == errors.UnknownMemberId.code


def test_silence_for_the_session_timeout_starts_a_rebalance() -> None:
    driver = Driver()
    loud, silent = driver.stable(2, session_ms=10_000)
    driver.pass_ms(6_000)
    assert driver.heartbeat(loud, 1).code == errors.NONE
    driver.pass_ms(4_000)
    assert driver.heartbeat(loud, 1).code == errors.RebalanceInProgress.code
    assert silent not in driver.group().members


def test_waiting_in_a_join_does_not_expire_the_session() -> None:
    driver = Driver()
    [old] = driver.stable(1, session_ms=10_000, rebalance_ms=60_000)
    driver.member(session_ms=10_000)
    driver.join(old)
    driver.settle([each.id for each in driver.group().members])
    new, joined = driver.member(session_ms=10_000)
    waiting = driver.join(old, session_ms=10_000)
    driver.pass_ms(9_000)
    assert waiting.waits
    assert joined.waits
    assert {old, new} <= {each.id for each in driver.group().members}


def test_a_new_member_may_wait_five_minutes() -> None:
    driver = Driver()
    [old] = driver.stable(1, session_ms=1_800_000, rebalance_ms=1_800_000)
    _, joined = driver.member(session_ms=10_000)
    driver.pass_ms(299_999)
    assert joined.waits
    driver.pass_ms(1)
    assert joined.code == errors.UnknownMemberId.code
    assert old in driver.group().members


def test_a_leader_that_joins_again_starts_a_rebalance_and_a_follower_does_not() -> None:
    driver = Driver()
    leader, follower = driver.stable(2)
    assert driver.join(follower).answer.generation_id == 1
    assert driver.join(leader).waits
    assert driver.group().state == "PreparingRebalance"


def test_a_follower_with_new_metadata_starts_a_rebalance() -> None:
    driver = Driver()
    _, follower = driver.stable(2)
    assert driver.join(follower, protocols={"range": B}).waits


def test_a_lost_join_response_is_sent_again() -> None:
    driver = Driver()
    leader, _ = driver.member()[0], driver.member()
    driver.pass_ms(1)
    again = driver.join(leader).answer
    assert again.generation_id == 1
    assert len(again.members) == 2


def test_a_second_join_of_a_member_answers_the_first() -> None:
    driver = Driver()
    driver.stable(1)
    member, first = driver.member()
    second = driver.join(member)
    assert first.code == errors.RebalanceInProgress.code
    assert second.waits


def test_a_leader_that_leaves_is_followed_by_the_next_member() -> None:
    driver = Driver()
    first, second, third = driver.stable(3)
    driver.leave((first, None))
    joins = [driver.join(third), driver.join(second)]
    assert {each.answer.leader for each in joins} == {second}


def test_a_leader_that_does_not_rejoin_loses_the_lead_to_a_member_that_has() -> None:
    driver = Driver()
    static = driver.member(instance="i1", session_ms=60_000, rebalance_ms=5_000)[0]
    second = driver.member(session_ms=60_000, rebalance_ms=5_000)[0]
    driver.pass_ms(1)
    driver.settle([static, second])
    waiting = driver.join(second, protocols={"range": B}, rebalance_ms=5_000)
    driver.pass_ms(5_000)
    assert waiting.answer.leader == second
    assert static in driver.group().members


def test_the_protocol_that_most_members_prefer_of_those_all_know_is_chosen() -> None:
    driver = Driver()
    tickets = [
        driver.member(protocols={"x": A, "range": A, "sticky": A})[1],
        driver.member(protocols={"sticky": A, "range": A})[1],
        driver.member(protocols={"sticky": A, "range": A, "y": A})[1],
    ]
    driver.pass_ms(1)
    assert {each.answer.protocol_name for each in tickets} == {"sticky"}


def test_a_member_that_shares_no_protocol_is_inconsistent() -> None:
    driver = Driver()
    driver.stable(1)
    for refused in (
        driver.join(protocols={"sticky": A}),
        driver.join(protocol_type="connect"),
        driver.join(protocols={}),
    ):
        assert refused.code == errors.InconsistentGroupProtocol.code


def test_an_empty_group_takes_another_protocol_type() -> None:
    driver = Driver()
    [member] = driver.stable(1)
    driver.leave((member, None))
    driver.stable(1, protocol_type="connect", protocols={"sessioned": b"url"})
    assert driver.group().protocol_type == "connect"


def test_a_group_takes_no_more_members_than_group_max_size() -> None:
    driver = Driver(replace(QUICK, max_size=2))
    members = driver.stable(2)
    refused = driver.join(version=3)
    assert refused.code == errors.GroupMaxSizeReached.code
    assert refused.answer.member_id == ""
    assert driver.join(members[0]).waits


def test_the_metadata_of_all_members_of_a_group_are_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise one group could take all memory: a waiting member may report a megabyte, and stays for minutes."""
    large, small = {"range": subscription("t" * 1000)}, {"range": subscription("t")}
    monkeypatch.setattr(joining, "_MOST_BYTES_OF_ALL", 3_000)
    driver = Driver()
    (first,) = driver.stable(1, protocols=large)
    second, _ = driver.member(protocols=large)
    assert driver.join(protocols=large, version=3).code == errors.GroupMaxSizeReached.code
    third, _ = driver.member(protocols=small)
    assert driver.join(third, protocols=large).code == errors.GroupMaxSizeReached.code
    assert driver.join(third, protocols=small).code == errors.UnknownMemberId.code
    smaller = driver.join(first, protocols=small)
    assert smaller.code == 0
    assert {each.member_id for each in smaller.answer.members} == {first, second}
    assert driver.group().members.size == sum(member.size for member in driver.group().members) < 2_000
    driver.leave((first, None), (second, None))
    assert driver.group().members.size == 0


@pytest.mark.parametrize("is_synced", [True, False])
def test_a_group_rebalances_without_a_member_whose_metadata_are_too_large(
    is_synced: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise nobody would read the member's partitions, or all would wait for a leader that has gone."""
    large = {"range": subscription("t" * 2_000)}
    driver = Driver()
    leader, other = driver.stable(2)
    if not is_synced:
        rejoined = [driver.join(member, protocols=large) for member in (leader, other)]
        assert {each.answer.leader for each in rejoined} == {leader}
    generation = driver.group().generation
    monkeypatch.setattr(joining, "_MOST_BYTES_OF_ALL", 1_000)
    larger = {"range": subscription("t" * 3_000)}
    assert driver.join(leader, protocols=larger).code == errors.GroupMaxSizeReached.code
    assert [each.id for each in driver.group().members] == [other]
    assert driver.heartbeat(other, generation).code == errors.RebalanceInProgress.code
    assert driver.join(other).answer.leader == other


def test_a_group_that_is_too_large_for_a_lowered_limit_loses_members_when_it_is_loaded() -> None:
    large = Driver()
    members = large.stable(3)
    driver = Driver(replace(QUICK, max_size=2), large.log)
    assert driver.group().state == "PreparingRebalance"
    joins = [driver.join(member) for member in members]
    assert joins[2].code == errors.GroupMaxSizeReached.code
    assert [each.answer.generation_id for each in joins[:2]] == [2, 2]


def test_generations_go_on_when_the_group_has_been_empty() -> None:
    driver = Driver()
    [member] = driver.stable(1)
    driver.leave((member, None))
    assert driver.group().generation == 2
    driver.stable(1)
    assert driver.group().generation == 3


def test_a_group_is_empty_if_its_first_member_leaves_before_the_rebalance_ends() -> None:
    driver = Driver(replace(QUICK, initial_rebalance_delay_ms=3_000))
    member, joined = driver.member()
    driver.leave((member, None))
    assert joined.code == errors.UnknownMemberId.code
    driver.pass_ms(3_000)
    assert driver.group().state == "Empty"
