"""A classic group, as its shard sees it: who may commit, what stays, what the log says of it.

The rebalance, by far the larger part, is ``rebalancing``; ``joining`` and ``syncing`` decide about
requests.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from pybroker.coordinator.group import describing
from pybroker.coordinator.group.group import CLASSIC, CheckPartition, Commit, RetentionStart
from pybroker.coordinator.group.members import Members
from pybroker.coordinator.group.rebalancing import (
    NO_TIMESTAMP,
    GroupContext,
    Rebalancing,
    refusal,
)
from pybroker.coordinator.group.records import no_group_record, read_member
from pybroker.coordinator.group.state import COMPLETING, DEAD, EMPTY, PREPARING, STABLE
from pybroker.coordinator.shard import Record, Result
from pyclient.protocol import errors

if TYPE_CHECKING:
    from pyclient.protocol import DescribeGroups, ListGroups
    from pyclient.protocol.records import GroupMetadataValue

__all__ = ("NO_TIMESTAMP", "ClassicGroup", "GroupContext", "refusal")


class ClassicGroup(Rebalancing):
    """One group; fulfils ``group.Group``, where its methods are told.

    A group without a protocol type is a *simple* one: it has committed offsets and no members yet.
    """

    kind = CLASSIC

    @property
    def is_empty(self) -> bool:
        """No members, not deleted."""
        return self.state is EMPTY

    @property
    def may_go(self) -> bool:
        """Empty, and nobody has been given a member id."""
        return self.state is EMPTY and not self.pending

    # Offsets

    def may_commit(self, commit: Commit, result: Result) -> CheckPartition | None:
        """Members of the generation may, and whoever likes while there are none.

        A commit keeps a member's session alive. The rules of transactions are looser, as their old
        versions name no member. Raises CoordinatorNotAvailable, UnknownMemberId, FencedInstanceId,
        IllegalGeneration, RebalanceInProgress.
        """
        self.check_alive()
        if commit.epoch < 0 and self.state is EMPTY:
            return None
        if commit.epoch >= 0 or commit.member_id or commit.instance_id is not None:
            member = self.members.known(commit.member_id, commit.instance_id)
            self.check_generation(commit.epoch)
            if commit.transactional:
                return None
            if self.state is COMPLETING:
                raise errors.RebalanceInProgress
            if self.state in (STABLE, PREPARING):
                self.touch(member, result)
        elif not commit.transactional:
            raise errors.UnknownMemberId(f"group {self.id} has members: only they may commit")
        return None

    def may_fetch(self, member_id: str | None, member_epoch: int) -> None:
        """Anybody may. Raises GroupIdNotFound for a group that has just been deleted."""
        self._check_exists()

    def check_offsets_deletable(self) -> None:
        """Consumers say what they read, so the rest may go; of others nothing is known.

        Raises GroupIdNotFound, NonEmptyGroup.
        """
        self._check_exists()
        if self.state is not EMPTY and not self.has_consumers:
            raise errors.NonEmptyGroup(f"group {self.id} has members")

    def is_subscribed(self, topic: str) -> bool:
        """Whether members read the topic; where that is unknown, consumers may."""
        if self.subscribed is not None:
            return topic in self.subscribed
        return self.has_consumers

    def retention_start(self) -> RetentionStart | None:
        """From when the retention of the group's offsets counts; None where they are all in use.

        A group with members keeps the offsets of topics that they read, an empty one all of them
        from the moment it became empty (KIP-211). Offsets without a group count from their commit.
        """
        since_ms = self.since_ms
        if not self.is_simple and self.state is EMPTY and since_ms != NO_TIMESTAMP:
            return lambda committed: since_ms
        if self.state is EMPTY or (self.state is STABLE and self.subscribed is not None):
            return lambda committed: committed.committed_ms
        return None

    # The whole group

    def _check_exists(self) -> None:
        if self.state is DEAD:
            raise errors.GroupIdNotFound(f"Group {self.id} not found.")

    def check_deletable(self) -> None:
        """Raises GroupIdNotFound, NonEmptyGroup."""
        self._check_exists()
        if self.state is not EMPTY:
            raise errors.NonEmptyGroup(f"group {self.id} has members")

    def tombstones(self) -> list[Record]:
        """The record that deletes the group."""
        return [no_group_record(self.id)]

    def described(self) -> DescribeGroups.Response.DescribedGroup:
        """The group and its members. Raises GroupIdNotFound."""
        self._check_exists()
        return describing.describe(self)

    def listed(self) -> ListGroups.Response.ListedGroup:
        """The group in one line."""
        return describing.listed(self)

    def member_subscriptions(self) -> Iterator[tuple[str, bytes]]:
        """Each member's id and the metadata of its protocol; of consumers their subscription."""
        for member in self.members:
            yield member.id, member.metadata(self.protocol) if self.has_consumers else b""

    # What the log says

    def restore(self, value: GroupMetadataValue) -> None:
        """While the log is loaded: the group is what its record says."""
        self.protocol_type = value.protocol_type or None
        self.protocol = value.protocol
        self.generation = value.generation
        self.since_ms = value.current_state_timestamp
        self.members = Members()
        for message in value.members:
            self.members.add(read_member(message, value.protocol))
        if value.leader is not None and value.leader in self.members:
            self.members.leader_id = value.leader
        self.state = STABLE if self.members else EMPTY
        self.subscribed = self.find_subscribed()

    def accept(self, value: GroupMetadataValue) -> None:
        """A record of the living group has been written: its assignments are in force."""
        for message in value.members:
            member = self.members.get(message.member_id)
            if member is not None:
                member.assignment = bytes(message.assignment)
        if self.state is COMPLETING and value.members:
            self.previous, self.state = self.state, STABLE
            self.since_ms = value.current_state_timestamp

    def resume(self, result: Result) -> None:
        """The log has been loaded: the members have a full session from now to be heard."""
        for member in self.members:
            self.touch(member, result)
        if len(self.members) > self.settings.max_size:
            self.prepare_rebalance(result)

    def die(self) -> None:
        """The group is gone; nothing of it fires any more."""
        self.previous, self.state = self.state, DEAD
        for timer in (self._phase, *self.pending.values(), *(m.session for m in self.members)):
            self.timers.cancel(timer)
