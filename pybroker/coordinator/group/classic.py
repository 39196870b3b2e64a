"""A classic group: its members elect a leader, which assigns the partitions (KIP-62, KIP-345).

A *rebalance* is a barrier in two parts. While the group is preparing, every member sends a JoinGroup and waits. When
all have joined, or the longest rebalance timeout is over, a new generation begins; members that have not joined are
evicted, except static ones. All JoinGroups are answered, the leader's with the metadata of all members. Then each
member sends a SyncGroup and waits. The leader's SyncGroup contains the assignments. They are written to the log before
members get them; then the group is stable. A member that does not sync within the rebalance timeout is evicted.

The first rebalance of an empty group waits ``group.initial.rebalance.delay.ms`` for more members. If more arrive, it
waits again, up to the rebalance timeout.

A member whose session has expired is evicted (``sessions``).

``joining`` and ``syncing`` handle JoinGroup and SyncGroup.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from functools import partial
from typing import TYPE_CHECKING

from cy.counted import counted
from pybroker.coordinator.group import describing
from pybroker.coordinator.group.context import GroupContext
from pybroker.coordinator.group.group import CLASSIC, CheckPartition, Commit, RetentionStart
from pybroker.coordinator.group.join_responses import JoinedMember, joined_members, refusal
from pybroker.coordinator.group.members import Member, Members
from pybroker.coordinator.group.records import (
    CONSUMER,
    group_record,
    no_group_record,
    read_member,
    subscribed_by_all,
)
from pybroker.coordinator.group.sessions import Sessions
from pybroker.coordinator.group.state import (
    CAN_REBALANCE,
    COMES_FROM,
    COMPLETING,
    DEAD,
    EMPTY,
    PREPARING,
    STABLE,
    GroupState,
)
from pybroker.coordinator.shard import Event, Record, Result
from pybroker.coordinator.timer_wheel import Timer
from pyclient.protocol import JoinGroup, errors

if TYPE_CHECKING:
    from pyclient.protocol import DescribeGroups, ListGroups
    from pyclient.protocol.records import GroupMetadataValue

NO_TIMESTAMP = -1
MOST_PENDING = 1_000
"""How many reserved member ids are kept for all groups of a shard (KIP-394). A further one removes the oldest."""

logger = logging.getLogger(__name__)


class ClassicGroup:
    """One group. It implements ``group.Group``, where its methods are described.

    A group without a protocol type is a *simple* one: it has committed offsets and never had members.
    """

    kind = CLASSIC

    def __init__(self, id: str, context: GroupContext) -> None:
        self.id = id
        self.context = context
        self.settings = context.settings
        self.timers = context.timers
        self.state = EMPTY
        self.previous = EMPTY
        self.since_ms = NO_TIMESTAMP
        """When the state began, by the wall clock."""
        self.generation = 0
        self.protocol_type: str | None = None
        self.protocol: str | None = None
        self.subscribed: frozenset[str] | None = None
        """The topics of a consumer group's members, None if they are unknown."""
        self.members = Members()
        self.sessions = Sessions(self.timers, self._session_expired)
        self.pending: dict[str, Timer[Event]] = {}
        """Reserved member ids (KIP-394) whose clients have not joined yet."""
        self.unsynced: set[str] = set()
        """The members of this generation that have not sent their SyncGroup."""
        self._phase: Timer[Event] | None = None
        self._more_came = False

    def __repr__(self) -> str:
        return f"ClassicGroup({self.id!r}, {self.state}, generation {self.generation})"

    # # Questions

    @property
    def is_simple(self) -> bool:
        """True if no member has ever joined, so that the group has offsets only."""
        return self.protocol_type is None

    @property
    def has_consumers(self) -> bool:
        """True if the members are consumers, so that the coordinator can read their subscriptions."""
        return self.protocol_type == CONSUMER

    @property
    def rebalance_timeout_ms(self) -> int:
        """The longest rebalance timeout of the members."""
        return max((member.rebalance_timeout_ms for member in self.members), default=0)

    def supports(self, protocol_type: str, names: list[str]) -> bool:
        """Returns whether a member with these protocols can join."""
        if self.state is EMPTY:
            return bool(protocol_type and names)
        return protocol_type == self.protocol_type and self.members.agree_on(names)

    def check_alive(self) -> None:
        """Raises CoordinatorNotAvailable if the group has just been deleted."""
        if self.state is DEAD:
            raise errors.CoordinatorNotAvailable(f"group {self.id} is being deleted")

    def check_generation(self, generation: int) -> None:
        """Raises IllegalGeneration unless this is the current generation."""
        if generation != self.generation:
            raise errors.IllegalGeneration(f"group {self.id} is in generation {self.generation}")

    # Reserved member ids

    def add_pending(self, member_id: str, session_timeout_ms: int, result: Result) -> None:
        """Reserves a member id that its client has just been given."""
        now_ms, reserved = result.now.monotonic_ms, self.context.reserved
        if len(reserved) >= MOST_PENDING:
            reserved.pop(next(iter(reserved)))(now_ms)
        self._drop_at(now_ms + session_timeout_ms, member_id)
        reserved[member_id] = partial(self._give_up, member_id)

    def _drop_at(self, deadline_ms: int, member_id: str) -> None:
        self.pending[member_id] = self.timers.schedule(deadline_ms, partial(self._pending_ended, member_id))

    def _give_up(self, member_id: str, now_ms: int) -> None:
        """Schedules an event that drops a reserved member id at ``now_ms``, because the group may have to react."""
        self.timers.cancel(self.pending[member_id])
        self._drop_at(now_ms, member_id)

    def drop_pending(self, member_id: str) -> bool:
        """Drops a reserved member id; returns False if there was none."""
        timer = self.pending.pop(member_id, None)
        if timer is None:
            return False
        self.context.reserved.pop(member_id, None)
        self.timers.cancel(timer)
        return True

    def _pending_ended(self, member_id: str, result: Result) -> None:
        self.drop_pending(member_id)
        self.maybe_complete_join(result)
        self.go_if_forsaken()

    def go_if_forsaken(self) -> None:
        """Lets the shard remove the group if it never had a member and its last reserved member id was dropped."""
        if self.is_simple and not self.pending:
            self.context.forsaken(self.id)

    # Members

    def add(self, member: Member, protocol_type: str, result: Result) -> None:
        """Adds a member that joins for the first time. The caller must call ``react`` afterwards."""
        if not self.members:
            self.protocol_type = protocol_type
        if self.state is PREPARING and self.previous is EMPTY:
            self._more_came = True
        member.is_new = True
        self.drop_pending(member.id)
        self.members.add(member)
        self.members.wait_for_join(member, result.token)
        self.sessions.touch(member, result, self.settings.new_member_join_timeout_ms)

    def remove(self, member: Member, result: Result) -> None:
        """Removes the member and answers its waiting requests. The caller must call ``react`` afterwards."""
        self.sessions.end(member)
        token = self.members.stop_waiting(member)
        result.reply(token, refusal(errors.UnknownMemberId, ""))
        result.reply(member.sync_token, errors.UnknownMemberId())
        member.sync_token = None
        self.members.remove(member)
        self.unsynced.discard(member.id)

    def react(self, result: Result) -> None:
        """Begins or completes a rebalance, after members have left or changed their metadata."""
        if self.state in CAN_REBALANCE:
            self.prepare_rebalance(result)
        else:
            self.maybe_complete_join(result)

    def _session_expired(self, member: Member, result: Result) -> None:
        self.remove(member, result)
        self.react(result)

    # The rebalance

    def _enter(self, state: GroupState, result: Result) -> None:
        if self.state not in COMES_FROM[state]:
            raise RuntimeError(f"{self!r} cannot become {state}")
        self.previous, self.state = self.state, state
        self.since_ms = result.now.wall_ms

    def _in(self, delay_ms: int, event: Event, result: Result) -> None:
        """Sets the timer that ends the current state after ``delay_ms``, unless another event ends it earlier."""
        self.timers.cancel(self._phase)
        self._phase = self.timers.schedule(result.now.monotonic_ms + delay_ms, event)

    def prepare_rebalance(self, result: Result) -> None:
        """Begins a rebalance: all members have to join again."""
        if self.state is COMPLETING:
            self._give_up_sync(result)
        self.timers.cancel(self._phase)
        is_initial = self.state is EMPTY
        self._enter(PREPARING, result)
        if is_initial:
            self._more_came = False
            delay_ms = self.settings.initial_rebalance_delay_ms
            left_ms = max(self.rebalance_timeout_ms - delay_ms, 0)
            self._in(delay_ms, partial(self._end_initial_delay, delay_ms, left_ms), result)
        elif self._all_joined:
            self.complete_join(result)
        else:
            self._in(self.rebalance_timeout_ms, self.complete_join, result)

    def _give_up_sync(self, result: Result) -> None:
        """Ends a generation whose leader has not sent the assignments."""
        for member in self.members:
            member.assignment = b""
            if member.sync_token is not None:
                result.reply(member.sync_token, errors.RebalanceInProgress())
                member.sync_token = None
                self.sessions.touch(member, result)

    def _end_initial_delay(self, delay_ms: int, left_ms: int, result: Result) -> None:
        if self._more_came and left_ms:
            self._more_came = False
            next_ms = min(self.settings.initial_rebalance_delay_ms, left_ms)
            left_ms = max(left_ms - delay_ms, 0)
            self._in(next_ms, partial(self._end_initial_delay, next_ms, left_ms), result)
        else:
            self.complete_join(result)

    @property
    def _all_joined(self) -> bool:
        return self.members.joining == len(self.members) and not self.pending

    def maybe_complete_join(self, result: Result) -> None:
        """Completes the join phase if all members have joined, except during the initial delay."""
        if self.state is PREPARING and self.previous is not EMPTY and self._all_joined:
            self.complete_join(result)

    def complete_join(self, result: Result) -> None:
        """Completes the join phase: begins a new generation of the members that have joined."""
        self.timers.cancel(self._phase)
        for member in list(self.members):
            if member.join_token is None and member.instance_id is None:
                self.remove(member, result)
        if not self.members:
            self._become_empty(result)
        elif self.members.elect_joined_leader():
            self._begin_generation(result)
        else:
            self._in(self.rebalance_timeout_ms, self.complete_join, result)

    def _become_empty(self, result: Result) -> None:
        self.generation += 1
        self.protocol = None
        self.subscribed = frozenset() if self.has_consumers else None
        self._enter(EMPTY, result)
        result.write(group_record(self, {}))
        logger.info("group %s has no members in generation %d", self.id, self.generation)

    def _begin_generation(self, result: Result) -> None:
        self.generation += 1
        self.protocol = self.members.choose_protocol()
        self.subscribed = self.find_subscribed()
        self._enter(COMPLETING, result)
        logger.info(
            "group %s begins generation %d with %s, %s",
            self.id,
            self.generation,
            counted(len(self.members), "member"),
            self.protocol,
        )
        self.unsynced = {member.id for member in self.members}
        everybody = joined_members(self.members, self.protocol)
        for member in self.members:
            member.is_new = False
            self.sessions.touch(member, result)
            token = self.members.stop_waiting(member)
            if token is not None:
                leads = member.id == self.members.leader_id
                result.reply(token, self.join_response(member, everybody if leads else []))
        self._in(self.rebalance_timeout_ms, self._end_sync, result)

    def find_subscribed(self) -> frozenset[str] | None:
        """Returns the topics to which the members subscribe by the chosen protocol, None if that is unknown."""
        if not self.has_consumers:
            return None
        return subscribed_by_all(member.metadata(self.protocol) for member in self.members)

    def join_response(self, member: Member, members: list[JoinedMember]) -> JoinGroup.Response:
        """Returns the JoinGroup response of ``member`` for the current generation."""
        return JoinGroup.Response(
            generation_id=self.generation,
            protocol_type=self.protocol_type,
            protocol_name=self.protocol,
            leader=self.members.leader_id or "",
            member_id=member.id,
            members=members,
        )

    def synced(self, member: Member) -> None:
        """Notes that the member has sent its SyncGroup."""
        self.unsynced.discard(member.id)
        if not self.unsynced:
            self.timers.cancel(self._phase)

    def _end_sync(self, result: Result) -> None:
        late = [member for member in self.members if member.id in self.unsynced]
        for member in late:
            self.remove(member, result)
        if late:
            self.react(result)

    @property
    def is_empty(self) -> bool:
        """True if the group has no members and is not deleted."""
        return self.state is EMPTY

    @property
    def may_go(self) -> bool:
        """True if the group is empty and has no reserved member ids, so that it is removed with its last offset."""
        return self.state is EMPTY and not self.pending

    # Offsets

    def may_commit(self, commit: Commit, result: Result) -> CheckPartition | None:
        """Allows commits of members of the current generation, and of any client while the group is empty.

        A commit keeps a member's session alive. A transactional commit is checked less strictly, because its old
        versions name no member. Raises CoordinatorNotAvailable, UnknownMemberId, FencedInstanceId, IllegalGeneration,
        RebalanceInProgress.
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
                self.sessions.touch(member, result)
        elif not commit.transactional:
            raise errors.UnknownMemberId(f"group {self.id} has members, so only they may commit")
        return None

    def may_fetch(self, member_id: str | None, member_epoch: int) -> None:
        """Allows all clients to fetch. Raises GroupIdNotFound if the group has just been deleted."""
        self._check_exists()

    def check_offsets_deletable(self) -> None:
        """Allows a group of consumers, because its subscriptions are known; other groups must be empty.

        Raises GroupIdNotFound, NonEmptyGroup.
        """
        self._check_exists()
        if self.state is not EMPTY and not self.has_consumers:
            raise errors.NonEmptyGroup(f"group {self.id} has members")

    def is_subscribed(self, topic: str) -> bool:
        """Returns whether members read the topic; if that is unknown, True for consumers."""
        if self.subscribed is not None:
            return topic in self.subscribed
        return self.has_consumers

    def retention_start(self) -> RetentionStart | None:
        """Returns a function that tells when an offset's retention time began; None if all offsets are in use.

        A group with members keeps the offsets of topics that its members read. An empty group keeps all offsets for
        the retention time after it became empty (KIP-211). In a simple group, the time begins at each offset's commit.
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
        """Raises GroupIdNotFound or NonEmptyGroup if the group may not be deleted."""
        self._check_exists()
        if self.state is not EMPTY:
            raise errors.NonEmptyGroup(f"group {self.id} has members")

    def tombstones(self) -> list[Record]:
        """Returns the record that deletes the group."""
        return [no_group_record(self.id)]

    def described(self) -> DescribeGroups.Response.DescribedGroup:
        """Describes the group and its members. Raises GroupIdNotFound."""
        self._check_exists()
        return describing.describe(self)

    def listed(self) -> ListGroups.Response.ListedGroup:
        """Returns the group's row of ListGroups."""
        return describing.listed(self)

    def member_subscriptions(self) -> Iterator[tuple[str, bytes]]:
        """Yields each member's id, and for consumers the metadata with their subscription."""
        for member in self.members:
            yield member.id, member.metadata(self.protocol) if self.has_consumers else b""

    # # Replay

    def restore(self, value: GroupMetadataValue) -> None:
        """Sets the group's state from its record while the log is loaded."""
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
        """Takes over the assignments of a record that has just been written."""
        for message in value.members:
            member = self.members.get(message.member_id)
            if member is not None:
                member.assignment = bytes(message.assignment)
        if self.state is COMPLETING and value.members:
            self.previous, self.state = self.state, STABLE
            self.since_ms = value.current_state_timestamp

    def resume(self, result: Result) -> None:
        """Starts a full session for each member, after the log has been loaded."""
        for member in self.members:
            self.sessions.touch(member, result)
        if len(self.members) > self.settings.max_size:
            self.prepare_rebalance(result)

    def die(self) -> None:
        """Marks the group as deleted, and cancels its timers."""
        self.previous, self.state = self.state, DEAD
        for member_id in list(self.pending):
            self.drop_pending(member_id)
        for member in self.members:
            self.sessions.end(member)
        self.timers.cancel(self._phase)
