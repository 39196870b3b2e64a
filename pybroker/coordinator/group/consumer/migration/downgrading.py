"""A consumer group becomes a classic one when its last member of the new protocol has left.

The remaining members already use the classic protocol. The classic group is made at once, with what its record cannot
contain (protocols that are not in use). It replaces the consumer group when that record is replayed. Its members must
join again, unless a static member has only changed its protocol and every member has its target assignment.

Until they have joined, the assignments of the classic group are the members' *current* partitions. Kafka writes their
*target* instead. If such a group were upgraded again before they have joined, partitions that members still read would
be given to others.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence

from cy.counted import counted
from pybroker.coordinator.group.classic import ClassicGroup
from pybroker.coordinator.group.consumer.group import CONSUMER_PROTOCOL, ConsumerGroup
from pybroker.coordinator.group.consumer.member import ConsumerMember, Owned, Target
from pybroker.coordinator.group.consumer.refusals import when_refused
from pybroker.coordinator.group.members import Member
from pybroker.coordinator.group.records import group_record
from pybroker.coordinator.group.state import STABLE
from pybroker.coordinator.shard import Result
from pyclient.protocol.errors import KafkaError
from pyclient.protocol.records import ConsumerProtocolAssignment

logger = logging.getLogger(__name__)

_FIRST_VERSION = 0


def follows_from_leaving(group: ConsumerGroup, members: Sequence[ConsumerMember]) -> bool:
    """Returns whether only classic members remain without these."""
    classic = sum(member.classic is not None for member in members)
    left = len(group.members) - len(members)
    return group.classic_members - classic == left and _may(group, left)


def follows_from_replacing(group: ConsumerGroup, member: ConsumerMember) -> bool:
    """Returns whether this is the only member of the new protocol, and a classic one replaces it."""
    everybody = len(group.members)
    others_are_classic = group.classic_members == everybody - 1 and member.classic is None
    return others_are_classic and _may(group, everybody)


def _may(group: ConsumerGroup, members: int) -> bool:
    settings = group.context.settings
    return settings.may_downgrade and 0 < members <= settings.classic_max_size


def downgrade_without(
    group: ConsumerGroup, leaving: Sequence[ConsumerMember], result: Result
) -> None:
    """Makes the group classic without these members, and rebalances it."""
    gone = {member.id for member in leaving}
    stay = [member for member in group.members.values() if member.id not in gone]
    classic = _classic(group, stay, result)
    result.write(*group.tombstones())
    _install(group, classic, {each.id: _has(each) for each in stay}, result)
    classic.prepare_rebalance(result)


def downgrade_with(
    group: ConsumerGroup,
    replaced: ConsumerMember,
    joining: ConsumerMember,
    rebalances: bool,
    result: Result,
) -> None:
    """Makes the group classic, with ``joining`` in place of the static member."""
    others = [each for each in group.members.values() if each.id != replaced.id]
    members = [*others, joining]
    epoch = group.assignment_epoch
    rebalances = rebalances or not all(each.is_reconciled_to(epoch) for each in members)
    classic = _classic(group, members, result)
    result.write(*group.tombstones_for([each.id for each in members]))
    _install(group, classic, {each.id: _has(each) for each in members}, result)
    if rebalances:
        classic.prepare_rebalance(result)


def _has(member: ConsumerMember) -> Target:
    """Returns the partitions that the member reads or may still read."""
    has: dict[bytes, frozenset[int]] = {}
    for owned in (member.assigned, member.pending_revocation):
        for topic_id, partitions in owned.items():
            has[topic_id] = has.get(topic_id, frozenset()) | partitions.keys()
    return has


def _classic(
    group: ConsumerGroup, members: Iterable[ConsumerMember], result: Result
) -> ClassicGroup:
    classic = group.context.new_classic(group.id)
    classic.state = STABLE
    classic.since_ms = result.now.wall_ms
    classic.generation = group.epoch
    classic.protocol_type = CONSUMER_PROTOCOL
    for member in members:
        assert member.classic is not None
        classic.members.add(
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
    classic.protocol = classic.members.choose_protocol()
    return classic


def _install(
    group: ConsumerGroup, classic: ClassicGroup, has: dict[str, Target], result: Result
) -> None:
    """Writes the group; ``has`` is each member's assignment."""
    for member in classic.members:
        version = int.from_bytes(member.metadata(classic.protocol)[:2], "big")
        member.assignment = assigned_bytes(group, has[member.id], version)
        classic.touch(member, result)
    classic.subscribed = classic.find_subscribed()
    assignments = {member.id: member.assignment for member in classic.members}
    result.write(group_record(classic, assignments))
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
