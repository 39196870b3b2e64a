"""Records of ``__consumer_offsets``: keys and values in Kafka's formats.

The first int16 of a key is the type of the record: 0 and 1 are committed offsets, 2 is a classic group. A value begins
with its own version. The versions written are those of Kafka 4.3.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final, Protocol

from cy.wire.buffer import DecodeError
from pybroker.coordinator.group.members import Member, Members
from pybroker.coordinator.group.offsets import NEVER_MS, CommittedOffset
from pybroker.coordinator.shard import Record
from pybroker.short_cache import cached_if_short
from pyclient.protocol.records import (
    ConsumerProtocolSubscription,
    GroupMetadataKey,
    GroupMetadataValue,
    OffsetCommitKey,
    OffsetCommitValue,
)

OFFSET_TYPES: Final = (0, 1)
GROUP_TYPE: Final = 2

_KNOWN_KEYS = 8_192
"""How many keys of offsets are cached: clients commit the same few again and again."""

_OFFSET_KEY_VERSION = 1
_OFFSET_VALUE_VERSION = 4
_EXPIRING_OFFSET_VALUE_VERSION = 1
_GROUP_KEY_VERSION = 2
_GROUP_VALUE_VERSION = 3

CONSUMER: Final = "consumer"
"""The protocol type of consumers, whose metadata the coordinator can read."""


class RecordedGroup(Protocol):
    """The part of a group that its record contains."""

    id: str
    generation: int
    protocol_type: str | None
    protocol: str | None
    members: Members
    since_ms: int


def record_type(key: bytes) -> int:
    """Returns the record type at the beginning of a key, -1 if the key is too short."""
    return int.from_bytes(key[:2], "big") if len(key) >= 2 else -1


@cached_if_short(_KNOWN_KEYS)
def offset_key(group_id: str, topic: str, partition: int) -> bytes:
    """Returns the key of a committed offset."""
    message = OffsetCommitKey(group=group_id, topic=topic, partition=partition)
    return OffsetCommitKey.encode(_OFFSET_KEY_VERSION, message)


@cached_if_short(_KNOWN_KEYS)
def read_offset_key(key: bytes) -> tuple[str, str, int]:
    """Parses group, topic and partition. Raises DecodeError."""
    message = OffsetCommitKey.decode(key)
    return message.group, message.topic, message.partition


def offset_record(group_id: str, topic: str, partition: int, committed: CommittedOffset) -> Record:
    """Returns the record that commits an offset."""
    expires = committed.expires_ms != NEVER_MS
    value = OffsetCommitValue.encode(
        _EXPIRING_OFFSET_VALUE_VERSION if expires else _OFFSET_VALUE_VERSION,
        OffsetCommitValue(
            offset=committed.offset,
            leader_epoch=committed.leader_epoch,
            metadata=committed.metadata,
            commit_timestamp=committed.committed_ms,
            expire_timestamp=committed.expires_ms,
            topic_id=committed.topic_id,
        ),
    )
    return Record(offset_key(group_id, topic, partition), value)


def no_offset_record(group_id: str, topic: str, partition: int) -> Record:
    """Returns the record that deletes a committed offset."""
    return Record(offset_key(group_id, topic, partition), None)


def read_offset(value: bytes, number: int = 0) -> CommittedOffset:
    """Parses the value of an offset's record, the shard's ``number``th one. Raises DecodeError."""
    message = OffsetCommitValue.decode(value)
    return CommittedOffset(
        message.offset,
        message.leader_epoch,
        message.metadata,
        message.commit_timestamp,
        message.expire_timestamp,
        message.topic_id,
        number,
    )


def group_record(group: RecordedGroup, assignments: Mapping[str, bytes]) -> Record:
    """Returns the record of the group with these assignments by member id."""
    value = GroupMetadataValue(
        protocol_type=group.protocol_type or "",
        generation=group.generation,
        protocol=group.protocol,
        leader=group.members.leader_id,
        current_state_timestamp=group.since_ms,
        members=[_member(member, group, assignments) for member in group.members],
    )
    return Record(group_key(group.id), GroupMetadataValue.encode(_GROUP_VALUE_VERSION, value))


def no_group_record(group_id: str) -> Record:
    """Returns the record that deletes a group."""
    return Record(group_key(group_id), None)


def group_key(group_id: str) -> bytes:
    """Returns the key of a group."""
    return GroupMetadataKey.encode(_GROUP_KEY_VERSION, GroupMetadataKey(group=group_id))


def _member(
    member: Member, group: RecordedGroup, assignments: Mapping[str, bytes]
) -> GroupMetadataValue.MemberMetadata:
    return GroupMetadataValue.MemberMetadata(
        member_id=member.id,
        group_instance_id=member.instance_id,
        client_id=member.client_id,
        client_host=member.client_host,
        rebalance_timeout=member.rebalance_timeout_ms,
        session_timeout=member.session_timeout_ms,
        subscription=member.metadata(group.protocol),
        assignment=assignments.get(member.id, b""),
    )


def read_member(message: GroupMetadataValue.MemberMetadata, protocol: str | None) -> Member:
    """Parses a member of a group's record, which contains only the protocol that the group uses."""
    timeout = message.session_timeout
    return Member(
        message.member_id,
        message.group_instance_id,
        message.client_id,
        message.client_host,
        timeout if message.rebalance_timeout == -1 else message.rebalance_timeout,
        timeout,
        ((protocol or "", bytes(message.subscription)),),
        bytes(message.assignment),
    )


def subscribed_topics(metadata: bytes) -> frozenset[str] | None:
    """Returns the topics in a consumer's metadata, None if it is malformed."""
    try:
        return frozenset(ConsumerProtocolSubscription.decode(metadata).topics)
    except DecodeError:
        return None


def subscribed_by_all(metadata: Iterable[bytes]) -> frozenset[str] | None:
    """Returns the topics of several consumers together, None if the metadata of one is malformed."""
    found: set[str] = set()
    for each in metadata:
        topics = subscribed_topics(each)
        if topics is None:
            return None
        found |= topics
    return frozenset(found)
