"""A classic group becomes a consumer group when the first member of the new protocol joins.

Its members stay and continue with the classic protocol (``classic_members``). Their generation becomes the first epoch,
and they keep the partitions that their leader assigned. So the change itself takes no partition from them. Members that
are in the middle of a join or sync must join again.
"""

from __future__ import annotations

import logging

from cy.counted import counted
from cy.wire.buffer import DecodeError
from pybroker.coordinator.group.classic import ClassicGroup
from pybroker.coordinator.group.consumer import expecting, records
from pybroker.coordinator.group.consumer.context import ConsumerContext
from pybroker.coordinator.group.consumer.group import ConsumerGroup
from pybroker.coordinator.group.consumer.member import (
    ClassicFacts,
    ConsumerMember,
    Owned,
    Target,
)
from pybroker.coordinator.group.join_responses import refusal
from pybroker.coordinator.group.members import Member
from pybroker.coordinator.shard import Result
from pyclient.protocol import errors
from pyclient.protocol.records import ConsumerProtocolAssignment, ConsumerProtocolSubscription

logger = logging.getLogger(__name__)


def consumer_group(
    context: ConsumerContext, group_id: str, joins: bool, result: Result
) -> ConsumerGroup:
    """Returns the consumer group for a member of the new protocol: an existing classic group converted, or a new one.

    The shard has the new group once its records have been written. The classic group stays unchanged until
    ``take_over``. Raises GroupIdNotFound.
    """
    group = context.groups.get(group_id)
    if group is None:
        if not joins:
            raise errors.GroupIdNotFound(f"Consumer group {group_id} not found.")
        return ConsumerGroup(group_id, context)
    if not joins or not isinstance(group, ClassicGroup):
        raise errors.GroupIdNotFound(f"Group {group_id} is not a consumer group.")
    if group.is_empty:
        result.write(*group.tombstones())
        return ConsumerGroup(group_id, context)
    _check(context, group)
    upgraded = _upgraded(context, group)
    result.write(*group.tombstones())
    _write(upgraded, result)
    return upgraded


def take_over(classic: ClassicGroup, upgraded: ConsumerGroup, instance_id: str | None, result: Result) -> None:
    """Completes the upgrade: the first member of the new protocol has joined, with this instance id if it is static.

    The sessions of the classic members restart, except that of the member whose instance id the new member has taken
    over. Members that wait for the classic rebalance must join again.
    """
    if not classic.members:
        return
    replaced = upgraded.static_member(instance_id)
    for member in upgraded.members.values():
        if member is not replaced:
            expecting.touch(upgraded, member, result)
    _send_away(classic, result)
    logger.info("group %s becomes a consumer group of %s", classic.id, counted(len(classic.members), "member"))


def _check(context: ConsumerContext, group: ClassicGroup) -> None:
    """Raises GroupIdNotFound if the group may not be upgraded."""
    why = None
    if not context.settings.may_upgrade:
        why = "online upgrade is disabled"
    elif not group.has_consumers:
        why = "the group does not use the consumer embedded protocol"
    elif len(group.members) > context.settings.max_size:
        why = "the group size exceeds the consumer group maximum size"
    if why is not None:
        raise _refused(group, why)


def _refused(group: ClassicGroup, why: str) -> errors.KafkaError:
    text = f"Cannot upgrade classic group {group.id} to consumer group because {why}."
    logger.info("%s", text)
    return errors.GroupIdNotFound(text)


def _upgraded(context: ConsumerContext, group: ClassicGroup) -> ConsumerGroup:
    upgraded = ConsumerGroup(group.id, context)
    upgraded.epoch = upgraded.assignment_epoch = group.generation
    try:
        for member in sorted(group.members, key=lambda each: not each.assignment):
            owned = _assigned(context, group, member) or _kept(upgraded, group, member)
            upgraded.put(_member(group, member, owned))
            upgraded.targets[member.id] = _as_target(owned)
    except DecodeError as error:
        raise _refused(group, f"the embedded consumer protocol is malformed: {error}") from error
    upgraded.metadata_hash = context.topics.hash_of(upgraded.subscriptions.topics)
    return upgraded


def _assigned(context: ConsumerContext, group: ClassicGroup, member: Member) -> Owned:
    """Returns the partitions that the leader has assigned to the member, without deleted topics."""
    if not member.assignment:
        return {}
    message = ConsumerProtocolAssignment.decode(member.assignment)
    if message.user_data:
        raise _refused(
            group,
            "an unsupported custom assignor is in use. Please refer to the documentation "
            "or switch to a default assignor before re-attempting the upgrade",
        )
    image = context.topics.image
    owned: dict[bytes, dict[int, int]] = {}
    for each in message.assigned_partitions:
        topic = image.topic(each.topic)
        if topic is not None:
            owned[topic.id] = dict.fromkeys(each.partitions, group.generation)
    return owned


def _kept(upgraded: ConsumerGroup, group: ClassicGroup, member: Member) -> Owned:
    """Returns the partitions that a member without an assignment reports as its own, except those of other members.

    A cooperative member continues to read during a rebalance. If the rebalance ends before its leader has assigned,
    only the member itself knows what it reads.
    """
    image = upgraded.context.topics.image
    owned: dict[bytes, dict[int, int]] = {}
    for each in _said(group, member).owned_partitions:
        topic = image.topic(each.topic)
        if topic is not None:
            free = [part for part in each.partitions if not upgraded.is_owned(topic.id, part)]
            owned[topic.id] = dict.fromkeys(free, group.generation)
    return {topic_id: partitions for topic_id, partitions in owned.items() if partitions}


def _said(group: ClassicGroup, member: Member) -> ConsumerProtocolSubscription:
    metadata = member.metadata(group.protocol) or member.protocols[0][1]
    return ConsumerProtocolSubscription.decode(metadata)


def _as_target(owned: Owned) -> Target:
    return {topic_id: frozenset(partitions) for topic_id, partitions in owned.items()}


def _member(group: ClassicGroup, member: Member, owned: Owned) -> ConsumerMember:
    said = _said(group, member)
    return ConsumerMember(
        member.id,
        epoch=group.generation,
        previous_epoch=group.generation,
        instance_id=member.instance_id,
        rack_id=said.rack_id or None,
        rebalance_timeout_ms=member.rebalance_timeout_ms,
        client_id=member.client_id,
        client_host=member.client_host,
        topics=frozenset(said.topics),
        assigned=owned,
        classic=ClassicFacts(member.session_timeout_ms, member.protocols),
    )


def _send_away(group: ClassicGroup, result: Result) -> None:
    """Answers the waiting members, so that they join again, and begins a session for each.

    If the upgrade cannot be written, these sessions evict silent members. A new member has a session already.
    """
    for member in group.members:
        token = group.members.stop_waiting(member)
        waited = token is not None or member.sync_token is not None
        if waited and not member.is_new:
            group.sessions.touch(member, result)
        result.reply(token, refusal(errors.RebalanceInProgress, member.id))
        result.reply(member.sync_token, errors.RebalanceInProgress())
        member.sync_token = None


def _write(group: ConsumerGroup, result: Result) -> None:
    members = list(group.members.values())
    result.write(
        *(records.member_record(group.id, member) for member in members),
        records.group_record(group.id, group.epoch, group.metadata_hash),
        *(records.target_record(group.id, each.id, group.targets[each.id]) for each in members),
        records.target_epoch_record(group.id, group.assignment_epoch, 0),
        *(records.current_record(group.id, member) for member in members),
    )
