"""ConsumerGroupHeartbeat: a member joins, continues, or leaves.

A heartbeat contains only what has changed at the member, and the answer contains only what is new for it. Most
heartbeats contain and change nothing: these are answered first, on a short path.
"""

from __future__ import annotations

from collections.abc import Collection, Sized
from dataclasses import replace

from pybroker.coordinator.group.consumer import expecting, leaving, reconciling, records, targeting
from pybroker.coordinator.group.consumer.group import ConsumerGroup
from pybroker.coordinator.group.consumer.member import (
    JOIN,
    LEAVE,
    LEAVE_STATIC,
    NO_TARGET,
    ConsumerMember,
    MemberState,
    Owned,
    Target,
)
from pybroker.coordinator.group.consumer.reconciling import Claimed, Goal
from pybroker.coordinator.group.consumer.subscriptions import regexes
from pybroker.coordinator.group.consumer.subscriptions.subscriptions import Subscriptions
from pybroker.coordinator.group.joining import LONGEST_ID, Caller, Sees
from pybroker.coordinator.shard import Result
from pyclient.protocol import ConsumerGroupHeartbeat, errors

Request = ConsumerGroupHeartbeat.Request
Response = ConsumerGroupHeartbeat.Response

_FIRST_WITH_CLIENTS_IDS = 1
_STABLE = MemberState.STABLE
MOST_NAMES = 10_000
"""How many topics the members of a group may list. Kafka has no such limit; here one turn of the loop looks at all of
them.
"""


MOST_BYTES = 16 << 20
"""How many bytes the members of a group may report, roughly. Kafka has no such limit."""


def check(request: Request, version: int, assignors: Collection[str]) -> None:
    """Checks the fields of a request that do not depend on the group. Raises InvalidRequest, UnsupportedAssignor."""
    epoch = request.member_epoch
    if version >= _FIRST_WITH_CLIENTS_IDS or epoch > JOIN or epoch == LEAVE:
        _check_text(request.member_id, "MemberId")
    _check_text(request.group_id, "GroupId")
    _check_text(request.instance_id, "InstanceId")
    _check_text(request.rack_id, "RackId")
    if epoch == JOIN:
        _check_join(request)
    elif epoch == LEAVE_STATIC:
        if request.instance_id is None:
            raise errors.InvalidRequest("InstanceId can't be null.")
    elif epoch < LEAVE_STATIC:
        raise errors.InvalidRequest("MemberEpoch is invalid.")
    _check_names(request.subscribed_topic_names or ())
    if request.server_assignor is not None and request.server_assignor not in assignors:
        raise errors.UnsupportedAssignor(
            f"ServerAssignor {request.server_assignor} is not supported. "
            f"Supported assignors: {', '.join(assignors)}."
        )


def _check_text(text: str | None, name: str) -> None:
    if text is None:
        return
    if not text.strip():
        raise errors.InvalidRequest(f"{name} can't be empty.")
    if len(text) > LONGEST_ID:
        raise errors.InvalidRequest(f"{name} is longer than {LONGEST_ID} characters.")


def _check_names(names: Sized) -> None:
    if len(names) > MOST_NAMES:
        raise errors.InvalidRequest(
            f"a member of a group may list at most {MOST_NAMES} topics: let it subscribe by a regular expression"
        )


def _check_join(request: Request) -> None:
    if request.rebalance_timeout_ms == -1:
        raise errors.InvalidRequest("RebalanceTimeoutMs must be provided in first request.")
    if request.topic_partitions is None or request.topic_partitions:
        raise errors.InvalidRequest("TopicPartitions must be empty when (re-)joining.")
    if request.subscribed_topic_names is None and request.subscribed_topic_regex is None:
        raise errors.InvalidRequest(
            "Either SubscribedTopicNames or SubscribedTopicRegex must"
            " be non-null when (re-)joining."
        )


def beat(group: ConsumerGroup, request: Request, caller: Caller, result: Result) -> None:
    """Handles the heartbeat of a member that joins or continues.

    Raises GroupMaxSizeReached, UnknownMemberId, FencedMemberEpoch, FencedInstanceId, UnreleasedInstanceId,
    InvalidRegularExpression.
    """
    if _goes_on(group, request, caller, result):
        return
    member_id = request.member_id
    check_room(group, member_id)
    member = _member(group, request, member_id or group.context.new_id(), result)
    updated = _updated(member, request, caller)
    check_size(group, updated)
    step(group, member, updated, request, result, caller.sees)


# Nothing new


def _goes_on(group: ConsumerGroup, request: Request, caller: Caller, result: Result) -> bool:
    """Answers a heartbeat that reports nothing, from a member that already has its target. Returns False otherwise."""
    member = group.members.get(request.member_id)
    if (
        member is None
        or request.member_epoch != member.epoch
        or member.epoch != group.assignment_epoch
        or group.epoch != group.assignment_epoch
        or member.state is not _STABLE
        or member.classic is not None
        or _says_something(request)
        or request.instance_id != member.instance_id
        or caller.client_id != member.client_id
        or caller.client_host != member.client_host
        or targeting.is_stale(group)
        or (group.subscriptions.regexes and regexes.is_due(group, result.now.wall_ms))
    ):
        return False
    pace = group.context.pace_of(group.id)
    at_ms = result.now.monotonic_ms + pace.session_timeout_ms
    if not group.context.timeouts.extend(group.id, member.id, at_ms):
        expecting.touch(group, member, result)
    result.reads = True
    result.answer(
        Response(
            member_id=member.id,
            member_epoch=member.epoch,
            heartbeat_interval_ms=pace.heartbeat_interval_ms,
        )
    )
    return True


def _says_something(request: Request) -> bool:
    return (
        request.rebalance_timeout_ms != -1
        or request.subscribed_topic_names is not None
        or request.subscribed_topic_regex is not None
        or request.server_assignor is not None
        or request.rack_id is not None
    )


# Identity


def check_room(group: ConsumerGroup, member_id: str) -> None:
    """Raises GroupMaxSizeReached if a new member would join a full group."""
    most = group.context.settings.max_size
    if len(group.members) >= most and member_id not in group.members:
        raise errors.GroupMaxSizeReached(
            f"The consumer group has reached its maximum capacity of {most} members."
        )


def check_size(group: ConsumerGroup, updated: ConsumerMember) -> None:
    """Raises GroupMaxSizeReached if the members would report too much. A member may always report less than before."""
    member = group.members.get(updated.id) or group.static_member(updated.instance_id)
    before, now = 0 if member is None else member.size, updated.size
    if now > before and group.size - before + now > MOST_BYTES:
        raise errors.GroupMaxSizeReached(f"The members of the consumer group may report {MOST_BYTES} bytes together.")


def _member(
    group: ConsumerGroup, request: Request, member_id: str, result: Result
) -> ConsumerMember:
    """Returns the member as it was before this heartbeat. On a first join, that is a new one without partitions."""
    claimed = _claimed(request)
    epoch = request.member_epoch
    if request.instance_id is not None and epoch == JOIN:
        return static_joiner(group, member_id, request.instance_id, False, result)
    if request.instance_id is not None:
        member = leaving.leaving_member(group, member_id, request.instance_id)
    elif epoch == JOIN:
        return group.members.get(member_id) or ConsumerMember(member_id)
    else:
        member = group.member(member_id)
    _check_epoch(member, epoch, claimed)
    return member


def static_joiner(
    group: ConsumerGroup, member_id: str, instance_id: str, is_classic: bool, result: Result
) -> ConsumerMember:
    """Lets a static member join; it replaces the previous member with its instance id.

    Raises UnreleasedInstanceId while that one is active, if both use the new protocol.
    """
    before = group.static_member(instance_id)
    if before is None:
        return group.members.get(member_id) or ConsumerMember(member_id)
    if not is_classic and before.classic is None and before.epoch != LEAVE_STATIC:
        raise errors.UnreleasedInstanceId(
            f"Static member {member_id} with instance id {instance_id} cannot join the group "
            f"because the instance id is owned by {before.id} member."
        )
    member = replace(before, id=member_id, epoch=0, previous_epoch=0)
    leaving.remove(group.id, before.id, result)
    result.write(
        records.member_record(group.id, member),
        records.target_record(group.id, member_id, group.targets.get(before.id, NO_TARGET)),
        records.current_record(group.id, member),
    )
    return member


def _check_epoch(member: ConsumerMember, epoch: int, claimed: Claimed) -> None:
    """Raises FencedMemberEpoch unless the epoch is the current one.

    The previous epoch is accepted too, if all partitions that the member reports are assigned to it.
    """
    if epoch == member.epoch:
        return
    greater = epoch > member.epoch
    if greater or epoch != member.previous_epoch or not _is_within(claimed, member.assigned):
        size = "greater" if greater else "smaller"
        raise errors.FencedMemberEpoch(
            f"The consumer group member has a {size} member epoch ({epoch}) than the one known by "
            f"the group coordinator ({member.epoch}). "
            "The member must abandon all its partitions and rejoin."
        )


def _is_within(claimed: Claimed, owned: Owned) -> bool:
    if claimed is None:
        return False
    return all(
        topic_id in owned and partitions <= owned[topic_id].keys()
        for topic_id, partitions in claimed.items()
    )


def _claimed(request: Request) -> Claimed:
    if request.topic_partitions is None:
        return None
    return {each.topic_id: frozenset(each.partitions) for each in request.topic_partitions}


# What is new


def _updated(member: ConsumerMember, request: Request, caller: Caller) -> ConsumerMember:
    """Returns the member with the fields of the request; omitted fields stay unchanged."""
    names = request.subscribed_topic_names
    regex = request.subscribed_topic_regex
    timeout_ms = request.rebalance_timeout_ms
    updated = replace(
        member,
        instance_id=member.instance_id if request.instance_id is None else request.instance_id,
        rack_id=member.rack_id if request.rack_id is None else request.rack_id,
        rebalance_timeout_ms=member.rebalance_timeout_ms if timeout_ms == -1 else timeout_ms,
        assignor=member.assignor if request.server_assignor is None else request.server_assignor,
        topics=member.topics if names is None else frozenset(names),
        regex=member.regex if regex is None else regex,
        client_id=caller.client_id,
        client_host=caller.client_host,
        classic=None,
    )
    return member if updated == member else updated


def step(
    group: ConsumerGroup,
    before: ConsumerMember,
    updated: ConsumerMember,
    request: Request,
    result: Result,
    sees: Sees | None,
) -> None:
    """Moves the member one step towards its target, and answers."""
    epoch, subscriptions, changed = subscribe(group, before, updated, result, sees)
    change = targeting.Change(known(group, before), updated)
    goal = targeting.update(group, epoch, change, subscriptions, result)
    claimed = _claimed(request)
    after = advance(group, updated, goal, subscriptions, claimed, changed, result)
    expecting.touch(group, after, result)
    expecting.expect_nothing_replaced(group, after, result)
    if before.classic is not None:
        expecting.expect_nothing_classic(group, after)
    result.reads = True
    is_full = request.rebalance_timeout_ms != -1 and claimed is not None and (
        request.subscribed_topic_names is not None or request.subscribed_topic_regex is not None
    )
    tells = request.member_epoch == JOIN or is_full or after.assigned != before.assigned
    result.answer(
        Response(
            member_id=after.id,
            member_epoch=after.epoch,
            heartbeat_interval_ms=group.context.pace_of(group.id).heartbeat_interval_ms,
            assignment=assignment(after.assigned) if tells else None,
        )
    )


def known(group: ConsumerGroup, member: ConsumerMember) -> ConsumerMember | None:
    """Returns the member if the group already counts it, even under a former id; None otherwise."""
    if member.id in group.members:
        return member
    if member.instance_id is not None and member.instance_id in group.static:
        return member
    return None


def subscribe(
    group: ConsumerGroup,
    before: ConsumerMember,
    updated: ConsumerMember,
    result: Result,
    sees: Sees | None,
    *,
    bumps_unresolved: bool = False,
) -> tuple[int, Subscriptions, bool]:
    """Returns the group epoch, the subscriptions with the member's changes, and whether they changed.

    A change of the most preferred assignor makes a new epoch too, as in Kafka 4.4. A new regular expression makes one
    only when its topics are known, unless ``bumps_unresolved``. Raises InvalidRegularExpression.
    """
    if updated is not before:
        result.write(records.member_record(group.id, updated))
    names_changed = updated.topics != before.topics
    change = regexes.update(group, before, updated, result, sees)
    changed = names_changed or change is not regexes.Change.NONE
    was = known(group, before)
    subscriptions = group.subscriptions.after(was, updated)
    if names_changed:
        _check_names(subscriptions.by_name)
    bump = names_changed or change is regexes.Change.RESOLVED or (bumps_unresolved and changed)
    bump = bump or group.preferred_assignor() != group.preferred_assignor(was, updated)
    epoch = group.epoch
    if bump or targeting.is_stale(group):
        epoch = targeting.next_epoch(group, subscriptions, bump, result)
    return epoch, subscriptions, changed


def advance(
    group: ConsumerGroup,
    member: ConsumerMember,
    goal: tuple[int, Target],
    subscriptions: Subscriptions,
    claimed: Claimed,
    subscription_changed: bool,
    result: Result,
) -> ConsumerMember:
    """Writes the member's next step if there is one, and sets a deadline if the member has to act."""
    epoch, target = goal
    if not subscription_changed and member.is_reconciled_to(epoch):
        return member
    topic_ids = group.context.topics.ids(subscriptions.names_of(member))
    next = reconciling.reconcile(
        member, Goal(epoch, target, topic_ids, group.is_owned), claimed, subscription_changed
    )
    if next != member:
        result.write(records.current_record(group.id, next))
        expecting.expect_revocation(group, next, result)
    return next


def assignment(owned: Owned) -> Response.Assignment:
    """Returns a member's partitions in the form that the response has."""
    part = Response.TopicPartitions
    return Response.Assignment(
        topic_partitions=[
            part(topic_id=topic_id, partitions=list(partitions))
            for topic_id, partitions in owned.items()
        ]
    )
