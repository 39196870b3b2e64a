"""How long the coordinator waits for members of consumer groups; who is late is out.

    SESSION    no heartbeat                                      session timeout
    REBALANCE  has not given back its partitions                 the member's rebalance timeout
    JOIN       classic: has been told to join, and has not       the same
    SYNC       classic: has joined, and does not sync            the same

Timers go by the ids of group and member, so that they outlive the objects: a group that changes its
protocol is another object. A heartbeat only moves a deadline; the timer looks at it when it fires.
"""

from __future__ import annotations

from enum import Enum
from functools import partial
from typing import TYPE_CHECKING

from pybroker.coordinator.group.consumer.member import MemberState
from pybroker.coordinator.shard import Event, Result
from pybroker.coordinator.timer_wheel import Timer, TimerWheel

if TYPE_CHECKING:
    from pybroker.coordinator.group.consumer.group import ConsumerGroup
    from pybroker.coordinator.group.consumer.member import ConsumerMember

class Wait(Enum):
    """What is waited for; the value says what a member has failed to do."""

    SESSION = "the member session expired"
    REBALANCE = "it has not given back its partitions in time"
    JOIN = "the classic member failed to join within the rebalance timeout"
    SYNC = "the member failed to sync within timeout"


class _Deadline:
    """When it is over, in milliseconds of the monotonic clock; the timer may be earlier."""

    __slots__ = ("at_ms", "timer")

    def __init__(self, at_ms: int) -> None:
        self.at_ms = at_ms
        self.timer: Timer[Event] | None = None


class Timeouts:
    """The deadlines of all members of a shard's consumer groups."""

    def __init__(self, timers: TimerWheel[Event]) -> None:
        self._timers = timers
        self._sessions: dict[str, dict[str, _Deadline]] = {}
        self._others: dict[tuple[str, str, Wait], Timer[Event]] = {}

    # Sessions

    def touch(self, group_id: str, member_id: str, at_ms: int, over: Event) -> None:
        """A sign of life: the session lasts until ``at_ms``; then ``over`` happens."""
        members = self._sessions.get(group_id)
        if members is None:
            members = self._sessions[group_id] = {}
        deadline = members.get(member_id)
        if deadline is None:
            deadline = members[member_id] = _Deadline(at_ms)
        deadline.at_ms = at_ms
        self._timers.cancel(deadline.timer)
        self._watch(group_id, member_id, deadline, over)

    def extend(self, group_id: str, member_id: str, at_ms: int) -> bool:
        """The same for a session that has begun and does not become shorter; else False."""
        members = self._sessions.get(group_id)
        deadline = None if members is None else members.get(member_id)
        if deadline is None or deadline.timer is None or deadline.timer.deadline_ms > at_ms:
            return False
        deadline.at_ms = at_ms
        return True

    def _watch(
        self, group_id: str, member_id: str, deadline: _Deadline, over: Event
    ) -> None:
        def fired(result: Result) -> None:
            deadline.timer = None
            if result.now.monotonic_ms < deadline.at_ms:
                self._watch(group_id, member_id, deadline, over)
            else:
                self._sessions[group_id].pop(member_id, None)
                over(result)

        deadline.timer = self._timers.schedule(deadline.at_ms, fired)

    # The rest

    def wait(
        self, group_id: str, member_id: str, wait: Wait, at_ms: int, late: Event
    ) -> None:
        """Waits anew."""
        self.stop(group_id, member_id, wait)
        key = (group_id, member_id, wait)

        def fired(result: Result) -> None:
            self._others.pop(key, None)
            late(result)

        self._others[key] = self._timers.schedule(at_ms, fired)

    def waits(self, group_id: str, member_id: str, wait: Wait) -> bool:
        """It is being waited for that."""
        return (group_id, member_id, wait) in self._others

    def stop(self, group_id: str, member_id: str, wait: Wait) -> None:
        """It has come."""
        timer = self._others.pop((group_id, member_id, wait), None)
        self._timers.cancel(timer)

    def forget(self, group_id: str, member_id: str) -> None:
        """The member is out."""
        deadline = self._sessions.get(group_id, {}).pop(member_id, None)
        if deadline is not None:
            self._timers.cancel(deadline.timer)
        for wait in (Wait.REBALANCE, Wait.JOIN, Wait.SYNC):
            self.stop(group_id, member_id, wait)

    def forget_group(self, group_id: str) -> None:
        """The group is gone."""
        for member_id in list(self._sessions.get(group_id, ())):
            self.forget(group_id, member_id)
        self._sessions.pop(group_id, None)
        for key in [key for key in self._others if key[0] == group_id]:
            self._timers.cancel(self._others.pop(key))


# What members are waited for


def touch(group: ConsumerGroup, member: ConsumerMember, result: Result) -> None:
    """A sign of life of the member."""
    classic = member.classic
    lasts_ms = (
        group.context.pace_of(group.id).session_timeout_ms
        if classic is None
        else classic.session_timeout_ms
    )
    at_ms = result.now.monotonic_ms + lasts_ms
    timeouts = group.context.timeouts
    if not timeouts.extend(group.id, member.id, at_ms):
        timeouts.touch(group.id, member.id, at_ms, _fencing(group, member, Wait.SESSION))


def expect(group: ConsumerGroup, member: ConsumerMember, wait: Wait, result: Result) -> None:
    """The member has its rebalance timeout to do what is waited for."""
    at_ms = result.now.monotonic_ms + member.rebalance_timeout_ms
    late = _fencing(group, member, wait)
    group.context.timeouts.wait(group.id, member.id, wait, at_ms, late)


def expect_revocation(group: ConsumerGroup, member: ConsumerMember, result: Result) -> None:
    """A member that has to give back partitions is waited for; no other is."""
    if member.classic is not None:
        return
    if member.state is MemberState.UNREVOKED:
        expect(group, member, Wait.REBALANCE, result)
    else:
        group.context.timeouts.stop(group.id, member.id, Wait.REBALANCE)


def expect_nothing_classic(group: ConsumerGroup, member: ConsumerMember) -> None:
    """The member does not speak the classic protocol any more."""
    for wait in (Wait.JOIN, Wait.SYNC):
        group.context.timeouts.stop(group.id, member.id, wait)


def resume(group: ConsumerGroup, result: Result) -> None:
    """The group has been loaded."""
    for member in group.members.values():
        touch(group, member, result)
        if member.state is MemberState.UNREVOKED:
            expect(group, member, Wait.REBALANCE, result)


def _fencing(group: ConsumerGroup, member: ConsumerMember, wait: Wait) -> Event:
    epoch = member.epoch if wait is Wait.REBALANCE else None
    return partial(group.context.put_out, group.id, member.id, epoch, wait.value)
