"""SyncGroup, Heartbeat and LeaveGroup: the requests of a member in its generation."""

from __future__ import annotations

from functools import partial

from pybroker.coordinator.group.classic import ClassicGroup
from pybroker.coordinator.group.members import Member
from pybroker.coordinator.group.records import group_record
from pybroker.coordinator.group.state import COMPLETING, EMPTY, PREPARING, STABLE
from pybroker.coordinator.shard import Result
from pyclient.protocol import Heartbeat, LeaveGroup, SyncGroup, errors
from pyclient.protocol.errors import KafkaError


def sync(group: ClassicGroup, request: SyncGroup.Request, result: Result) -> None:
    """Answers with the member's assignment, now or when the leader has sent it.

    Raises UnknownMemberId, FencedInstanceId, IllegalGeneration, InconsistentGroupProtocol, RebalanceInProgress.
    """
    group.check_alive()
    member = group.members.known(request.member_id, request.group_instance_id)
    group.check_generation(request.generation_id)
    if request.protocol_type not in (None, group.protocol_type) or request.protocol_name not in (
        None,
        group.protocol,
    ):
        raise errors.InconsistentGroupProtocol(f"group {group.id} uses the protocol {group.protocol}")
    if group.state is PREPARING:
        raise errors.RebalanceInProgress
    group.synced(member)
    if group.state is STABLE:
        result.reads = True
        result.answer(_response(group, member.assignment))
    else:
        _wait(member, result)
        if member.id == group.members.leader_id:
            _assign(group, request, result)


def _wait(member: Member, result: Result) -> None:
    replaced = errors.RebalanceInProgress("the member has sent another SyncGroup")
    result.reply(member.sync_token, replaced)
    member.sync_token = result.token


def _assign(group: ClassicGroup, request: SyncGroup.Request, result: Result) -> None:
    """Takes the leader's assignments, and answers all members once the record is written.

    Members without an assignment of the leader get an empty one.
    """
    brought = {each.member_id: bytes(each.assignment) for each in request.assignments}
    assignments = {member.id: brought.get(member.id, b"") for member in group.members}
    result.on_failure = partial(_not_assigned, group)
    result.write(group_record(group, assignments))
    for member in group.members:
        if member.sync_token is not None:
            result.reply(member.sync_token, _response(group, assignments[member.id]))
            member.sync_token = None
            group.sessions.touch(member, result)


def _not_assigned(group: ClassicGroup, result: Result, error: KafkaError) -> None:
    """Begins another rebalance, because the assignments could not be written."""
    if group.state is COMPLETING:
        group.prepare_rebalance(result)


def _response(group: ClassicGroup, assignment: bytes) -> SyncGroup.Response:
    return SyncGroup.Response(
        protocol_type=group.protocol_type, protocol_name=group.protocol, assignment=assignment
    )


def heartbeat(group: ClassicGroup, request: Heartbeat.Request, result: Result) -> None:
    """Handles a Heartbeat.

    Raises UnknownMemberId, FencedInstanceId, IllegalGeneration, and RebalanceInProgress if the member should join
    again; it gets time for that.
    """
    group.check_alive()
    member = group.members.known(request.member_id, request.group_instance_id)
    group.check_generation(request.generation_id)
    if group.state is EMPTY:
        raise errors.UnknownMemberId(f"group {group.id} has no members")
    group.sessions.touch(member, result)
    if group.state is PREPARING:
        raise errors.RebalanceInProgress


def leave(
    group: ClassicGroup, members: list[LeaveGroup.Request.MemberIdentity], result: Result
) -> list[LeaveGroup.Response.MemberResponse]:
    """Removes several members that leave, or that an administrator removes; returns an outcome for each."""
    group.check_alive()
    outcomes = [_outcome(group, identity, result) for identity in members]
    left = any(outcome.error_code == errors.NONE for outcome in outcomes)
    if left and group.state is not EMPTY:
        group.react(result)
    elif left:
        group.go_if_forsaken()
    return outcomes


def _outcome(
    group: ClassicGroup, identity: LeaveGroup.Request.MemberIdentity, result: Result
) -> LeaveGroup.Response.MemberResponse:
    outcome = LeaveGroup.Response.MemberResponse(
        member_id=identity.member_id, group_instance_id=identity.group_instance_id
    )
    try:
        if not group.drop_pending(identity.member_id):
            group.remove(_leaving(group, identity), result)
    except KafkaError as error:
        outcome.error_code = error.code
    return outcome


def _leaving(group: ClassicGroup, identity: LeaveGroup.Request.MemberIdentity) -> Member:
    """Returns the named member; an administrator names static members by instance id only."""
    if identity.member_id:
        return group.members.known(identity.member_id, identity.group_instance_id)
    member = group.members.static(identity.group_instance_id)
    if member is None:
        raise errors.UnknownMemberId(f"no member has group.instance.id {identity.group_instance_id}")
    return member
