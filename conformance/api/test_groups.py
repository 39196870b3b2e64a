"""The classic group protocol, frame by frame: semantics 25–33, cases 41, 42 and 44."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from harness.clients.members import Member, committed, describe, find_coordinator, subscription
from harness.protocol import error_codes, kinds
from harness.protocol.error_codes import (
    FENCED_INSTANCE_ID,
    ILLEGAL_GENERATION,
    INCONSISTENT_GROUP_PROTOCOL,
    INVALID_SESSION_TIMEOUT,
    MEMBER_ID_REQUIRED,
    OFFSET_METADATA_TOO_LARGE,
    REBALANCE_IN_PROGRESS,
    UNKNOWN_MEMBER_ID,
)
from harness.protocol.wire_client import Wire
from harness.servers.brokers import Broker
from harness.waiting import until


@pytest.fixture
def member(broker: Broker, group: str, wire: Wire) -> Iterator[Member]:
    """Returns a member that has not joined yet, of a group whose coordinator has loaded."""
    find_coordinator(wire, group)
    with Member(broker, group) as one:
        yield one


def send_join(member: Member, version: int) -> int:
    """Sends one join and returns its error code, without a retry."""
    member._send_join(version)
    reply = member.wire.reply("JoinGroup", version)
    member.member_id = reply.member_id or member.member_id
    return int(reply.error_code)


@pytest.mark.parametrize("version", range(4, 10))
def test_semantic_25_a_first_join_returns_a_member_id_for_the_next_join(member: Member, version: int) -> None:
    assert send_join(member, version) == MEMBER_ID_REQUIRED
    assert member.member_id
    assert member.join(version).error_code == 0


@pytest.mark.parametrize("version", range(4))
def test_semantic_25_older_clients_join_at_once(member: Member, version: int) -> None:
    reply = member.join(version)
    assert reply.error_code == 0
    assert reply.member_id == reply.leader == reply.members[0].member_id


def test_semantic_25_an_unknown_member_id_is_refused(member: Member) -> None:
    member.member_id = "somebody"
    assert send_join(member, 7) == UNKNOWN_MEMBER_ID


@pytest.mark.parametrize("session_ms", [1, 5_999, 1_800_001])
def test_semantic_26_session_timeouts_have_bounds(member: Member, session_ms: int) -> None:
    member.session_timeout_ms = session_ms
    assert send_join(member, 7) == INVALID_SESSION_TIMEOUT


@pytest.fixture
def pair(broker: Broker, member: Member) -> Iterator[tuple[Member, Member]]:
    """Returns two members of a stable group. The first is its leader."""
    member.join_alone()
    with Member(broker, member.group) as second:
        second.post_join()
        until(lambda: member.heartbeat() == REBALANCE_IN_PROGRESS, "the call for a round")
        member.post_join()
        assert member.joined().error_code == second.joined().error_code == 0
        second.post_sync()
        assert member.sync({member.member_id: b"a", second.member_id: b"b"}).error_code == 0
        assert second.wire.reply("SyncGroup", 5).assignment == b"b"
        yield member, second


def test_semantic_26_followers_get_no_member_list(pair: tuple[Member, Member]) -> None:
    leader, follower = pair
    assert len(leader.members) == 2
    assert follower.members == []


def test_semantic_27_a_sync_of_another_protocol_is_refused(member: Member) -> None:
    assert member.join().error_code == 0
    member.protocol_type = "connect"
    assert member.sync({member.member_id: b""}).error_code == INCONSISTENT_GROUP_PROTOCOL


def test_semantic_27_members_that_the_leader_omits_get_an_empty_assignment(broker: Broker, member: Member) -> None:
    member.join_alone()
    with Member(broker, member.group) as second:
        second.post_join()
        until(lambda: member.heartbeat() == REBALANCE_IN_PROGRESS, "the call for a round")
        member.post_join()
        member.joined()
        second.joined()
        member.sync({member.member_id: b"all"})
        reply = second.sync()
        assert (reply.error_code, reply.assignment) == (0, b"")


def test_semantic_27_a_sync_of_an_old_generation_is_refused(member: Member) -> None:
    member.join_alone()
    member.generation -= 1
    assert member.sync().error_code == ILLEGAL_GENERATION


def test_semantic_28_heartbeats_between_join_and_sync_succeed(member: Member) -> None:
    assert member.join().error_code == 0
    assert member.heartbeat() == 0


def test_semantic_28_heartbeats_report_a_rebalance_when_a_member_joins(broker: Broker, member: Member) -> None:
    member.join_alone()
    assert member.heartbeat() == 0
    with Member(broker, member.group) as second:
        second.post_join()
        until(lambda: member.heartbeat() == REBALANCE_IN_PROGRESS, "the call for a round")


@pytest.mark.parametrize("version", range(5))
def test_case_41_requests_of_evicted_members_are_refused(member: Member, version: int) -> None:
    member.join_alone()
    plain = {} if version >= 3 else {"group_instance_id": None}
    assert member.heartbeat(version, **plain) == 0
    assert member.heartbeat(version, member_id="zombie", **plain) == UNKNOWN_MEMBER_ID
    old = {"generation_id": member.generation - 1}
    assert member.heartbeat(version, **old, **plain) == ILLEGAL_GENERATION


def test_case_41_commits_of_evicted_members_are_refused(member: Member, topic: str) -> None:
    member.join_alone()
    assert member.commit(topic, 5) == 0
    assert member.commit(topic, 1, generation_id_or_member_epoch=member.generation - 1) == ILLEGAL_GENERATION
    assert member.commit(topic, 1, member_id="zombie") == UNKNOWN_MEMBER_ID
    assert committed(member.wire, member.group, topic) == 5


def test_semantic_29_a_returning_static_member_fences_its_old_instance(
    broker: Broker, group: str, wire: Wire, topic: str
) -> None:
    find_coordinator(wire, group)
    with Member(broker, group, instance_id="i-1") as old, Member(broker, group, instance_id="i-1") as new:
        old.join_alone()
        reply = new.join()
        assert reply.error_code == 0
        assert new.member_id != old.member_id
        assert new.generation == old.generation
        assert old.heartbeat() == FENCED_INSTANCE_ID
        assert old.commit(topic, 1) == FENCED_INSTANCE_ID
        assert new.sync().assignment == b"everything"
        assert new.heartbeat() == 0


def test_semantic_30_members_are_removed_by_instance_id_and_each_has_its_error(
    broker: Broker, group: str, wire: Wire
) -> None:
    find_coordinator(wire, group)
    with Member(broker, group, instance_id="i-1") as one:
        one.join_alone()
        rows = [
            {"member_id": "", "group_instance_id": "i-1"},
            {"member_id": "nobody", "group_instance_id": None},
            {"member_id": "", "group_instance_id": "i-2"},
        ]
        reply = wire.ask("LeaveGroup", 4, group_id=group, members=rows)
        assert reply.error_code == 0
        assert [row.error_code for row in reply.members] == [0, UNKNOWN_MEMBER_ID, UNKNOWN_MEMBER_ID]
        assert describe(wire, group).group_state == "Empty"


def test_semantic_31_commits_without_a_generation_need_an_empty_group(
    broker: Broker, member: Member, topic: str
) -> None:
    assert member.commit_outside(topic, 3) == 0
    assert committed(member.wire, member.group, topic) == 3
    member.join_alone()
    assert member.commit_outside(topic, 4) == UNKNOWN_MEMBER_ID
    assert member.commit(topic, 5) == 0
    assert member.leave() == 0
    assert member.commit_outside(topic, 6) == 0
    assert committed(member.wire, member.group, topic) == 6


def test_semantic_31_commits_between_join_and_sync_are_refused(member: Member, topic: str) -> None:
    assert member.join().error_code == 0
    assert member.commit(topic, 3) == REBALANCE_IN_PROGRESS


def test_semantic_31_case_44_metadata_of_an_offset_has_a_maximum_size(member: Member, topic: str) -> None:
    member.join_alone()
    assert member.commit(topic, 3, metadata="x" * 4_096) == 0
    assert member.commit(topic, 4, metadata="x" * 4_097) == OFFSET_METADATA_TOO_LARGE
    assert committed(member.wire, member.group, topic) == 3


@pytest.mark.parametrize("version", range(1, 8))
def test_semantic_32_a_missing_offset_is_returned_as_minus_one_without_an_error(
    member: Member, topic: str, version: int
) -> None:
    rows = [{"name": topic, "partition_indexes": [0]}]
    reply = member.wire.ask("OffsetFetch", version, group_id=member.group, topics=rows)
    row = reply.topics[0].partitions[0]
    assert (row.error_code, row.committed_offset, row.metadata) == (0, -1, "")


@pytest.mark.parametrize("version", [8, 9])
def test_semantic_32_offsets_of_several_groups_are_fetched_at_once(
    broker: Broker, member: Member, topic: str, version: int
) -> None:
    other = member.group + "-other"
    find_coordinator(member.wire, other)
    member.join_alone()
    member.commit(topic, 12, metadata="note")
    rows = [{"name": topic, "partition_indexes": [0]}]
    groups = [{"group_id": name, "topics": rows} for name in (member.group, other)]
    reply = member.wire.ask("OffsetFetch", version, groups=groups)
    found = {row.group_id: row.topics[0].partitions[0] for row in reply.groups}
    assert found[member.group].committed_offset == 12
    assert found[member.group].metadata == "note"
    assert found[other].committed_offset == -1


def test_semantic_32_a_null_topic_list_fetches_all_offsets_of_a_group(member: Member, topic: str) -> None:
    member.join_alone()
    member.commit(topic, 12)
    reply = member.wire.ask("OffsetFetch", 5, group_id=member.group, topics=None)
    assert [(row.name, row.partitions[0].committed_offset) for row in reply.topics] == [(topic, 12)]


def test_semantic_33_an_unknown_group_is_described_as_dead(wire: Wire, group: str) -> None:
    found = describe(wire, group)
    assert (found.error_code, found.group_state) == (0, "Dead")
    fields = {"groups": [group], "include_authorized_operations": False}
    assert wire.ask("DescribeGroups", 6, **fields).groups[0].error_code == error_codes.GROUP_ID_NOT_FOUND


def test_a_group_is_described_with_its_members(pair: tuple[Member, Member], wire: Wire) -> None:
    leader, _ = pair
    found = describe(wire, leader.group)
    assert (found.group_state, found.protocol_type, found.protocol_data) == ("Stable", "consumer", "range")
    assert {row.member_assignment for row in found.members} == {b"a", b"b"}
    assert {row.client_id for row in found.members} == {"raw"}
    assert {row.client_host for row in found.members} == {"/127.0.0.1"}
    assert {row.member_metadata for row in found.members} == {subscription()}


@pytest.mark.parametrize("version", range(6))
def test_groups_are_listed(member: Member, version: int) -> None:
    member.join_alone()
    found = {row.group_id: row for row in member.wire.ask("ListGroups", version).groups}
    assert found[member.group].protocol_type == "consumer"
    if version >= 4:
        assert found[member.group].group_state == "Stable"
        fields = {"states_filter": ["Empty"]}
        empty = member.wire.ask("ListGroups", version, **fields).groups
        assert member.group not in {row.group_id for row in empty}


def test_only_empty_groups_are_deleted(member: Member, topic: str) -> None:
    member.join_alone()
    member.commit(topic, 4)
    ask = member.wire.ask
    assert ask("DeleteGroups", 2, groups_names=[member.group]).results[0].error_code == error_codes.NON_EMPTY_GROUP
    member.leave()
    assert ask("DeleteGroups", 2, groups_names=[member.group]).results[0].error_code == 0
    assert ask("DeleteGroups", 2, groups_names=[member.group]).results[0].error_code == error_codes.GROUP_ID_NOT_FOUND
    assert committed(member.wire, member.group, topic) == -1


def test_coordinators_are_found_one_by_one_and_many_at_once(broker: Broker, wire: Wire, group: str) -> None:
    assert (find_coordinator(wire, group).host, find_coordinator(wire, group).port) == broker.address
    reply = wire.ask("FindCoordinator", 4, key_type=kinds.GROUP, coordinator_keys=[group, group + "-2"])
    assert [(row.key, row.node_id, row.error_code) for row in reply.coordinators] == [
        (group, 1, 0),
        (group + "-2", 1, 0),
    ]
