"""The time-outs of members of consumer groups; a late member is removed.

    SESSION    no heartbeat                                      session timeout
    REBALANCE  has not given back its partitions                 the member's rebalance timeout
    JOIN       classic: has been told to join, and has not       the same
    SYNC       classic: has joined, and does not sync            the same

Timers go by the ids of group and member, so that they outlive the objects: a group that changes its
protocol is another object. A heartbeat only moves a deadline; the timer looks at it when it fires.
"""

from __future__ import annotations

from enum import Enum

from pybroker.coordinator.shard import Event, Result
from pybroker.coordinator.timer_wheel import Timer, TimerWheel


class Wait(Enum):
    """The events to wait for; the value says what a member has failed to do."""

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
        """Restarts the wait."""
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
        """The member has left."""
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
