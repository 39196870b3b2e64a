"""A consumer group becomes a classic one when its last member of the new protocol has left.

The remaining members already use the classic protocol. The classic group is made at once, because its record cannot
contain all that it needs (protocols that are not in use). It replaces the consumer group when that record is replayed.
Its members must join again, unless a static member has only changed its protocol and every member has its target
assignment.

A group stays a consumer group, of classic members, if the record of the classic group would not fit into a batch. Kafka
tries to write that record again and again. Meanwhile the members that have left keep their partitions.

Until its members have joined, the assignments of the classic group are their *current* partitions. Kafka writes their
*target* instead. If such a group were upgraded again before its members have joined, other members would get
partitions that somebody still reads.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence

from cy.batch import Builder
from cy.counted import counted
from pybroker.coordinator.group.classic import ClassicGroup
from pybroker.coordinator.group.consumer.group import CONSUMER_PROTOCOL, ConsumerGroup
from pybroker.coordinator.group.consumer.member import ConsumerMember, Owned, Target
from pybroker.coordinator.group.consumer.refusals import when_refused
from pybroker.coordinator.group.members import Member, Members
from pybroker.coordinator.group.records import group_record
from pybroker.coordinator.group.state import STABLE
from pybroker.coordinator.shard import Record, Result
from pyclient.protocol.errors import KafkaError
from pyclient.protocol.records import ConsumerProtocolAssignment

logger = logging.getLogger(__name__)

_FIRST_VERSION = 0


def follows_from_leaving(group: ConsumerGroup, members: Sequence[ConsumerMember], result: Result) -> bool:
    """Returns whether only classic members remain when ``members`` leave, and the group may become a classic one."""
    classic = sum(member.classic is not None for member in members)
    left = len(group.members) - len(members)
    return group.classic_members - classic == left and _may(group, _without(group, members), result.records)


def follows_from_replacing(
    group: ConsumerGroup, member: ConsumerMember | None, joining: ConsumerMember, result: Result
) -> bool:
    """Returns whether the group may become a classic one when ``joining`` replaces ``member``.

    ``member`` must be the only member of the new protocol. ``result`` must have all records of ``joining``.
    """
    if member is None or member.classic is not None or group.classic_members != len(group.members) - 1:
        return False
    return _may(group, [*_without(group, [member]), joining], result.records)


def _without(group: ConsumerGroup, members: Iterable[ConsumerMember]) -> list[ConsumerMember]:
    gone = {member.id for member in members}
    return [member for member in group.members.values() if member.id not in gone]


def _may(group: ConsumerGroup, members: Sequence[ConsumerMember], written: Iterable[Record]) -> bool:
    settings = group.context.settings
    return (
        settings.may_downgrade
        and 0 < len(members) <= settings.classic_max_size
        and _agree(members)
        and _fits(group, members, written)
    )


def _agree(members: Iterable[ConsumerMember]) -> bool:
    """Returns whether the members have a common protocol. If an earlier version wrote the log, they may have none."""
    names = [{name for name, _ in each.classic.protocols} for each in members if each.classic is not None]
    return bool(set.intersection(*names))


def _fits(group: ConsumerGroup, members: Sequence[ConsumerMember], written: Iterable[Record]) -> bool:
    """Returns whether the records of the downgrade fit into a batch, together with the ``written`` ones."""
    largest = group.context.largest_batch()
    size = _least_size(members)
    if size <= largest:
        size = _size(group, members, written)
    if size > largest:
        logger.info(
            "group %s stays a consumer group: a classic one needs a batch of %d bytes or more, and its topic allows %d",
            group.id,
            size,
            largest,
        )
    return size <= largest


def _least_size(members: Iterable[ConsumerMember]) -> int:
    """Returns a lower bound for the size of the classic group's record. To build the record would take much longer."""
    joined = _joined(members)
    protocol = joined.choose_protocol()
    return sum(len(each.id) + len(each.client_id) + len(each.metadata(protocol)) for each in joined)


def _size(group: ConsumerGroup, members: Sequence[ConsumerMember], written: Iterable[Record]) -> int:
    batch = Builder()
    ids = {*group.members, *(member.id for member in members)}
    for key, value in (*written, *group.tombstones_for(list(ids)), _record(_classic(group, members, 0))):
        batch.append(0, key, value)
    return batch.size


def downgrade_without(
    group: ConsumerGroup, leaving: Sequence[ConsumerMember], result: Result
) -> None:
    """Makes the group classic without these members, and rebalances it."""
    classic = _classic(group, _without(group, leaving), result.now.wall_ms)
    result.write(*group.tombstones())
    _install(group, classic, result)
    classic.prepare_rebalance(result)


def downgrade_with(
    group: ConsumerGroup,
    replaced: ConsumerMember,
    joining: ConsumerMember,
    rebalances: bool,
    result: Result,
) -> None:
    """Makes the group classic, with ``joining`` in place of the static member."""
    members = [*_without(group, [replaced]), joining]
    epoch = group.assignment_epoch
    rebalances = rebalances or not all(each.is_reconciled_to(epoch) for each in members)
    classic = _classic(group, members, result.now.wall_ms)
    result.write(*group.tombstones_for([each.id for each in members]))
    _install(group, classic, result)
    if rebalances:
        classic.prepare_rebalance(result)


def _has(member: ConsumerMember) -> Target:
    """Returns the partitions that the member reads or may still read."""
    has: dict[bytes, frozenset[int]] = {}
    for owned in (member.assigned, member.pending_revocation):
        for topic_id, partitions in owned.items():
            has[topic_id] = has.get(topic_id, frozenset()) | partitions.keys()
    return has


def _classic(group: ConsumerGroup, members: Sequence[ConsumerMember], now_ms: int) -> ClassicGroup:
    classic = group.context.new_classic(group.id)
    classic.state = STABLE
    classic.since_ms = now_ms
    classic.generation = group.epoch
    classic.protocol_type = CONSUMER_PROTOCOL
    classic.members = _joined(members)
    classic.protocol = classic.members.choose_protocol()
    for before, after in zip(members, classic.members, strict=True):
        version = int.from_bytes(after.metadata(classic.protocol)[:2], "big")
        after.assignment = assigned_bytes(group, _has(before), version)
    return classic


def _joined(members: Iterable[ConsumerMember]) -> Members:
    """Returns the members of the classic group, without assignments."""
    joined = Members()
    for member in members:
        assert member.classic is not None
        joined.add(
            Member(
                member.id,
                member.instance_id,
                member.client_id,
                member.client_host,
                member.rebalance_timeout_ms,
                member.classic.session_timeout_ms,
                member.classic.protocols,
            )
        )
    return joined


def _record(classic: ClassicGroup) -> Record:
    return group_record(classic, {member.id: member.assignment for member in classic.members})


def _install(group: ConsumerGroup, classic: ClassicGroup, result: Result) -> None:
    for member in classic.members:
        classic.sessions.touch(member, result)
    classic.subscribed = classic.find_subscribed()
    result.write(_record(classic))
    group.context.downgraded[group.id] = classic

    def undo(next: Result, error: KafkaError) -> None:
        group.context.downgraded.pop(group.id, None)
        classic.die()

    when_refused(result, undo)
    logger.info("group %s becomes a classic group of %s", group.id, counted(len(classic.members), "member"))


def assigned_bytes(group: ConsumerGroup, partitions: Target | Owned, version: int) -> bytes:
    """Returns partitions in the format for a classic consumer, without deleted topics."""
    image = group.context.topics.image
    part = ConsumerProtocolAssignment.TopicPartition
    message = ConsumerProtocolAssignment(
        assigned_partitions=[
            part(topic=topic.name, partitions=sorted(each))
            for topic_id, each in partitions.items()
            if (topic := image.topic_by_id(topic_id)) is not None
        ]
    )
    highest = ConsumerProtocolAssignment.max_version
    return ConsumerProtocolAssignment.encode(min(max(version, _FIRST_VERSION), highest), message)
