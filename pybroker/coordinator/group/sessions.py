"""When the session of a classic member ends.

The session ends if the member sends nothing for its session timeout. A member that waits for the answer to a JoinGroup
or SyncGroup does not expire. But a new member's first join may last only ``new_member_join_timeout_ms``, five minutes.

A request of the member only moves its deadline. The timer checks the deadline when it fires, so that a heartbeat sets
no timer.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from pybroker.coordinator.group.members import Member
from pybroker.coordinator.shard import Event, Result
from pybroker.coordinator.timer_wheel import TimerWheel


class Sessions:
    """The sessions of one group's members. The members have the deadlines and timers."""

    __slots__ = ("_on_expired", "_timers")

    def __init__(self, timers: TimerWheel[Event], on_expired: Callable[[Member, Result], None]) -> None:
        """``on_expired(member, result)`` is called when a member's session has expired."""
        self._timers = timers
        self._on_expired = on_expired

    def touch(self, member: Member, result: Result, timeout_ms: int | None = None) -> None:
        """Extends the member's session by ``timeout_ms``, by default its session timeout."""
        lasts_ms = member.session_timeout_ms if timeout_ms is None else timeout_ms
        member.deadline_ms = result.now.monotonic_ms + lasts_ms
        if member.session is None or member.session.deadline_ms > member.deadline_ms:
            self.end(member)
            self._watch(member)

    def end(self, member: Member) -> None:
        """Ends the session of a member that is removed."""
        self._timers.cancel(member.session)

    def _watch(self, member: Member) -> None:
        member.session = self._timers.schedule(member.deadline_ms, partial(self._timer_fired, member))

    def _timer_fired(self, member: Member, result: Result) -> None:
        member.session = None
        if result.now.monotonic_ms < member.deadline_ms:
            self._watch(member)
        elif member.is_new or (member.join_token is None and member.sync_token is None):
            self._on_expired(member, result)
