"""The timeouts of members of consumer groups; a late member is evicted.

    SESSION    no heartbeat                                      session timeout
    REBALANCE  has not revoked its partitions                    the member's rebalance timeout
    JOIN       classic: has been told to join, and has not       the same
    SYNC       classic: has joined, and does not sync            the same

Timers are kept by the ids of group and member, because a group that changes its protocol becomes another object. A
heartbeat only moves a deadline; the timer checks it when it fires.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum

from pybroker.coordinator.shard import Event, Result
from pybroker.coordinator.timer_wheel import Timer, TimerWheel


class Wait(Enum):
    """The action for which the coordinator waits. The value is the reason for which a late member is evicted."""

    SESSION = "the member session expired"
    REBALANCE = "it has not revoked its partitions in time"
    JOIN = "the classic member failed to join within the rebalance timeout"
    SYNC = "the member failed to sync within timeout"


class _Deadline:
    """A deadline in milliseconds of the monotonic clock; the timer may fire earlier."""

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
        """Extends the session until ``at_ms``; then ``over`` is called."""
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
        """Extends a session that has begun, if that does not shorten it; returns False otherwise."""
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

    # # Other timeouts

    def wait(
        self, group_id: str, member_id: str, wait: Wait, at_ms: int, late: Event
    ) -> None:
        """Starts or restarts the wait."""
        self.stop(group_id, member_id, wait)
        key = (group_id, member_id, wait)

        def fired(result: Result) -> None:
            self._others.pop(key, None)
            late(result)

        self._others[key] = self._timers.schedule(at_ms, fired)

    def waits(self, group_id: str, member_id: str, wait: Wait) -> bool:
        """Returns whether the coordinator waits for this action of the member."""
        return (group_id, member_id, wait) in self._others

    def stop(self, group_id: str, member_id: str, wait: Wait) -> None:
        """Ends the wait for a member."""
        timer = self._others.pop((group_id, member_id, wait), None)
        self._timers.cancel(timer)

    def forget(self, group_id: str, member_id: str) -> None:
        """Removes all deadlines of a member that has left."""
        members = self._sessions.get(group_id, {})
        deadline = members.pop(member_id, None)
        if deadline is not None:
            self._timers.cancel(deadline.timer)
        if not members:
            self._sessions.pop(group_id, None)
        for wait in Wait:
            self.stop(group_id, member_id, wait)

    def suspend(self, group_id: str, member_id: str) -> Callable[[], None]:
        """Removes all deadlines of a member. The returned function restores those that were not set again meanwhile."""
        session = self._sessions.get(group_id, {}).get(member_id)
        keys = [(group_id, member_id, wait) for wait in Wait]
        others = {key: self._others[key] for key in keys if key in self._others}
        self.forget(group_id, member_id)

        def restore() -> None:
            members = self._sessions.get(group_id, {})
            if session is not None and session.timer is not None and member_id not in members:
                session.timer = self._timers.schedule(session.timer.deadline_ms, session.timer.action)
                self._sessions.setdefault(group_id, {})[member_id] = session
            for key, timer in others.items():
                if key not in self._others:
                    self._others[key] = self._timers.schedule(timer.deadline_ms, timer.action)

        return restore

    def forget_group(self, group_id: str) -> None:
        """Removes all deadlines of a deleted group."""
        for member_id in list(self._sessions.get(group_id, ())):
            self.forget(group_id, member_id)
        self._sessions.pop(group_id, None)
        for key in [key for key in self._others if key[0] == group_id]:
            self._timers.cancel(self._others.pop(key))
