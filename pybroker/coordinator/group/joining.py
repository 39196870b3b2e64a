"""JoinGroup: which clients may join, under which id, and whether that starts a rebalance.

A member that joins again with unchanged metadata gets the current generation again, because its response may have been
lost. The leader, or any member with changed metadata, starts a rebalance. A static member that returns without a member
id takes its instance's place at once, and the member that had it is fenced. If the chosen protocol stays the same,
there is no rebalance (KIP-345, KIP-814).
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

from pybroker.coordinator.group.classic import ClassicGroup
from pybroker.coordinator.group.join_responses import joined_members, refusal
from pybroker.coordinator.group.members import Member, Protocols, size_of
from pybroker.coordinator.group.records import group_record
from pybroker.coordinator.group.state import COMPLETING, EMPTY, PREPARING, STABLE
from pybroker.coordinator.shard import Result
from pyclient.protocol import JoinGroup, errors

_FIRST_WITH_REBALANCE_TIMEOUT = 1
_FIRST_WITH_KNOWN_MEMBER_IDS = 4
_FIRST_WITH_SKIP_ASSIGNMENT = 9
_LONGEST = 8_000
"""The longest instance id or client id. A member id made of it fits into the 32,767 bytes of a record's text, whatever
its characters.
"""
LONGEST_ID = _LONGEST + len("-00000000-0000-0000-0000-000000000000")
"""The longest member id: an instance id or client id, and what makes it unique."""
_MOST_PROTOCOLS = 100
"""How many protocols a member may have. Kafka has no limit; clients use a few."""
_MOST_BYTES = 1 << 20
"""The most bytes of all protocols of a member. The record of the group has one of them, and may by default be as large.
"""
_MOST_BYTES_OF_ALL = 4 * _MOST_BYTES
"""The most bytes of all members of a group. Kafka has no limit, though it cannot write a record for so many either."""


Sees = Callable[[str], bool]
"""Returns whether a client may describe the topic of that name."""


class Caller(NamedTuple):
    """The sender of a request: the request's version, and what groups store about clients."""

    version: int
    client_id: str
    client_host: str
    sees: Sees | None = None
    """Tells which topics the client may describe. None allows all topics."""


class Join(NamedTuple):
    """A JoinGroup request and the client that sent it."""

    request: JoinGroup.Request
    caller: Caller

    @property
    def protocols(self) -> Protocols:
        """The member's protocols in the form that groups store."""
        return tuple((each.name, bytes(each.metadata)) for each in self.request.protocols)

    @property
    def rebalance_timeout_ms(self) -> int:
        """The member's rebalance timeout. In v0 it is the session timeout."""
        if self.caller.version < _FIRST_WITH_REBALANCE_TIMEOUT:
            return self.request.session_timeout_ms
        return self.request.rebalance_timeout_ms


def check_lengths(request: JoinGroup.Request, caller: Caller) -> None:
    """Raises InvalidRequest if the record of the group cannot hold a text, or if there are too many protocols."""
    if len(request.protocols) > _MOST_PROTOCOLS:
        raise errors.InvalidRequest(f"a member has more than {_MOST_PROTOCOLS} protocols")
    if sum(len(each.metadata) for each in request.protocols) > _MOST_BYTES:
        raise errors.InvalidRequest(f"the protocols of a member have more than {_MOST_BYTES} bytes")
    texts = [request.group_id, request.group_instance_id or "", request.protocol_type, caller.client_id]
    texts += [each.name for each in request.protocols]
    if any(len(text) > _LONGEST for text in texts):
        raise errors.InvalidRequest(f"a name is longer than {_LONGEST} characters")
    if len(request.member_id) > LONGEST_ID:
        raise errors.InvalidRequest(f"a member id is longer than {LONGEST_ID} characters")


def join(group: ClassicGroup, join: Join, result: Result) -> None:
    """Handles the request, and answers it now or when the group has its next generation.

    Raises CoordinatorNotAvailable, InconsistentGroupProtocol, UnknownMemberId, FencedInstanceId.
    """
    group.check_alive()
    request = join.request
    if not _has_room(group, request.member_id) or not _has_bytes(group, join):
        _turn_away(group, join, result)
        return
    if not group.supports(request.protocol_type, [each.name for each in request.protocols]):
        why = f"no protocol of this member is supported by all members of group {group.id}"
        raise errors.InconsistentGroupProtocol(why)
    if not request.member_id:
        _join_without_id(group, join, result)
    elif request.member_id in group.pending:
        if request.group_instance_id is None:
            _add(group, request.member_id, join, result)
        else:
            result.answer(refusal(errors.UnknownServerError, ""))
    else:
        member = group.members.known(request.member_id, request.group_instance_id)
        _rejoin(group, member, join, result)


def _has_room(group: ClassicGroup, member_id: str) -> bool:
    """Returns whether ``group.max.size`` lets the member in.

    Known members may always stay, except while a rebalance is prepared: then only the members that have joined count.
    So if the limit was lowered below the group's size, the members that join last are refused.
    """
    if group.state is EMPTY:
        return True
    member = group.members.get(member_id)
    if group.state is PREPARING:
        waits = member is not None and member.join_token is not None
        return waits or group.members.joining < group.settings.max_size
    return member is not None or len(group.members) < group.settings.max_size


def _has_bytes(group: ClassicGroup, join: Join) -> bool:
    """Returns whether there is room for the data that the member reports. A member may always report less than before.
    """
    request, members = join.request, group.members
    member = members.get(request.member_id) or members.static(request.group_instance_id)
    before = 0 if member is None else member.size
    now = size_of(join.caller.client_id, request.group_instance_id, join.protocols)
    return now <= before or members.size - before + now <= _MOST_BYTES_OF_ALL


def _turn_away(group: ClassicGroup, join: Join, result: Result) -> None:
    """Refuses the client. If it is a member, it leaves the group, so that other members get its partitions."""
    member_id = join.request.member_id
    group.drop_pending(member_id)
    member = group.members.get(member_id)
    result.answer(refusal(errors.GroupMaxSizeReached, ""))
    if member is None:
        group.maybe_complete_join(result)
    else:
        group.remove(member, result)
        group.react(result)


def _join_without_id(group: ClassicGroup, join: Join, result: Result) -> None:
    instance_id = join.request.group_instance_id
    member_id = f"{instance_id or join.caller.client_id}-{group.context.new_id()}"
    replaced = group.members.static(instance_id)
    if replaced is not None:
        _replace(group, replaced, member_id, join, result)
    elif instance_id is None and join.caller.version >= _FIRST_WITH_KNOWN_MEMBER_IDS:
        group.add_pending(member_id, join.request.session_timeout_ms, result)
        result.answer(refusal(errors.MemberIdRequired, member_id))
    else:
        _add(group, member_id, join, result)


def _add(group: ClassicGroup, member_id: str, join: Join, result: Result) -> None:
    request = join.request
    member = Member(
        member_id,
        request.group_instance_id,
        join.caller.client_id,
        join.caller.client_host,
        join.rebalance_timeout_ms,
        request.session_timeout_ms,
        join.protocols,
    )
    group.add(member, request.protocol_type, result)
    group.react(result)


def _rejoin(group: ClassicGroup, member: Member, join: Join, result: Result) -> None:
    says_the_same = member.protocols == join.protocols
    leads = member.id == group.members.leader_id
    if group.state is EMPTY:
        raise errors.UnknownMemberId(f"member {member.id} is unknown: group {group.id} is empty")
    if group.state is COMPLETING and says_the_same:
        everybody = joined_members(group.members, group.protocol) if leads else []
        result.answer(group.join_response(member, everybody))
    elif group.state is STABLE and says_the_same and not leads:
        result.answer(group.join_response(member, []))
    else:
        _update(group, member, join, result)
        group.react(result)


def _update(group: ClassicGroup, member: Member, join: Join, result: Result) -> None:
    """Lets the member wait for the next generation, with its new metadata."""
    group.members.set_protocols(member, join.protocols)
    member.rebalance_timeout_ms = join.rebalance_timeout_ms
    member.session_timeout_ms = join.request.session_timeout_ms
    replaced = group.members.wait_for_join(member, result.token)
    result.reply(replaced, errors.RebalanceInProgress("the member has sent another JoinGroup"))


def _replace(group: ClassicGroup, member: Member, new_id: str, join: Join, result: Result) -> None:
    """Lets a static member take its place under a new member id."""
    _fence(group, member, result)
    undo = partial(_undo_replacement, group, member, member.id, member.protocols)
    led = group.members.leader_id
    group.members.rename(member, new_id)
    _update(group, member, join, result)
    group.sessions.touch(member, result)
    if group.state is STABLE and group.members.choose_protocol() == group.protocol:
        group.members.stop_waiting(member)
        result.answer(_unchanged(group, member, led or "", join))
        assignments = {each.id: each.assignment for each in group.members}
        result.write(group_record(group, assignments))
        result.on_failure = undo
    else:
        group.react(result)


def _fence(group: ClassicGroup, member: Member, result: Result) -> None:
    token = group.members.stop_waiting(member)
    result.reply(token, refusal(errors.FencedInstanceId, member.id))
    result.reply(member.sync_token, errors.FencedInstanceId())
    member.sync_token = None
    group.unsynced.discard(member.id)


def _unchanged(group: ClassicGroup, member: Member, led: str, join: Join) -> JoinGroup.Response:
    """Returns the response if the generation does not change.

    A leader with an old client gets its former member id as the leader's id, so that it takes itself for a follower and
    assigns nothing. Newer clients are told to skip the assignment.
    """
    leads = member.id == group.members.leader_id
    if join.caller.version < _FIRST_WITH_SKIP_ASSIGNMENT:
        response = group.join_response(member, [])
        response.leader = led
    else:
        response = group.join_response(member, joined_members(group.members, group.protocol) if leads else [])
        response.skip_assignment = leads
    return response


def _undo_replacement(
    group: ClassicGroup,
    member: Member,
    old_id: str,
    old_protocols: Protocols,
    result: Result,
    error: errors.KafkaError,
) -> None:
    """Restores the old member if the replacement could not be written."""
    group.members.set_protocols(member, old_protocols)
    group.members.rename(member, old_id)
    group.sessions.touch(member, result)
