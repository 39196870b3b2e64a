"""Checks whether a client may commit and fetch the offsets of a consumer group.

A member commits in its own epoch. An earlier epoch is accepted for partitions that the member has had since that epoch:
it may not have received the answer to its last heartbeat (KIP-1251). A client that is not a member, such as an
administrator, may commit only while the group is empty.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from pybroker.coordinator.group.consumer.member import ConsumerMember
from pybroker.coordinator.group.group import CheckPartition, Commit
from pyclient.protocol import errors

_FIRST_FOR_CONSUMERS = 9


class Members(Protocol):
    """The part of the group that this module uses."""

    @property
    def members(self) -> Mapping[str, ConsumerMember]: ...

    def member(self, member_id: str) -> ConsumerMember: ...


def may_commit(group: Members, commit: Commit) -> CheckPartition | None:
    """Checks whether the member may commit; see ``Group.may_commit``."""
    if commit.epoch < 0 and not group.members:
        return None
    nobody = commit.epoch == -1 and not commit.member_id and commit.instance_id is None
    if commit.transactional and nobody:
        return None
    member = group.member(commit.member_id)
    if not commit.transactional and member.classic is None and commit.version < _FIRST_FOR_CONSUMERS:
        raise errors.UnsupportedVersion(
            "OffsetCommit version 9 or above must be used by members using the consumer group protocol"
        )
    if commit.epoch == member.epoch:
        return None
    if commit.epoch > member.epoch:
        raise _stale(
            member, f"Received {{}} {commit.epoch} is newer than current member epoch {member.epoch}."
        )
    return _check_of(member, commit.epoch)


def _check_of(member: ConsumerMember, epoch: int) -> CheckPartition:
    def check(topic: str, topic_id: bytes, partition: int) -> None:
        since = member.assignment_epoch(topic_id, partition)
        if since is None:
            raise _stale(
                member,
                f"Partition {topic}-{partition} is not assigned or pending revocation for member.",
            )
        if epoch < since:
            raise _stale(
                member,
                f"Received {{}} {epoch} is older than assignment epoch {since} "
                f"for partition {topic}-{partition}.",
            )

    return check


def may_fetch(group: Members, member_id: str | None, member_epoch: int) -> None:
    """Checks whether the member may fetch offsets; see ``Group.may_fetch``."""
    if member_id is None and member_epoch < 0:
        return
    member = group.member(member_id or "")
    if member_epoch != member.epoch:
        raise _stale(
            member,
            f"The received {{}} {member_epoch} does not match the expected member epoch {member.epoch}.",
        )


def _stale(member: ConsumerMember, text: str) -> errors.KafkaError:
    """Returns the error for the member's protocol; {} in the text becomes that protocol's word for an epoch."""
    if member.classic is None:
        return errors.StaleMemberEpoch(text.replace("{}", "member epoch"))
    return errors.IllegalGeneration(text.replace("{}", "generation id"))
