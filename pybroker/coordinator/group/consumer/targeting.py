"""Makes the target assignment of a group, and keeps its metadata hash up to date."""

from __future__ import annotations

import logging
from typing import NamedTuple

from pybroker.coordinator.group.assignors import ASSIGNORS
from pybroker.coordinator.group.assignors.spec import GroupSpec, MemberSpec
from pybroker.coordinator.group.consumer import records
from pybroker.coordinator.group.consumer.group import ConsumerGroup
from pybroker.coordinator.group.consumer.member import NO_TARGET, ConsumerMember, Target
from pybroker.coordinator.group.consumer.subscriptions.subscriptions import Subscriptions
from pybroker.coordinator.shard import Result

logger = logging.getLogger(__name__)


class Change(NamedTuple):
    """A member before and after a change. ``before`` is None if the member is new. The id may change."""

    before: ConsumerMember | None
    after: ConsumerMember


def next_epoch(
    group: ConsumerGroup, subscriptions: Subscriptions, bump: bool, result: Result
) -> int:
    """Returns the group epoch for these subscriptions: a new one with ``bump``, or if topics have changed."""
    topics = group.context.topics
    version = topics.image.version
    metadata_hash = topics.hash_of(subscriptions.topics)
    if not bump and metadata_hash == group.metadata_hash:
        group.checked_version = version
        return group.epoch
    epoch = group.epoch + 1
    result.write(records.group_record(group.id, epoch, metadata_hash))
    if group.has_partition_metadata:
        result.write(records.no_partition_metadata_record(group.id))
    logger.info("group %s has epoch %d", group.id, epoch)
    return epoch


def is_stale(group: ConsumerGroup) -> bool:
    """Returns whether the metadata has changed since the group's hash was checked."""
    return group.checked_version != group.context.topics.image.version


def update(
    group: ConsumerGroup,
    epoch: int,
    change: Change,
    subscriptions: Subscriptions,
    result: Result,
) -> tuple[int, Target]:
    """Returns the epoch of the target assignment, and the member's target.

    If the group epoch is ahead, it makes a new target assignment, unless the last one is too recent.
    """
    if group.assignment_epoch >= epoch or not _may_assign(group, result.now.wall_ms):
        return group.assignment_epoch, group.target_of(change.after)
    specs = _members(group, change, subscriptions)
    spec = GroupSpec(specs, subscriptions.are_alike, _partition_counts(group, specs))
    name = group.preferred_assignor(change.before, change.after)
    assigned = ASSIGNORS[name](spec)
    for member_id in specs:
        target = assigned.get(member_id, NO_TARGET)
        if group.targets.get(member_id) != target:
            result.write(records.target_record(group.id, member_id, target))
    result.write(records.target_epoch_record(group.id, epoch, result.now.wall_ms))
    logger.info("group %s: the assignor %s has made the assignment %d", group.id, name, epoch)
    return epoch, assigned.get(change.after.id, NO_TARGET)


def _may_assign(group: ConsumerGroup, now_ms: int) -> bool:
    interval_ms = group.context.pace_of(group.id).assignment_interval_ms
    since_ms = now_ms - group.assigned_ms
    return not group.assigned_ms or not 0 <= since_ms < interval_ms  # # the clock may have been set back


def _members(
    group: ConsumerGroup, change: Change, subscriptions: Subscriptions
) -> dict[str, MemberSpec]:
    """Returns the members to assign to: the group's members after the change, without a replaced one."""
    after = change.after
    topics = group.context.topics
    ids: dict[frozenset[str], frozenset[bytes]] = {}
    specs: dict[str, MemberSpec] = {}
    replaced = None if after.instance_id is None else group.static.get(after.instance_id)
    for member in (*group.members.values(), after):
        if member.id == replaced and member is not after:
            continue
        names = subscriptions.names_of(member)
        if names not in ids:
            ids[names] = topics.ids(names)
        target = group.targets.get(member.id, NO_TARGET)
        specs[member.id] = MemberSpec(member.instance_id, ids[names], target)
    specs[after.id] = specs[after.id]._replace(assigned=_inherited(group, after))
    return specs


def _inherited(group: ConsumerGroup, member: ConsumerMember) -> Target:
    if member.instance_id is not None and member.instance_id in group.static:
        return group.targets.get(group.static[member.instance_id], NO_TARGET)
    return group.targets.get(member.id, NO_TARGET)


def _partition_counts(group: ConsumerGroup, specs: dict[str, MemberSpec]) -> dict[bytes, int]:
    image = group.context.topics.image
    counts: dict[bytes, int] = {}
    for topic_ids in {spec.topic_ids for spec in specs.values()}:
        for topic_id in topic_ids:
            topic = image.topic_by_id(topic_id)
            assert topic is not None
            counts[topic_id] = len(topic.partitions)
    return counts
