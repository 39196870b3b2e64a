"""Members that leave or are evicted."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import replace

from pybroker.coordinator.group.consumer import expecting, records
from pybroker.coordinator.group.consumer.group import ConsumerGroup
from pybroker.coordinator.group.consumer.member import (
    LEAVE_STATIC,
    NOTHING,
    ConsumerMember,
    Owned,
)
from pybroker.coordinator.group.consumer.migration import downgrading
from pybroker.coordinator.group.consumer.refusals import when_refused
from pybroker.coordinator.shard import Result
from pyclient.protocol import ConsumerGroupHeartbeat, errors

logger = logging.getLogger(__name__)


def leave(group: ConsumerGroup, request: ConsumerGroupHeartbeat.Request, result: Result) -> None:
    """Handles a heartbeat with the epoch LEAVE or LEAVE_STATIC. Raises UnknownMemberId, FencedInstanceId."""
    member = leaving_member(group, request.member_id, request.instance_id)
    if request.instance_id is not None and request.member_epoch == LEAVE_STATIC:
        result.write(records.current_record(group.id, _away(member)))
    else:
        fence(group, [member], result)
    result.answer(
        ConsumerGroupHeartbeat.Response(
            member_id=request.member_id, member_epoch=request.member_epoch
        )
    )


def leaving_member(
    group: ConsumerGroup, member_id: str, instance_id: str | None
) -> ConsumerMember:
    """Returns the member that a request names. Raises UnknownMemberId, FencedInstanceId."""
    if instance_id is None:
        return group.member(member_id)
    member = group.static_member(instance_id)
    if member is None:
        raise errors.UnknownMemberId(f"Instance id {instance_id} is unknown.")
    check_not_fenced(member, member_id)
    return member


def check_not_fenced(member: ConsumerMember, member_id: str) -> None:
    """Raises FencedInstanceId if another member has taken over the instance id."""
    if member.id != member_id:
        raise errors.FencedInstanceId(
            f"Static member {member_id} with instance id {member.instance_id} "
            f"was fenced by member {member.id}."
        )


def _away(member: ConsumerMember) -> ConsumerMember:
    """Returns the value of a static member that is temporarily away. It keeps only its assigned partitions."""
    kept: Owned = {id: dict.fromkeys(owned, 0) for id, owned in member.assigned.items()}
    return replace(member, epoch=LEAVE_STATIC, assigned=kept, pending_revocation=NOTHING)


def fence(group: ConsumerGroup, members: Sequence[ConsumerMember], result: Result) -> None:
    """Removes the members: the group gets a new epoch, or becomes a classic one.

    If the records cannot be written, the members stay and get a new session; silent ones are removed when it ends.
    """
    if not members:
        return

    def stay(next: Result, error: errors.KafkaError) -> None:
        for member in members:
            expecting.touch(group, member, next)
            expecting.expect_revocation(group, member, next)

    when_refused(result, stay)
    if downgrading.follows_from_leaving(group, members, result):
        downgrading.downgrade_without(group, members, result)
        return
    for member in members:
        remove(group.id, member.id, result)
    for regex in group.subscriptions.unused_without(members):
        result.write(records.no_regex_record(group.id, regex))
    left = group.subscriptions.without(members)
    metadata_hash = group.context.topics.hash_of(left.topics)
    epoch = group.epoch + 1
    result.write(records.group_record(group.id, epoch, metadata_hash))
    if len(members) == len(group.members):  # # an empty group's assignment is made at once, as in Kafka 4.4
        result.write(records.target_epoch_record(group.id, epoch, result.now.wall_ms))
    for member in members:
        group.context.timeouts.forget(group.id, member.id)


def remove(group_id: str, member_id: str, result: Result) -> None:
    """Writes the records that remove the member."""
    result.write(
        records.no_current_record(group_id, member_id),
        records.no_target_record(group_id, member_id),
        records.no_member_record(group_id, member_id),
    )
