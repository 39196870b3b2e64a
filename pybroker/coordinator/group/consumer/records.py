"""Records of consumer groups in ``__consumer_offsets``, in the versions that Kafka 4.3 writes.

A group has several kinds of records, so that a heartbeat that moves one member writes little:

    3 group: its epoch and the hash of its topics      6 epoch of the target assignment
    4 before KIP-1101: metadata of its topics          7 target assignment of a member
    5 what a member has reported                       8 current assignment of a member
                                                      16 a regular expression and its topics
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Final

from pybroker.coordinator.group.consumer.member import (
    ClassicFacts,
    ConsumerMember,
    MemberState,
    Owned,
    Target,
)
from pybroker.coordinator.shard import Record
from pyclient.protocol.records import (
    ConsumerGroupCurrentMemberAssignmentKey,
    ConsumerGroupCurrentMemberAssignmentValue,
    ConsumerGroupMemberMetadataKey,
    ConsumerGroupMemberMetadataValue,
    ConsumerGroupMetadataKey,
    ConsumerGroupMetadataValue,
    ConsumerGroupPartitionMetadataKey,
    ConsumerGroupRegularExpressionKey,
    ConsumerGroupRegularExpressionValue,
    ConsumerGroupTargetAssignmentMemberKey,
    ConsumerGroupTargetAssignmentMemberValue,
    ConsumerGroupTargetAssignmentMetadataKey,
    ConsumerGroupTargetAssignmentMetadataValue,
)

if TYPE_CHECKING:
    from pybroker.coordinator.group.consumer.subscriptions.resolved import Resolved

    Part = ConsumerGroupCurrentMemberAssignmentValue.TopicPartitions

GROUP: Final = 3
PARTITION_METADATA: Final = 4
MEMBER: Final = 5
TARGET_EPOCH: Final = 6
TARGET: Final = 7
CURRENT: Final = 8
REGEX: Final = 16
TYPES: Final = frozenset(
    {GROUP, PARTITION_METADATA, MEMBER, TARGET_EPOCH, TARGET, CURRENT, REGEX}
)

_VALUE = 0


# The group


def group_key(group_id: str) -> bytes:
    """Returns the key of a group."""
    return ConsumerGroupMetadataKey.encode(GROUP, ConsumerGroupMetadataKey(group_id=group_id))


def group_record(group_id: str, epoch: int, metadata_hash: int) -> Record:
    """Returns the record of a group's epoch."""
    value = ConsumerGroupMetadataValue(epoch=epoch, metadata_hash=metadata_hash)
    return Record(group_key(group_id), ConsumerGroupMetadataValue.encode(_VALUE, value))


def no_group_record(group_id: str) -> Record:
    """Returns the record that deletes the group."""
    return Record(group_key(group_id), None)


def no_partition_metadata_record(group_id: str) -> Record:
    """Returns the record that deletes the topic metadata of older versions."""
    key = ConsumerGroupPartitionMetadataKey(group_id=group_id)
    return Record(ConsumerGroupPartitionMetadataKey.encode(PARTITION_METADATA, key), None)


# # What members report


def _member_key(group_id: str, member_id: str) -> bytes:
    key = ConsumerGroupMemberMetadataKey(group_id=group_id, member_id=member_id)
    return ConsumerGroupMemberMetadataKey.encode(MEMBER, key)


def member_record(group_id: str, member: ConsumerMember) -> Record:
    """Returns the record of a member, with all that the member has reported."""
    value = ConsumerGroupMemberMetadataValue(
        instance_id=member.instance_id,
        rack_id=member.rack_id,
        client_id=member.client_id,
        client_host=member.client_host,
        subscribed_topic_names=sorted(member.topics),
        subscribed_topic_regex=member.regex,
        rebalance_timeout_ms=member.rebalance_timeout_ms,
        server_assignor=member.assignor,
        classic_member_metadata=None if member.classic is None else _classic(member.classic),
    )
    data = ConsumerGroupMemberMetadataValue.encode(_VALUE, value)
    return Record(_member_key(group_id, member.id), data)


def no_member_record(group_id: str, member_id: str) -> Record:
    """Returns the record that removes the member."""
    return Record(_member_key(group_id, member_id), None)


def _classic(facts: ClassicFacts) -> ConsumerGroupMemberMetadataValue.ClassicMemberMetadata:
    return ConsumerGroupMemberMetadataValue.ClassicMemberMetadata(
        session_timeout_ms=facts.session_timeout_ms,
        supported_protocols=[
            ConsumerGroupMemberMetadataValue.ClassicProtocol(name=name, metadata=metadata)
            for name, metadata in facts.protocols
        ],
    )


def read_classic(value: ConsumerGroupMemberMetadataValue) -> ClassicFacts | None:
    """Returns the facts that a member of the classic protocol has reported, None for a member of the new protocol."""
    message = value.classic_member_metadata
    if message is None:
        return None
    protocols = tuple((each.name, bytes(each.metadata)) for each in message.supported_protocols)
    return ClassicFacts(message.session_timeout_ms, protocols)


# Assignments


def target_epoch_record(group_id: str, epoch: int, now_ms: int) -> Record:
    """Returns the record of the target assignment's epoch."""
    key = ConsumerGroupTargetAssignmentMetadataKey(group_id=group_id)
    value = ConsumerGroupTargetAssignmentMetadataValue(
        assignment_epoch=epoch, assignment_timestamp=now_ms
    )
    return Record(
        ConsumerGroupTargetAssignmentMetadataKey.encode(TARGET_EPOCH, key),
        ConsumerGroupTargetAssignmentMetadataValue.encode(_VALUE, value),
    )


def no_target_epoch_record(group_id: str) -> Record:
    """Returns the record that deletes the target assignment's epoch."""
    key = ConsumerGroupTargetAssignmentMetadataKey(group_id=group_id)
    return Record(ConsumerGroupTargetAssignmentMetadataKey.encode(TARGET_EPOCH, key), None)


def _target_key(group_id: str, member_id: str) -> bytes:
    key = ConsumerGroupTargetAssignmentMemberKey(group_id=group_id, member_id=member_id)
    return ConsumerGroupTargetAssignmentMemberKey.encode(TARGET, key)


def target_record(group_id: str, member_id: str, target: Target) -> Record:
    """Returns the record of the member's target."""
    part = ConsumerGroupTargetAssignmentMemberValue.TopicPartition
    value = ConsumerGroupTargetAssignmentMemberValue(
        topic_partitions=[
            part(topic_id=topic_id, partitions=sorted(partitions))
            for topic_id, partitions in target.items()
        ]
    )
    data = ConsumerGroupTargetAssignmentMemberValue.encode(_VALUE, value)
    return Record(_target_key(group_id, member_id), data)


def no_target_record(group_id: str, member_id: str) -> Record:
    """Returns the record that deletes the member's target."""
    return Record(_target_key(group_id, member_id), None)


def read_target(value: bytes) -> Target:
    """Parses the value of a target record. Raises DecodeError."""
    message = ConsumerGroupTargetAssignmentMemberValue.decode(value)
    return {each.topic_id: frozenset(each.partitions) for each in message.topic_partitions}


def _current_key(group_id: str, member_id: str) -> bytes:
    key = ConsumerGroupCurrentMemberAssignmentKey(group_id=group_id, member_id=member_id)
    return ConsumerGroupCurrentMemberAssignmentKey.encode(CURRENT, key)


def current_record(group_id: str, member: ConsumerMember) -> Record:
    """Returns the record of the member's epoch, state and current assignment."""
    value = ConsumerGroupCurrentMemberAssignmentValue(
        member_epoch=member.epoch,
        previous_member_epoch=member.previous_epoch,
        state=int(member.state),
        assigned_partitions=_parts(member.assigned),
        partitions_pending_revocation=_parts(member.pending_revocation),
    )
    data = ConsumerGroupCurrentMemberAssignmentValue.encode(_VALUE, value)
    return Record(_current_key(group_id, member.id), data)


def no_current_record(group_id: str, member_id: str) -> Record:
    """Returns the record that deletes the member's current assignment."""
    return Record(_current_key(group_id, member_id), None)


def _parts(owned: Owned) -> list[Part]:
    part = ConsumerGroupCurrentMemberAssignmentValue.TopicPartitions
    return [
        part(
            topic_id=topic_id,
            partitions=list(epochs),
            assignment_epochs=list(epochs.values()),
        )
        for topic_id, epochs in owned.items()
    ]


def read_owned(parts: Iterable[Part], member_epoch: int) -> Owned:
    """Parses partitions with their epochs. Older versions wrote no epochs; such partitions get the member's epoch."""
    owned: dict[bytes, Mapping[int, int]] = {}
    for part in parts:
        epochs = part.assignment_epochs
        if epochs is None or len(epochs) != len(part.partitions):
            epochs = [max(member_epoch, 0)] * len(part.partitions)
        owned[part.topic_id] = dict(zip(part.partitions, epochs, strict=True))
    return owned


def read_state(number: int) -> MemberState:
    """Returns the state of a record, UNKNOWN if a later version has added it."""
    try:
        return MemberState(number)
    except ValueError:
        return MemberState.UNKNOWN


# Regular expressions


def _regex_key(group_id: str, regex: str) -> bytes:
    key = ConsumerGroupRegularExpressionKey(group_id=group_id, regular_expression=regex)
    return ConsumerGroupRegularExpressionKey.encode(REGEX, key)


def regex_record(group_id: str, regex: str, resolved: Resolved) -> Record:
    """Returns the record of the topics that match an expression."""
    value = ConsumerGroupRegularExpressionValue(
        topics=sorted(resolved.topics), version=resolved.version, timestamp=resolved.resolved_ms
    )
    data = ConsumerGroupRegularExpressionValue.encode(_VALUE, value)
    return Record(_regex_key(group_id, regex), data)


def no_regex_record(group_id: str, regex: str) -> Record:
    """Returns the record that deletes an unused expression."""
    return Record(_regex_key(group_id, regex), None)
