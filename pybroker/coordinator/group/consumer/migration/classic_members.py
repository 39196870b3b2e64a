"""Members of a consumer group that use the classic protocol: JoinGroup, SyncGroup, Heartbeat.

For them a member epoch is a generation, and the coordinator acts as a leader that has already assigned. A JoinGroup
moves the member into the next epoch at once, with an empty list of members. SyncGroup returns its assignment. If a
member has to take another step, its heartbeat is answered with REBALANCE_IN_PROGRESS. Then it has deadlines, first to
join, then to sync.
"""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

from cy.wire.buffer import DecodeError
from pybroker.coordinator.group.consumer import (
    expecting,
    heartbeating,
    leaving,
    targeting,
)
from pybroker.coordinator.group.consumer.group import CONSUMER_PROTOCOL, ConsumerGroup
from pybroker.coordinator.group.consumer.member import (
    ClassicFacts,
    ConsumerMember,
    MemberState,
)
from pybroker.coordinator.group.consumer.migration import downgrading
from pybroker.coordinator.group.consumer.reconciling import Claimed
from pybroker.coordinator.group.consumer.timeouts import Wait
from pybroker.coordinator.group.join_responses import refusal
from pybroker.coordinator.group.joining import Join
from pybroker.coordinator.group.members import Protocols
from pybroker.coordinator.shard import Result
from pyclient.protocol import Heartbeat, JoinGroup, LeaveGroup, SyncGroup, errors
from pyclient.protocol.errors import KafkaError
from pyclient.protocol.records import ConsumerProtocolSubscription

_FIRST_WITH_KNOWN_MEMBER_IDS = 4


class _Joining(NamedTuple):
    """A parsed JoinGroup request of a classic member."""

    member_id: str
    said: ConsumerProtocolSubscription
    join: Join


def join(group: ConsumerGroup, join: Join, result: Result) -> None:
    """Handles a JoinGroup, which is answered at once.

    Raises InconsistentGroupProtocol, GroupMaxSizeReached, UnknownMemberId, FencedInstanceId.
    """
    request = join.request
    if not group.context.settings.may_migrate:
        raise errors.InconsistentGroupProtocol(
            f"Cannot join the consumer group {group.id} with the classic protocol "
            "because the group migration is disabled."
        )
    member_id = request.member_id or group.context.new_id()
    heartbeating.check_room(group, member_id)
    _check_supported(group, request.protocol_type, join.protocols)
    instance_id = request.group_instance_id
    if (
        not request.member_id
        and instance_id is None
        and join.caller.version >= _FIRST_WITH_KNOWN_MEMBER_IDS
    ):
        result.answer(refusal(errors.MemberIdRequired, member_id))
        return
    _join(group, _Joining(member_id, _read(join.protocols), join), result)


def _check_supported(group: ConsumerGroup, protocol_type: str, protocols: Protocols) -> None:
    known = group.classic_protocols
    agreed = any(known.get(name, 0) == group.classic_members for name, _ in protocols)
    if protocol_type != CONSUMER_PROTOCOL or not agreed:
        why = f"no protocol of this member is supported by all members of group {group.id}"
        raise errors.InconsistentGroupProtocol(why)


def _read(protocols: Protocols) -> ConsumerProtocolSubscription:
    try:
        return ConsumerProtocolSubscription.decode(protocols[0][1])
    except DecodeError as error:
        raise errors.UnknownServerError("the embedded consumer protocol is malformed") from error


def _join(group: ConsumerGroup, joining: _Joining, result: Result) -> None:
    before, replaced = _member(group, joining, result)
    updated = _updated(before, joining)
    heartbeating.check_size(group, updated)
    epoch, subscriptions, changed = heartbeating.subscribe(
        group, before, updated, result, joining.join.caller.sees, bumps_unresolved=True
    )
    after = updated
    is_behind = group.assignment_epoch < epoch  # # then a classic group makes the next assignment itself
    downgrades = is_behind and downgrading.follows_from_replacing(group, replaced, after, result)
    if not downgrades:
        change = targeting.Change(heartbeating.known(group, before), updated)
        goal = targeting.update(group, epoch, change, subscriptions, result)
        claimed = _claimed(group, joining.said)
        after = heartbeating.advance(group, updated, goal, subscriptions, claimed, changed, result)
        downgrades = not is_behind and downgrading.follows_from_replacing(group, replaced, after, result)
    expecting.expect_nothing(group, after.id, result)
    expecting.expect_nothing_replaced(group, after, result)
    if downgrades:
        assert replaced is not None
        downgrading.downgrade_with(group, replaced, after, is_behind, result)
    else:
        expecting.touch(group, after, result)
        expecting.expect(group, after, Wait.SYNC, result)
    result.reads = True
    result.answer(_response(after))


def _member(
    group: ConsumerGroup, joining: _Joining, result: Result
) -> tuple[ConsumerMember, ConsumerMember | None]:
    """Returns the member before the join, and the static member that had its instance id, if any."""
    instance_id = joining.join.request.group_instance_id
    member_id = joining.member_id
    if instance_id is None:
        return group.members.get(member_id) or ConsumerMember(member_id), None
    before = group.static_member(instance_id)
    if joining.join.request.member_id:
        return leaving.leaving_member(group, member_id, instance_id), before
    return heartbeating.static_joiner(group, member_id, instance_id, True, result), before


def _updated(member: ConsumerMember, joining: _Joining) -> ConsumerMember:
    join, said = joining.join, joining.said
    timeout_ms = join.rebalance_timeout_ms
    instance_id = join.request.group_instance_id
    updated = replace(
        member,
        instance_id=member.instance_id if instance_id is None else instance_id,
        rack_id=said.rack_id or member.rack_id,
        rebalance_timeout_ms=member.rebalance_timeout_ms if timeout_ms == -1 else timeout_ms,
        topics=frozenset(said.topics),
        regex="",
        client_id=join.caller.client_id,
        client_host=join.caller.client_host,
        classic=ClassicFacts(join.request.session_timeout_ms, join.protocols),
    )
    return member if updated == member else updated


def _claimed(group: ConsumerGroup, said: ConsumerProtocolSubscription) -> Claimed:
    image = group.context.topics.image
    return {
        topic.id: frozenset(each.partitions)
        for each in said.owned_partitions
        if (topic := image.topic(each.topic)) is not None
    }


def _response(member: ConsumerMember) -> JoinGroup.Response:
    assert member.classic is not None
    return JoinGroup.Response(
        generation_id=member.epoch,
        protocol_type=CONSUMER_PROTOCOL,
        protocol_name=member.classic.protocols[0][0],
        member_id=member.id,
    )


# In a generation


def sync(group: ConsumerGroup, request: SyncGroup.Request, result: Result) -> None:
    """Handles a SyncGroup: returns the member's assignment.

    Raises UnknownMemberId, FencedInstanceId, IllegalGeneration, InconsistentGroupProtocol, RebalanceInProgress.
    """
    if group.is_empty:
        raise errors.UnknownMemberId(f"group {group.id} has no members")
    member, classic = _classic(group, request.member_id, request.group_instance_id)
    _check_generation(member, request.generation_id)
    name, metadata = classic.protocols[0]
    if request.protocol_type not in (None, CONSUMER_PROTOCOL):
        raise errors.InconsistentGroupProtocol(f"group {group.id} has the protocol type {CONSUMER_PROTOCOL}")
    if request.protocol_name not in (None, name):
        raise errors.InconsistentGroupProtocol(f"member {member.id} must use the protocol {name}")
    if group.assignment_epoch > member.epoch and member.state is not MemberState.UNREVOKED:
        _expect_join(group, member, result)
        raise errors.RebalanceInProgress(
            f"A new rebalance is triggered in group {group.id} "
            f"and member {member.id} should rejoin to catch up."
        )
    group.context.timeouts.stop(group.id, member.id, Wait.SYNC)
    expecting.touch(group, member, result)
    version = int.from_bytes(metadata[:2], "big")
    result.reads = True
    result.answer(
        SyncGroup.Response(
            protocol_type=request.protocol_type,
            protocol_name=request.protocol_name,
            assignment=downgrading.assigned_bytes(group, member.assigned, version),
        )
    )


def heartbeat(group: ConsumerGroup, request: Heartbeat.Request, result: Result) -> None:
    """Handles a Heartbeat. Raises UnknownMemberId, FencedInstanceId, IllegalGeneration."""
    member, _ = _classic(group, request.member_id, request.group_instance_id)
    _check_generation(member, request.generation_id)
    expecting.touch(group, member, result)
    code = errors.NONE
    if _has_to_join(group, member):
        code = errors.RebalanceInProgress.code
        _expect_join(group, member, result)
    result.reads = True
    result.answer(Heartbeat.Response(error_code=code))


def _has_to_join(group: ConsumerGroup, member: ConsumerMember) -> bool:
    if member.epoch < group.assignment_epoch or member.state is MemberState.UNREVOKED:
        return True
    return member.state is MemberState.UNRELEASED and not _waits_for_others(group, member)


def _waits_for_others(group: ConsumerGroup, member: ConsumerMember) -> bool:
    return any(
        partition not in member.assigned.get(topic_id, ()) and group.is_owned(topic_id, partition)
        for topic_id, partitions in group.targets.get(member.id, {}).items()
        for partition in partitions
    )


def _expect_join(group: ConsumerGroup, member: ConsumerMember, result: Result) -> None:
    if not group.context.timeouts.waits(group.id, member.id, Wait.JOIN):
        expecting.expect(group, member, Wait.JOIN, result)


def _classic(
    group: ConsumerGroup, member_id: str, instance_id: str | None
) -> tuple[ConsumerMember, ClassicFacts]:
    member = leaving.leaving_member(group, member_id, instance_id)
    if member.classic is None:
        raise errors.UnknownMemberId(f"Member {member.id} does not use the classic protocol.")
    return member, member.classic


def _check_generation(member: ConsumerMember, generation: int) -> None:
    if generation != member.epoch:
        raise errors.IllegalGeneration(
            f"The request generation id {generation} is not equal to the member epoch "
            f"{member.epoch} of member {member.id}."
        )


def leave(
    group: ConsumerGroup, members: list[LeaveGroup.Request.MemberIdentity], result: Result
) -> list[LeaveGroup.Response.MemberResponse]:
    """Handles a LeaveGroup; returns an outcome for each member. Members of both protocols may be named."""
    outcomes, gone = [], {}
    for identity in members:
        outcome = LeaveGroup.Response.MemberResponse(
            member_id=identity.member_id, group_instance_id=identity.group_instance_id
        )
        try:
            member = _leaving(group, identity)
            gone[member.id] = member
        except KafkaError as error:
            outcome.error_code = error.code
        outcomes.append(outcome)
    leaving.fence(group, list(gone.values()), result)
    return outcomes


def _leaving(
    group: ConsumerGroup, identity: LeaveGroup.Request.MemberIdentity
) -> ConsumerMember:
    """Returns the named member; an administrator names static members by instance id only."""
    member = group.static_member(identity.group_instance_id)
    if member is not None and not identity.member_id:
        return member
    return leaving.leaving_member(group, identity.member_id, identity.group_instance_id)
