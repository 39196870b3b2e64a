"""A consumer group of the new protocol (KIP-848).

Three epochs say where it stands:

    group epoch ──► assignment epoch ──► member epochs
    what is to be     what has been         what each member
    read, by whom     decided               has come to

The *group epoch* grows with every change of members, of their subscriptions and of the topics that they read. An
assignor makes of it the *target assignment*, whose epoch is then the group's; at most once in
``assignment_interval_ms``. The heartbeats of each member lead it from what it has to the target (``reconciling``). It
gives back partitions that it should not have, enters the epoch, and gets partitions that no other member still has. So
there is no barrier, and members that the change does not concern read on.

Everything here is durable: it changes by replaying records only. Timers are the business of
``expecting`` and ``timeouts``, which knows groups and members by their ids.
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
from pybroker.coordinator.group.consumer.resolved import Resolved
from pybroker.coordinator.group.consumer.subscriptions import Subscriptions
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
    """One group: its epochs, its members, what they shall have and what they have."""

    kind = CONSUMER_KIND

    def __init__(self, id: str, context: ConsumerContext) -> None:
        self.id = id
        self.context = context
        self.epoch = 1
        self.metadata_hash = 0
        """The metadata hash of the topics, as they were in this epoch."""
        self.assignment_epoch = 1
        self.assigned_ms = 0
        """When the target assignment was made, by the wall clock; 0: not yet by us."""
        self.members: dict[str, ConsumerMember] = {}
        self.targets: dict[str, Target] = {}
        self.static: dict[str, str] = {}
        """Instance id → member id."""
        self.owners: dict[bytes, dict[int, str]] = {}
        """Topic id → partition → the member that has it, or has not given it back yet."""
        self.subscriptions = Subscriptions()
        self.assignors: dict[str, int] = {}
        """How many members want that assignor."""
        self.classic_members = 0
        self.classic_protocols: dict[str, int] = {}
        """How many of the classic members know that protocol."""
        self.has_partition_metadata = False
        """There is a record of an older version, to be deleted with the next epoch."""
        self.checked_version = -1
        """The version of the metadata in which ``metadata_hash`` was last found to be true."""

    def __repr__(self) -> str:
        return f"ConsumerGroup({self.id!r}, {self.state}, epoch {self.epoch})"

    # What others ask

    @property
    def is_empty(self) -> bool:
        """Whether the group has no members. A static member that is away for a moment still counts."""
        return not self.members

    @property
    def may_go(self) -> bool:
        """The group goes with its last offset."""
        return not self.members

    @property
    def state(self) -> str:
        """The state by the name that clients see."""
        if not self.members:
            return EMPTY
        if self.epoch > self.assignment_epoch:
            return ASSIGNING
        epoch = self.assignment_epoch
        stable = all(member.is_reconciled_to(epoch) for member in self.members.values())
        return STABLE if stable else RECONCILING

    def member(self, member_id: str) -> ConsumerMember:
        """The member; raises UnknownMemberId."""
        member = self.members.get(member_id)
        if member is None:
            raise errors.UnknownMemberId(f"Member {member_id} is not a member of group {self.id}.")
        return member

    def static_member(self, instance_id: str | None) -> ConsumerMember | None:
        """The member that has this instance id, or None."""
        member_id = None if instance_id is None else self.static.get(instance_id)
        return None if member_id is None else self.members[member_id]

    def target_of(self, member: ConsumerMember) -> Target:
        """What the member shall have; a static one inherits from whom it takes the place of."""
        member_id = member.id
        if member.instance_id is not None:
            member_id = self.static.get(member.instance_id, "")
        return self.targets.get(member_id, NO_TARGET)

    def is_owned(self, topic_id: bytes, partition: int) -> bool:
        """Some member has the partition, or has not given it back yet."""
        return partition in self.owners.get(topic_id, ())

    def preferred_assignor(
        self, before: ConsumerMember | None = None, after: ConsumerMember | None = None
    ) -> str:
        """The assignor that most members want, with one of them changed; else the default."""
        counts = dict(self.assignors)
        if before is not None and before.assignor is not None:
            count(counts, (before.assignor,), -1)
        if after is not None and after.assignor is not None:
            count(counts, (after.assignor,), 1)
        return max(counts, key=lambda name: counts[name], default=self.context.settings.assignors[0])

    # The Group of the shard

    def may_commit(self, commit: Commit, result: Result) -> CheckPartition | None:
        """See ``Group.may_commit``."""
        return committing.may_commit(self, commit)

    def may_fetch(self, member_id: str | None, member_epoch: int) -> None:
        """See ``Group.may_fetch``."""
        committing.may_fetch(self, member_id, member_epoch)

    def check_offsets_deletable(self) -> None:
        """Offsets of topics without readers may always expire."""

    def check_deletable(self) -> None:
        """Raises NonEmptyGroup."""
        if self.members:
            raise errors.NonEmptyGroup

    def is_subscribed(self, topic: str) -> bool:
        """Whether a member reads the topic."""
        return topic in self.subscriptions

    def retention_start(self) -> RetentionStart | None:
        """Each offset counts from its commit."""
        return lambda committed: committed.committed_ms

    def member_subscriptions(self) -> Iterator[tuple[str, Subscription]]:
        """Each member's id, with the topics to which it subscribes."""
        for member in self.members.values():
            yield member.id, Subscription(member.topics, member.regex)

    def tombstones(self) -> list[Record]:
        """The records that delete the group, without its offsets."""
        return self.tombstones_for(list(self.members))

    def tombstones_for(self, member_ids: list[str]) -> list[Record]:
        """The same with the members' ids as they have become in the event that deletes it."""
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
        """DescribeGroups does not show such groups: raises GroupIdNotFound."""
        raise errors.GroupIdNotFound(f"Group {self.id} is not a classic group.")

    def listed(self) -> ListGroups.Response.ListedGroup:
        """The group in one line."""
        return ListGroups.Response.ListedGroup(
            group_id=self.id,
            protocol_type=CONSUMER_PROTOCOL,
            group_state=self.state,
            group_type=CONSUMER_KIND,
        )

    def resume(self, result: Result) -> None:
        """The log has been loaded: the members have a full session from now to be heard."""
        expecting.resume(self, result)

    def die(self) -> None:
        """The group is gone, or another kind takes its place."""
        self.context.timeouts.forget_group(self.id)

    # What the log says

    def replay_group(self, epoch: int, metadata_hash: int) -> None:
        """A new epoch."""
        self.epoch = epoch
        self.metadata_hash = metadata_hash

    def replay_member(self, member_id: str, value: ConsumerGroupMemberMetadataValue) -> None:
        """What the member has said."""
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
        """What the member has; None: nothing."""
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
        """The member's target; None: it has left."""
        if target is None:
            self.targets.pop(member_id, None)
        else:
            self.targets[member_id] = target

    def replay_target_epoch(self, epoch: int, now_ms: int) -> None:
        """The target assignment is that of this epoch."""
        self.assignment_epoch = epoch
        self.assigned_ms = now_ms

    def replay_regex(self, regex: str, resolved: Resolved | None) -> None:
        """Returns the topics that match an expression, or None if it is not in use."""
        self.subscriptions.resolve(regex, resolved)

    def put(self, member: ConsumerMember) -> None:
        """The member is this one from now on."""
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
        """The member has left or was evicted."""
        member = self.members.pop(member_id, None)
        if member is not None:
            self._take_out(member, None)
            if member.instance_id is not None and self.static.get(member.instance_id) == member.id:
                del self.static[member.instance_id]

    def _take_out(self, before: ConsumerMember, after: ConsumerMember | None) -> None:
        self._disown(before.assigned, before.id)
        self._disown(before.pending_revocation, before.id)
        if after is None or not _says_the_same(before, after):
            self._count(before, -1)

    def _count(self, member: ConsumerMember, by: int) -> None:
        (self.subscriptions.add if by > 0 else self.subscriptions.remove)(member)
        if member.assignor is not None:
            count(self.assignors, (member.assignor,), by)
        if member.classic is not None:
            self.classic_members += by
            count(self.classic_protocols, (name for name, _ in member.classic.protocols), by)

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
    """What the group counts of members has not changed."""
    return (
        one.topics == other.topics
        and one.regex == other.regex
        and one.assignor == other.assignor
        and one.classic == other.classic
    )
