"""Zombies, late members and failing writes, by the numbers of the list of faults."""

from __future__ import annotations

from typing import Any

import pytest

from pybroker.coordinator.group.tests.driver import Driver, subscription
from pyclient.protocol import errors


def test_case_41_a_commit_of_an_old_generation_is_refused() -> None:
    driver = Driver()
    [member] = driver.stable(1)
    assert driver.commit({("t", 0): 9}, member, 1).code == errors.NONE
    _, joined = driver.member()
    rejoined = driver.join(member)
    assert joined.answer.generation_id == rejoined.answer.generation_id == 2
    driver.settle([each.id for each in driver.group().members])
    assert driver.commit({("t", 0): 5}, member, 1).code == errors.IllegalGeneration.code
    assert driver.committed() == {("t", 0): 9}


def test_case_41_a_commit_of_an_unknown_member_is_refused() -> None:
    driver = Driver()
    driver.stable(1)
    assert driver.commit({("t", 0): 5}, "zombie", 1).code == errors.UnknownMemberId.code


def test_case_41_a_member_whose_session_has_ended_cannot_commit() -> None:
    driver = Driver()
    [member] = driver.stable(1, session_ms=10_000)
    driver.pass_ms(10_000)
    assert driver.commit({("t", 0): 5}, member, 1).code == errors.UnknownMemberId.code
    assert driver.committed() == {}


def test_case_41_a_commit_during_a_rebalance_is_refused() -> None:
    driver = Driver()
    member, _ = driver.member()
    driver.pass_ms(1)
    assert driver.commit({("t", 0): 5}, member, 1).code == errors.RebalanceInProgress.code


def test_case_41_a_duplicate_static_member_is_fenced() -> None:
    driver = Driver()
    [old] = driver.stable(1, instance="i1")
    driver.join(instance="i1")
    refused = driver.commit({("t", 0): 5}, old, 1, instance="i1")
    assert refused.code == errors.FencedInstanceId.code


def test_case_41_commits_of_a_group_that_is_gone_are_refused_by_version() -> None:
    driver = Driver()
    old = driver.commit({("t", 0): 5}, "zombie", 4, version=8)
    new = driver.commit({("t", 0): 5}, "zombie", 4, version=9)
    assert (old.code, new.code) == (errors.IllegalGeneration.code, errors.GroupIdNotFound.code)


def test_case_42_a_committed_offset_never_goes_back_over_a_failover() -> None:
    driver = Driver()
    [member] = driver.stable(1)
    for offset in (3, 7, 12):
        driver.commit({("t", 0): offset, ("t", 1): offset * 2}, member, 1)
    driver.refuse = errors.NotCoordinator
    assert driver.commit({("t", 0): 1}, member, 1).code == errors.NotCoordinator.code
    assert driver.committed() == {("t", 0): 12, ("t", 1): 24}
    assert Driver(log=driver.log).committed() == {("t", 0): 12, ("t", 1): 24}


def test_case_42_a_group_goes_on_under_the_next_coordinator() -> None:
    driver = Driver()
    first, second = driver.stable(2)
    after = Driver(log=driver.log)
    assert after.heartbeat(first, 1).code == errors.NONE
    assert after.sync(second, 1).answer.assignment == second.encode()
    assert after.commit({("t", 0): 5}, second, 1).code == errors.NONE


def test_case_42_members_that_do_not_come_back_after_a_failover_lose_their_session() -> None:
    driver = Driver()
    first, second = driver.stable(2, session_ms=10_000)
    after = Driver(log=driver.log)
    after.pass_ms(9_000)
    after.heartbeat(first, 1)
    after.pass_ms(1_000)
    assert after.heartbeat(first, 1).code == errors.RebalanceInProgress.code
    assert second not in after.group().members


def test_case_44_metadata_that_is_too_large_fails_only_its_own_partition() -> None:
    driver = Driver()
    ticket = driver.commit({("t", 0): 5}, metadata="x" * 4097)
    [topic] = ticket.answer.topics
    assert topic.partitions[0].error_code == errors.OffsetMetadataTooLarge.code
    assert driver.log == []


def test_assignments_that_cannot_be_written_are_not_sent_and_the_group_starts_again() -> None:
    driver = Driver()
    leader, follower = driver.member()[0], driver.member()[0]
    driver.pass_ms(1)
    waiting = driver.sync(follower, 1)
    driver.refuse = errors.CoordinatorNotAvailable
    refused = driver.sync(leader, 1, {leader: b"1", follower: b"2"})
    assert refused.code == waiting.code == errors.CoordinatorNotAvailable.code
    assert driver.heartbeat(leader, 1).code == errors.RebalanceInProgress.code
    driver.refuse = None
    joins = [driver.join(leader), driver.join(follower)]
    assert [each.answer.generation_id for each in joins] == [2, 2]
    driver.settle([leader, follower])


def test_a_commit_that_cannot_be_written_changes_nothing() -> None:
    driver = Driver()
    driver.commit({("t", 0): 5})
    driver.refuse = errors.CoordinatorNotAvailable
    assert driver.commit({("t", 0): 6}).code == errors.CoordinatorNotAvailable.code
    assert driver.committed() == {("t", 0): 5}


def test_a_refused_first_member_leaves_no_group() -> None:
    driver = Driver()
    assert driver.join(group="new", protocols={}).code == errors.InconsistentGroupProtocol.code
    assert "new" not in driver.shard.groups


LONG = "x" * 40_000


ASTRAL = "\N{GRINNING FACE}" * 8_191
"""A client id that fits into a request's text, but not together with the random part of a member id."""


@pytest.mark.parametrize(
    "long",
    [
        *({"instance": LONG}, {"instance": ASTRAL}, {"client": ASTRAL}, {"protocols": {LONG: b""}}, {"group": LONG}),
        {"member_id": "x" * 8_038},
    ],
)
def test_names_too_long_for_a_record_are_refused_at_once(long: dict[str, Any]) -> None:
    driver = Driver()
    assert driver.join(**long).code == errors.InvalidRequest.code
    assert not driver.shard.groups
    assert driver.join("x" * 8_037).code == errors.UnknownMemberId.code, "a broker may have made it"


def test_an_offset_that_is_to_be_kept_for_ever_is_kept() -> None:
    driver = Driver()
    assert driver.commit({("t", 0): 5}, retention_ms=2**63 - 1, version=4).code == 0
    assert driver.shard.offsets.of("g").get("t", 0).expires_ms == 2**63 - 1


@pytest.mark.parametrize("groups", [1, 7, 1_001])
def test_unused_member_ids_are_limited_and_removed_with_their_groups(groups: int) -> None:
    driver = Driver()
    first = driver.join(group="new0").answer.member_id
    for number in range(1, 1_001):
        assert driver.join(group=f"new{number % groups}").code == errors.MemberIdRequired.code
    driver.pass_ms(1)
    assert len(driver.shard.context.reserved) == 1_000
    assert sum(len(driver.group(each).pending) for each in driver.shard.groups) == 1_000
    assert ("new0" in driver.shard.groups) is (groups < 1_001)
    assert driver.join(first, group="new0").code == errors.UnknownMemberId.code
    driver.pass_ms(10_000)
    assert not driver.shard.groups
    assert not driver.shard.context.reserved
    assert not driver.log


@pytest.mark.parametrize("left", ["its own group", "another group"])
def test_unused_member_ids_are_limited_whichever_group_their_clients_leave(left: str) -> None:
    driver = Driver()
    others = driver.join(group="other").answer.member_id
    for number in range(1_100):
        member = driver.join(group=f"new{number}").answer.member_id
        group = "other" if left == "another group" else f"new{number}"
        code = errors.UnknownMemberId.code if left == "another group" else errors.NONE
        assert [each.error_code for each in driver.leave((member, None), group=group).answer] == [code]
    driver.pass_ms(1)
    pending = [id for each in driver.shard.groups for id in driver.group(each).pending]
    assert set(pending) == set(driver.shard.context.reserved)
    assert len(pending) == len(driver.shard.groups)
    assert (pending == [others]) is (left == "its own group")
    assert len(pending) <= 1_000


def test_a_group_with_offsets_stays_when_the_client_of_its_reserved_id_leaves() -> None:
    driver = Driver()
    driver.commit({("t", 0): 5})
    member = driver.join().answer.member_id
    assert [each.error_code for each in driver.leave((member, None)).answer] == [errors.NONE]
    assert driver.committed() == {("t", 0): 5}


def test_a_rebalance_does_not_wait_for_a_forgotten_member_id() -> None:
    driver = Driver()
    (member,) = driver.stable(1)
    new = driver.join(session_ms=60_000).answer.member_id
    waiting = driver.join(member, protocols={"range": subscription("u")})
    assert waiting.waits
    for number in range(1_000):
        driver.join(group=f"new{number}")
    driver.pass_ms(1)
    assert waiting.code == 0
    assert driver.join(new).code == errors.UnknownMemberId.code


def test_a_group_with_offsets_outlives_an_unused_member_id() -> None:
    driver = Driver()
    driver.commit({("t", 0): 5})
    driver.join()
    driver.pass_ms(10_000)
    assert driver.shard.groups
    assert driver.shard.offsets.of("g").get("t", 0).offset == 5
