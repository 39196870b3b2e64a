"""A consumer group of KIP-848.

Three epochs describe its progress:

    group epoch ──► assignment epoch ──► member epochs
    its members,     the assignment      what each member
    their topics     that was made       has reached

The *group epoch* grows with every change of members, of their subscriptions and of their topics. From it an assignor
computes the *target assignment*, at most once in ``assignment_interval_ms``. The assignment epoch is then the group
epoch. The heartbeats of each member move it towards the target (``reconciling``). It revokes partitions that are not in
its target, enters the epoch, and gets partitions that no other member still has. So there is no barrier, and members
that a change does not affect continue to read.

All state here is durable: it changes only by replaying records. Timers are in ``expecting`` and ``timeouts``, which
know groups and members by id.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from pybroker.coordinator.group.consumer import committing, expecting, records
from pybroker.coordinator.group.consumer.counting import count
from pybroker.coordinator.group.consumer.member import (
    LEAVE,
    NO_TARGET,
    NOTHING,
    ConsumerMember,
    Owned,
    Target,
)
from pybroker.coordinator.group.consumer.subscriptions.resolved import Resolved
from pybroker.coordinator.group.consumer.subscriptions.subscriptions import Subscriptions
from pybroker.coordinator.group.group import CONSUMER_KIND, CheckPartition, Commit, RetentionStart, Subscription
from pybroker.coordinator.shard import Record, Result
from pyclient.protocol import ListGroups, errors
from pyclient.protocol.records import (
    ConsumerGroupCurrentMemberAssignmentValue,
    ConsumerGroupMemberMetadataValue,
)

if TYPE_CHECKING:
    from pybroker.coordinator.group.consumer.context import ConsumerContext
    from pyclient.protocol import DescribeGroups

CONSUMER_PROTOCOL = "consumer"
EMPTY = "Empty"
ASSIGNING = "Assigning"
RECONCILING = "Reconciling"
STABLE = "Stable"


class ConsumerGroup:
    """One group: its epochs, its members, and their target and current assignments."""

    kind = CONSUMER_KIND

    def __init__(self, id: str, context: ConsumerContext) -> None:
        self.id = id
        self.context = context
        self.epoch = 1
        self.metadata_hash = 0
        """The metadata hash of the group's topics in this epoch."""
        self.assignment_epoch = 1
        self.assigned_ms = 0
        """When the target assignment was made, by the wall clock; 0 if this broker has made none yet."""
        self.members: dict[str, ConsumerMember] = {}
        self.targets: dict[str, Target] = {}
        self.static: dict[str, str] = {}
        """Member ids by instance id."""
        self.owners: dict[bytes, dict[int, str]] = {}
        """Topic id → partition → the member that has it or has not revoked it yet."""
        self.subscriptions = Subscriptions()
        self.size = 0
        """The sum of the members' sizes."""
        self.assignors: dict[str, int] = {}
        """How many members prefer each assignor."""
        self.classic_members = 0
        self.classic_protocols: dict[str, int] = {}
        """How many of the classic members support each protocol."""
        self.has_partition_metadata = False
        """True if the log has a record of topic metadata from an older version. The next group epoch deletes it."""
        self.checked_version = -1
        """The metadata version in which ``metadata_hash`` was last checked."""

    def __repr__(self) -> str:
        return f"ConsumerGroup({self.id!r}, {self.state}, epoch {self.epoch})"

    # # Questions

    @property
    def is_empty(self) -> bool:
        """True if the group has no members. A static member that is temporarily away counts as a member."""
        return not self.members

    @property
    def may_go(self) -> bool:
        """True if the group may be removed with its last offset."""
        return not self.members

    @property
    def state(self) -> str:
        """The state as clients see it."""
        if not self.members:
            return EMPTY
        if self.epoch > self.assignment_epoch:
            return ASSIGNING
        epoch = self.assignment_epoch
        stable = all(member.is_reconciled_to(epoch) for member in self.members.values())
        return STABLE if stable else RECONCILING

    def member(self, member_id: str) -> ConsumerMember:
        """Returns the member. Raises UnknownMemberId."""
        member = self.members.get(member_id)
        if member is None:
            raise errors.UnknownMemberId(f"Member {member_id} is not a member of group {self.id}.")
        return member

    def static_member(self, instance_id: str | None) -> ConsumerMember | None:
        """Returns the member with this instance id, or None."""
        member_id = None if instance_id is None else self.static.get(instance_id)
        return None if member_id is None else self.members[member_id]

    def target_of(self, member: ConsumerMember) -> Target:
        """Returns the member's target; a static member inherits it from the member that it replaces."""
        member_id = member.id
        if member.instance_id is not None:
            member_id = self.static.get(member.instance_id, "")
        return self.targets.get(member_id, NO_TARGET)

    def is_owned(self, topic_id: bytes, partition: int) -> bool:
        """Returns whether a member has the partition or has not revoked it yet."""
        return partition in self.owners.get(topic_id, ())

    def preferred_assignor(
        self, before: ConsumerMember | None = None, after: ConsumerMember | None = None
    ) -> str:
        """Returns the assignor that most members prefer, or the configured one if no member prefers any.

        It counts as if the member ``before`` had become ``after``.
        """
        counts = dict(self.assignors)
        if before is not None and before.assignor is not None:
            count(counts, (before.assignor,), -1)
        if after is not None and after.assignor is not None:
            count(counts, (after.assignor,), 1)
        return max(counts, key=lambda name: counts[name], default=self.context.settings.assignors[0])

    # # Group

    def may_commit(self, commit: Commit, result: Result) -> CheckPartition | None:
        """Checks whether the member may commit; see ``Group.may_commit``."""
        return committing.may_commit(self, commit)

    def may_fetch(self, member_id: str | None, member_epoch: int) -> None:
        """Checks whether the member may fetch offsets; see ``Group.may_fetch``."""
        committing.may_fetch(self, member_id, member_epoch)

    def check_offsets_deletable(self) -> None:
        """Does nothing: offsets of topics without readers may always be deleted."""

    def check_deletable(self) -> None:
        """Raises NonEmptyGroup if the group has members."""
        if self.members:
            raise errors.NonEmptyGroup

    def is_subscribed(self, topic: str) -> bool:
        """Returns whether a member reads the topic."""
        return topic in self.subscriptions

    def retention_start(self) -> RetentionStart | None:
        """Counts the retention of each offset from its commit."""
        return lambda committed: committed.committed_ms

    def member_subscriptions(self) -> Iterator[tuple[str, Subscription]]:
        """Yields each member's id and subscription."""
        for member in self.members.values():
            yield member.id, Subscription(member.topics, member.regex)

    def tombstones(self) -> list[Record]:
        """Returns the records that delete the group, without its offsets."""
        return self.tombstones_for(list(self.members))

    def tombstones_for(self, member_ids: list[str]) -> list[Record]:
        """Returns tombstones for these members, which may have changed in the current event."""
        return [
            *(records.no_current_record(self.id, member_id) for member_id in member_ids),
            *(records.no_target_record(self.id, member_id) for member_id in member_ids),
            records.no_target_epoch_record(self.id),
            *(records.no_member_record(self.id, member_id) for member_id in member_ids),
            *(records.no_regex_record(self.id, regex) for regex in self.subscriptions.resolved),
            records.no_partition_metadata_record(self.id),
            records.no_group_record(self.id),
        ]

    def described(self) -> DescribeGroups.Response.DescribedGroup:
        """Raises GroupIdNotFound: DescribeGroups shows classic groups only."""
        raise errors.GroupIdNotFound(f"Group {self.id} is not a classic group.")

    def listed(self) -> ListGroups.Response.ListedGroup:
        """Returns the group's row of ListGroups."""
        return ListGroups.Response.ListedGroup(
            group_id=self.id,
            protocol_type=CONSUMER_PROTOCOL,
            group_state=self.state,
            group_type=CONSUMER_KIND,
        )

    def resume(self, result: Result) -> None:
        """Starts a full session for each member, after the log has been loaded."""
        expecting.resume(self, result)

    def die(self) -> None:
        """Removes the group's deadlines: it was deleted, or a group of the other protocol replaces it."""
        self.context.timeouts.forget_group(self.id)

    # # Replay

    def replay_group(self, epoch: int, metadata_hash: int) -> None:
        """Sets the group epoch."""
        self.epoch = epoch
        self.metadata_hash = metadata_hash

    def replay_member(self, member_id: str, value: ConsumerGroupMemberMetadataValue) -> None:
        """Sets the facts that the member has reported."""
        before = self.members.get(member_id) or ConsumerMember(member_id)
        member = replace(
            before,
            instance_id=value.instance_id,
            rack_id=value.rack_id,
            client_id=value.client_id,
            client_host=value.client_host,
            topics=frozenset(value.subscribed_topic_names),
            regex=value.subscribed_topic_regex or "",
            rebalance_timeout_ms=value.rebalance_timeout_ms,
            assignor=value.server_assignor,
            classic=records.read_classic(value),
        )
        self.put(member)

    def replay_current(
        self, member_id: str, value: ConsumerGroupCurrentMemberAssignmentValue | None
    ) -> None:
        """Sets the member's current assignment; None removes it."""
        before = self.members.get(member_id)
        if value is None:
            if before is not None:
                self.put(
                    replace(
                        before,
                        epoch=LEAVE,
                        previous_epoch=LEAVE,
                        assigned=NOTHING,
                        pending_revocation=NOTHING,
                    )
                )
            return
        epoch = value.member_epoch
        member = replace(
            before or ConsumerMember(member_id),
            epoch=epoch,
            previous_epoch=value.previous_member_epoch,
            state=records.read_state(value.state),
            assigned=records.read_owned(value.assigned_partitions, epoch),
            pending_revocation=records.read_owned(value.partitions_pending_revocation, epoch),
        )
        self.put(member)

    def replay_target(self, member_id: str, target: Target | None) -> None:
        """Sets the member's target; None removes it."""
        if target is None:
            self.targets.pop(member_id, None)
        else:
            self.targets[member_id] = target

    def replay_target_epoch(self, epoch: int, now_ms: int) -> None:
        """Sets the epoch of the target assignment."""
        self.assignment_epoch = epoch
        self.assigned_ms = now_ms

    def replay_regex(self, regex: str, resolved: Resolved | None) -> None:
        """Sets the topics that match an expression; None if it is no longer in use."""
        self.subscriptions.resolve(regex, resolved)

    def put(self, member: ConsumerMember) -> None:
        """Adds the member, or replaces its earlier value."""
        before = self.members.get(member.id)
        if before is not None:
            self._take_out(before, member)
        self.members[member.id] = member
        if before is None or not _says_the_same(before, member):
            self._count(member, 1)
        self._own(member.assigned, member.id)
        self._own(member.pending_revocation, member.id)
        if member.instance_id is not None:
            self.static[member.instance_id] = member.id

    def remove(self, member_id: str) -> None:
        """Removes a member that has left or was evicted."""
        member = self.members.pop(member_id, None)
        if member is not None:
            self._take_out(member, None)

    def _take_out(self, before: ConsumerMember, after: ConsumerMember | None) -> None:
        self._disown(before.assigned, before.id)
        self._disown(before.pending_revocation, before.id)
        if after is None or not _says_the_same(before, after):
            self._count(before, -1)
            if before.instance_id is not None and self.static.get(before.instance_id) == before.id:
                del self.static[before.instance_id]

    def _count(self, member: ConsumerMember, by: int) -> None:
        self.size += by * member.size
        (self.subscriptions.add if by > 0 else self.subscriptions.remove)(member)
        if member.assignor is not None:
            count(self.assignors, (member.assignor,), by)
        if member.classic is not None:
            self.classic_members += by
            count(self.classic_protocols, {name for name, _ in member.classic.protocols}, by)

    def _own(self, owned: Owned, member_id: str) -> None:
        for topic_id, partitions in owned.items():
            self.owners.setdefault(topic_id, {}).update(dict.fromkeys(partitions, member_id))

    def _disown(self, owned: Mapping[bytes, Mapping[int, int]], member_id: str) -> None:
        for topic_id, partitions in owned.items():
            owners = self.owners.get(topic_id)
            if owners is None:
                continue
            for partition in partitions:
                if owners.get(partition) == member_id:
                    del owners[partition]
            if not owners:
                del self.owners[topic_id]


def _says_the_same(one: ConsumerMember, other: ConsumerMember) -> bool:
    """Returns whether two values of a member are equal in everything that the group counts."""
    return (
        one.topics == other.topics
        and one.regex == other.regex
        and one.assignor == other.assignor
        and one.classic == other.classic
        and (one.client_id, one.instance_id, one.rack_id) == (other.client_id, other.instance_id, other.rack_id)
    )
