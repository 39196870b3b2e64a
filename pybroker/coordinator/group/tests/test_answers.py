"""What members and other clients of a classic group are answered, in the cases that implementations often miss."""

from __future__ import annotations

import pytest

from pybroker.coordinator.group import describing
from pybroker.coordinator.group.settings import GroupSettings
from pybroker.coordinator.group.shard import OffsetsAsked
from pybroker.coordinator.group.tests.driver import QUICK, RANGE, Driver, subscription
from pyclient.protocol import errors

PATIENT = GroupSettings(initial_rebalance_delay_ms=3_000)


def test_a_member_without_id_is_given_one_to_join_with() -> None:
    driver = Driver()
    first = driver.join(version=4)
    assert first.code == errors.MemberIdRequired.code
    member_id = first.answer.member_id
    assert member_id.startswith("c-")
    joined = driver.join(member_id, version=4)
    driver.pass_ms(1)
    assert joined.answer.member_id == joined.answer.leader == member_id


def test_older_clients_join_at_once() -> None:
    driver = Driver()
    joined = driver.join(version=3)
    driver.pass_ms(1)
    assert joined.answer.generation_id == 1


def test_an_id_that_was_never_assigned_is_unknown() -> None:
    driver = Driver()
    assert driver.join("mine").code == errors.UnknownMemberId.code
    driver.stable(1)
    assert driver.join("mine").code == errors.UnknownMemberId.code


def test_an_unused_member_id_expires_after_the_session_timeout() -> None:
    driver = Driver()
    member_id = driver.join(session_ms=10_000).answer.member_id
    driver.pass_ms(10_000)
    assert driver.join(member_id).code == errors.UnknownMemberId.code


def test_the_first_rebalance_waits_for_more_members() -> None:
    driver = Driver(PATIENT)
    first = driver.join(version=3)
    driver.pass_ms(2_000)
    second = driver.join(version=3)
    driver.pass_ms(1_000)
    assert first.waits, "a member came, so the delay starts again"
    driver.pass_ms(3_000)
    assert first.answer.generation_id == second.answer.generation_id == 1


def test_the_first_rebalance_waits_no_longer_than_the_rebalance_timeout() -> None:
    driver = Driver(PATIENT)
    joins = [driver.join(version=3, rebalance_ms=7_000)]
    for _ in range(9):
        driver.pass_ms(1_000)
        joins.append(driver.join(version=3, rebalance_ms=7_000))
    assert all(not join.waits for join in joins[:7])


@pytest.mark.parametrize("session_ms", [0, 5_999, 1_800_001])
def test_session_timeouts_have_bounds(session_ms: int) -> None:
    driver = Driver()
    assert driver.join(session_ms=session_ms).code == errors.InvalidSessionTimeout.code


def test_only_the_leader_gets_the_members() -> None:
    driver = Driver()
    (first, led), (second, followed) = driver.member(), driver.member()
    driver.pass_ms(1)
    assert [each.member_id for each in led.answer.members] == [first, second]
    assert led.answer.members[0].metadata == RANGE["range"]
    assert followed.answer.members == []
    assert followed.answer.leader == first


def test_a_sync_with_another_protocol_is_inconsistent() -> None:
    driver = Driver()
    [member] = driver.stable(1)
    for fields in ({"protocol_type": "connect"}, {"protocol_name": "sticky"}):
        assert driver.sync(member, 1, **fields).code == errors.InconsistentGroupProtocol.code
    fine = driver.sync(member, 1, protocol_type="consumer", protocol_name="range")
    assert fine.answer.assignment == member.encode()
    assert (fine.answer.protocol_type, fine.answer.protocol_name) == ("consumer", "range")


def test_a_sync_during_the_join_phase_gets_rebalance_in_progress() -> None:
    driver = Driver()
    [member] = driver.stable(1)
    driver.member()
    assert driver.sync(member, 1).code == errors.RebalanceInProgress.code


def test_a_member_that_the_leader_leaves_out_gets_empty_bytes() -> None:
    driver = Driver()
    leader, follower = driver.member()[0], driver.member()[0]
    driver.pass_ms(1)
    waiting = driver.sync(follower, 1)
    assert waiting.waits
    assert driver.sync(leader, 1, {leader: b"all"}).answer.assignment == b"all"
    assert waiting.answer.assignment == b""


def test_a_heartbeat_is_fine_while_the_rebalance_completes() -> None:
    driver = Driver()
    member, _ = driver.member()
    driver.pass_ms(1)
    assert driver.group().state == "CompletingRebalance"
    assert driver.heartbeat(member, 1).code == errors.NONE


def test_a_heartbeat_keeps_the_session_while_a_rebalance_is_prepared() -> None:
    driver = Driver()
    [member] = driver.stable(1, session_ms=10_000, rebalance_ms=60_000)
    driver.member()
    for _ in range(5):
        driver.pass_ms(9_000)
        assert driver.heartbeat(member, 1).code == errors.RebalanceInProgress.code
    assert member in driver.group().members


def test_a_static_member_that_comes_back_replaces_itself_without_a_rebalance() -> None:
    driver = Driver()
    [old] = driver.stable(1, instance="i1")
    again = driver.join(instance="i1").answer
    assert again.member_id not in ("", old)
    assert (again.generation_id, again.leader, again.skip_assignment) == (1, again.member_id, True)
    assert driver.group().state == "Stable"
    assert driver.sync(again.member_id, 1).answer.assignment == old.encode()


def test_the_member_that_was_replaced_is_fenced_everywhere() -> None:
    driver = Driver()
    [old] = driver.stable(1, instance="i1")
    driver.join(instance="i1")
    for ticket in (
        driver.heartbeat(old, 1, instance="i1"),
        driver.sync(old, 1, group_instance_id="i1"),
        driver.commit({("t", 0): 1}, old, 1, instance="i1"),
        driver.join(old, instance="i1"),
    ):
        assert ticket.code == errors.FencedInstanceId.code


def test_the_waiting_request_of_a_replaced_member_is_answered() -> None:
    driver = Driver()
    waiting = driver.join(instance="i1")
    driver.join(instance="i1")
    assert waiting.code == errors.FencedInstanceId.code


def test_older_clients_are_told_their_former_id_as_the_leader() -> None:
    driver = Driver()
    [old] = driver.stable(1, instance="i1")
    again = driver.join(instance="i1", version=8).answer
    assert (again.leader, again.members, again.skip_assignment) == (old, [], False)


@pytest.mark.parametrize("leads", [True, False], ids=["leader", "follower"])
def test_a_static_member_with_another_subscription_waits_until_it_joins_again(leads: bool) -> None:
    """As in Kafka, which compares only the protocol's name. Java's consumer joins again in its new generation."""
    driver = Driver()
    ids = [driver.member(instance=instance)[0] for instance in ("i1", "i2")]
    driver.pass_ms(10)
    driver.settle(ids)
    instance, generation = "i1" if leads else "i2", driver.group().generation
    back = driver.join(instance=instance, protocols={"range": subscription("u")}).answer
    assert (back.generation_id, back.skip_assignment) == (generation, leads)
    assert driver.group().state == "Stable"
    told = driver.join(back.member_id, instance=instance, protocols={"range": subscription("u") + b"again"})
    assert driver.group().state == "PreparingRebalance"
    driver.join(ids[1] if leads else ids[0], instance="i2" if leads else "i1")
    assert told.answer.generation_id == generation + 1


def test_a_static_member_with_other_protocols_starts_a_rebalance() -> None:
    driver = Driver()
    both = {"range": subscription("t"), "sticky": subscription("t")}
    driver.stable(1, instance="i1", protocols=both)
    again = driver.join(instance="i1", protocols={"sticky": subscription("t")})
    driver.pass_ms(1)
    assert again.answer.protocol_name == "sticky"
    assert again.answer.generation_id == 2


def test_a_replacement_that_cannot_be_written_does_not_happen() -> None:
    driver = Driver()
    [old] = driver.stable(1, instance="i1")
    driver.refuse = errors.CoordinatorNotAvailable
    assert driver.join(instance="i1").code == errors.CoordinatorNotAvailable.code
    assert driver.heartbeat(old, 1, instance="i1").code == errors.NONE


def test_a_static_member_keeps_its_place_without_joining_until_its_session_ends() -> None:
    driver = Driver()
    [quiet] = driver.stable(1, instance="i1", session_ms=20_000, rebalance_ms=5_000)
    loud, joined = driver.member(session_ms=60_000, rebalance_ms=5_000)
    driver.pass_ms(5_000)
    assert {each.member_id for each in joined.answer.members} == {quiet, loud}


def test_each_leaving_member_has_its_own_outcome() -> None:
    driver = Driver()
    first, second = driver.stable(2)
    outcomes = driver.leave((first, None), ("nobody", None)).answer
    assert [each.error_code for each in outcomes] == [0, errors.UnknownMemberId.code]
    assert driver.heartbeat(second, 1).code == errors.RebalanceInProgress.code


def test_a_static_member_can_be_removed_by_its_instance_id_alone() -> None:
    driver = Driver()
    driver.stable(1, instance="i1")
    outcomes = driver.leave(("", "i1"), ("", "i2"), ("someone", "i1")).answer
    assert [each.error_code for each in outcomes] == [
        errors.NONE,
        errors.UnknownMemberId.code,
        errors.UnknownMemberId.code,
    ]
    assert driver.group().state == "Empty"


def test_leaving_fails_the_pending_join_of_the_member() -> None:
    driver = Driver()
    driver.stable(1)
    member, joining = driver.member()
    driver.leave((member, None))
    assert joining.code == errors.UnknownMemberId.code


def test_a_client_that_is_not_a_member_commits_only_to_an_empty_group() -> None:
    driver = Driver()
    assert driver.commit({("t", 0): 5}).code == errors.NONE
    [member] = driver.stable(1)
    assert driver.commit({("t", 0): 6}).code == errors.UnknownMemberId.code
    driver.leave((member, None))
    assert driver.commit({("t", 0): 7}).code == errors.NONE
    assert driver.committed() == {("t", 0): 7}


def test_a_commit_while_the_rebalance_completes_is_refused() -> None:
    driver = Driver()
    member, _ = driver.member()
    driver.pass_ms(1)
    refused = driver.commit({("t", 0): 5}, member, 1)
    assert refused.code == errors.RebalanceInProgress.code


def test_a_commit_while_a_rebalance_is_prepared_counts_and_keeps_the_session() -> None:
    driver = Driver()
    [member] = driver.stable(1, session_ms=10_000)
    driver.member()
    driver.pass_ms(9_000)
    assert driver.commit({("t", 0): 5}, member, 1).code == errors.NONE
    driver.pass_ms(9_000)
    assert member in driver.group().members


@pytest.mark.parametrize(
    ("metadata", "code"),
    [("x" * 4096, 0), ("x" * 4097, 12), ("\N{GRINNING FACE}" * 2048, 0), (None, 0)],
)
def test_metadata_is_measured_as_java_does(metadata: str | None, code: int) -> None:
    driver = Driver()
    [topic] = driver.commit({("t", 0): 5}, metadata=metadata).answer.topics
    assert topic.partitions[0].error_code == code
    assert bool(driver.shard.groups) == (code == errors.NONE)


def test_a_missing_offset_is_minus_one_without_error() -> None:
    driver = Driver()
    ticket = driver.send(lambda result: driver.shard.fetch(OffsetsAsked("", [("t", [0, 1])]), result))
    [(topic, offsets)] = ticket.answer
    assert topic == "t"
    assert [(each.offset, each.metadata) for each in offsets.values()] == [(-1, ""), (-1, "")]


def test_the_empty_group_id_may_commit() -> None:
    driver = Driver()
    assert driver.commit({("t", 0): 5}, group="").code == errors.NONE
    assert driver.committed(group="") == {("t", 0): 5}


def test_an_unknown_group_is_not_found() -> None:
    driver = Driver()
    ticket = driver.send(lambda result: driver.shard.describe("nobody", result))
    assert ticket.code == errors.GroupIdNotFound.code


def test_metadata_is_only_shown_of_a_stable_group() -> None:
    driver = Driver(QUICK)
    [member] = driver.stable(1)
    shown = describing.describe(driver.group())
    assert (shown.group_state, shown.protocol_data) == ("Stable", "range")
    assert shown.members[0].member_metadata == RANGE["range"]
    assert shown.members[0].member_assignment == member.encode()
    driver.member()
    shown = describing.describe(driver.group())
    assert (shown.group_state, shown.protocol_data) == ("PreparingRebalance", "")
    assert all(not each.member_metadata for each in shown.members)


def test_a_member_with_more_protocols_than_any_client_has_is_refused() -> None:
    """One turn of the loop compares each protocol with those of the other members."""
    driver = Driver()
    protocols = {f"protocol-{number}": b"" for number in range(101)}
    assert driver.join(protocols=protocols).code == errors.InvalidRequest.code
    del protocols["protocol-100"]
    assert driver.join(protocols=protocols).code == errors.MemberIdRequired.code


def test_the_metadata_of_a_member_are_limited_by_its_groups_record() -> None:
    """The defect: each member of 90 MB was kept until its session ended."""
    driver = Driver()
    half = b"x" * (1 << 19)
    assert driver.join(protocols={"range": half, "sticky": half + b"x"}).code == errors.InvalidRequest.code
    assert driver.join(protocols={"range": half, "sticky": half}).code != errors.InvalidRequest.code
