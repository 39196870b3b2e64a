"""Sets deadlines for what the members of a consumer group must do; ``timeouts`` stores them."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Protocol

from pybroker.coordinator.group.consumer.context import ConsumerContext
from pybroker.coordinator.group.consumer.member import ConsumerMember, MemberState
from pybroker.coordinator.group.consumer.refusals import when_refused
from pybroker.coordinator.group.consumer.timeouts import Wait
from pybroker.coordinator.shard import Event, Result
from pyclient.protocol.errors import KafkaError


class Expecting(Protocol):
    """The part of the group that this module uses."""

    id: str
    context: ConsumerContext

    @property
    def members(self) -> Mapping[str, ConsumerMember]: ...

    def static_member(self, instance_id: str | None) -> ConsumerMember | None: ...


def touch(group: Expecting, member: ConsumerMember, result: Result) -> None:
    """Extends the member's session."""
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


def expect(group: Expecting, member: ConsumerMember, wait: Wait, result: Result) -> None:
    """Gives the member its rebalance timeout for the action that ``wait`` names."""
    at_ms = result.now.monotonic_ms + member.rebalance_timeout_ms
    late = _fencing(group, member, wait)
    group.context.timeouts.wait(group.id, member.id, wait, at_ms, late)


def expect_revocation(group: Expecting, member: ConsumerMember, result: Result) -> None:
    """Sets a deadline if the member has to revoke partitions, and removes it otherwise."""
    if member.classic is not None:
        return
    if member.state is MemberState.UNREVOKED:
        expect(group, member, Wait.REBALANCE, result)
    else:
        group.context.timeouts.stop(group.id, member.id, Wait.REBALANCE)


def expect_nothing_classic(group: Expecting, member: ConsumerMember) -> None:
    """Removes the deadlines of the classic protocol: the member has switched to the new one."""
    for wait in (Wait.JOIN, Wait.SYNC):
        group.context.timeouts.stop(group.id, member.id, wait)


def expect_nothing(group: Expecting, member_id: str, result: Result) -> None:
    """Removes all deadlines of a member. If the event's records are refused, it has the same ones again and no others.
    """
    timeouts = group.context.timeouts
    restore = timeouts.suspend(group.id, member_id)

    def undo(next: Result, error: KafkaError) -> None:
        timeouts.forget(group.id, member_id)
        restore()

    when_refused(result, undo)


def expect_nothing_replaced(group: Expecting, member: ConsumerMember, result: Result) -> None:
    """Removes the deadlines of the static member that ``member`` replaces; restores them if the write fails.

    They keep their old times. With new times, a client whose attempts all fail would keep a silent member in the group.
    """
    replaced = group.static_member(member.instance_id)
    if replaced is None or replaced.id == member.id:
        return
    expect_nothing(group, replaced.id, result)


def resume(group: Expecting, result: Result) -> None:
    """Sets all deadlines after the group has been loaded."""
    for member in group.members.values():
        touch(group, member, result)
        if member.state is MemberState.UNREVOKED:
            expect(group, member, Wait.REBALANCE, result)


def _fencing(group: Expecting, member: ConsumerMember, wait: Wait) -> Event:
    epoch = member.epoch if wait is Wait.REBALANCE else None
    return partial(group.context.put_out, group.id, member.id, epoch, wait.value)
