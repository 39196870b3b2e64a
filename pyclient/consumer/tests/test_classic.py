"""The classic membership against a coordinator whose answers the test scripts."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from cy.client.signal_safe_lock import SignalSafeLock
from pyclient.config import CONSUMER, load
from pyclient.consumer.appointments import ASSIGNED, LOST, REVOKED, Appointments
from pyclient.consumer.group.classic import ClassicMembership, encoded
from pyclient.consumer.subscription import Subscription
from pyclient.consumer.tests.coordinated import Application, Coordinated
from pyclient.protocol import Heartbeat, JoinGroup, LeaveGroup, SyncGroup, errors
from pyclient.tests.support import PATIENCE_S
from pyclient.topic_partition import TopicPartition

PLACE, UNWANTED = TopicPartition("t", 0), TopicPartition("u", 0)
REBALANCE_IN_PROGRESS = errors.RebalanceInProgress.code
UNKNOWN_MEMBER_ID = errors.UnknownMemberId.code
GROUP_AUTHORIZATION_FAILED = errors.GroupAuthorizationFailed.code


def settings(assignor: str = "range") -> Any:
    return load(
        CONSUMER,
        "127.0.0.1:1",
        {"group.id": "g", "heartbeat.interval.ms": 1, "retry.backoff.ms": 1, "partition.assignment.strategy": assignor},
    )


class Group:
    """A group with one member. Its generations count up. ``beat`` is the error of the next heartbeat."""

    def __init__(self, assignor: str = "range") -> None:
        self.assignor = assignor
        self.generation = 0
        self.assigned = [PLACE]
        self.beat = 0
        self.client = Coordinated(
            settings(),
            {JoinGroup: self.join, SyncGroup: self.sync, Heartbeat: self.heartbeat, LeaveGroup: lambda _: None},
        )
        self.application = Application()
        self.appointments = Appointments(self.client.loop)
        self.subscription = Subscription()
        self.subscription.subscribe(["t"])
        self.member = ClassicMembership(
            self.client, settings(assignor), self.subscription, SignalSafeLock(), self.appointments, self.application
        )

    def join(self, request: JoinGroup.Request) -> JoinGroup.Response:
        self.generation += 1
        return JoinGroup.Response(
            generation_id=self.generation, member_id="m", leader="other", protocol_name=self.assignor, members=[]
        )

    def sync(self, request: SyncGroup.Request) -> SyncGroup.Response:
        return SyncGroup.Response(assignment=encoded(self.assigned))

    def heartbeat(self, request: Heartbeat.Request) -> Heartbeat.Response:
        error, self.beat = self.beat, 0
        return Heartbeat.Response(error_code=error)

    async def until(self, condition: Callable[[], object], *, polling: bool = True) -> None:
        async with asyncio.timeout(PATIENCE_S):
            while not condition():
                if polling:
                    self.application.poll(self.appointments)
                await asyncio.sleep(0)

    def has(self, generation: int) -> Callable[[], bool]:
        return lambda: self.generation == generation and PLACE in self.subscription.states

    async def rebalanced(self) -> list[str]:
        """Returns the listener's calls in an ordinary rebalance."""
        self.application.told.clear()
        self.beat = REBALANCE_IN_PROGRESS
        await self.until(lambda: self.application.told[-1:] == [ASSIGNED])
        return self.application.told


def in_group(test: Any) -> Any:
    def run() -> None:
        async def main() -> None:
            group = Group()
            group.member.start()
            await group.until(group.has(1))
            try:
                await test(group)
            finally:
                await group.member.stop()
            assert group.application.errors == []

        asyncio.run(main())

    return run


@in_group
async def test_a_member_that_polled_too_late_during_a_rebalance_rejoins(group: Group) -> None:
    group.application.told.clear()
    group.beat = REBALANCE_IN_PROGRESS  # its revocation waits for a poll that does not come
    await group.until(lambda: group.appointments, polling=False)
    group.application.is_late = True
    await group.until(lambda: LeaveGroup in group.client.asked, polling=False)
    group.application.is_late = False
    await group.until(group.has(2))
    assert group.application.told == [LOST, ASSIGNED]
    assert await group.rebalanced() == [REVOKED, ASSIGNED]


@in_group
async def test_a_member_that_polls_too_late_loses_its_partitions_once(group: Group) -> None:
    group.application.told.clear()
    group.application.is_late = True
    await group.until(lambda: LeaveGroup in group.client.asked, polling=False)
    assert group.subscription.states[PLACE].leaving  # no records of what may be another's
    group.application.is_late = False
    await group.until(group.has(2))
    assert group.application.told == [LOST, ASSIGNED]
    assert await group.rebalanced() == [REVOKED, ASSIGNED]


@in_group
async def test_a_member_that_is_evicted_during_a_rebalance_loses_its_partitions(group: Group) -> None:
    group.application.told.clear()
    group.beat = REBALANCE_IN_PROGRESS
    await group.until(lambda: group.appointments, polling=False)
    group.beat = UNKNOWN_MEMBER_ID
    await group.until(lambda: group.member.epoch == -1, polling=False)
    await group.until(group.has(2))
    assert group.application.told == [LOST, ASSIGNED]
    assert await group.rebalanced() == [REVOKED, ASSIGNED]


@in_group
async def test_a_member_that_is_assigned_another_topic_takes_nothing_and_rejoins(group: Group) -> None:
    group.application.told.clear()
    group.assigned = [PLACE, UNWANTED]
    group.beat = REBALANCE_IN_PROGRESS
    await group.until(lambda: group.generation == 4)
    assert group.subscription.states == {}
    group.assigned = [PLACE]
    await group.until(lambda: PLACE in group.subscription.states)
    assert group.application.told == [REVOKED, ASSIGNED]


def test_a_partition_that_comes_back_before_its_revocation_is_read_again() -> None:
    async def main() -> None:
        group = Group("cooperative-sticky")
        group.member.start()
        await group.until(group.has(1))
        group.assigned, group.beat = [], REBALANCE_IN_PROGRESS
        await group.until(lambda: group.appointments, polling=False)  # the revocation waits for a poll
        assert group.subscription.states[PLACE].leaving
        group.assigned, group.beat = [PLACE], GROUP_AUTHORIZATION_FAILED
        await group.until(lambda: group.application.errors, polling=False)
        await group.until(lambda: group.generation > 2 and group.member._heartbeats is not None)
        await group.until(lambda: not group.subscription.states[PLACE].leaving)
        await group.member.stop()
        assert group.application.told == [ASSIGNED]

    asyncio.run(main())


@pytest.mark.parametrize("listens", [True, False])
@pytest.mark.parametrize("late", [True, False])
def test_an_evicted_member_keeps_its_identity_until_the_application_polls(listens: bool, late: bool) -> None:
    """The application still processes its records, so the coordinator must refuse their commit."""

    async def main() -> None:
        group = Group()
        group.application.has_listener = listens
        group.member.start()
        await group.until(group.has(1))
        who = group.member.metadata()
        assert (who.generation_id, who.member_id) == (1, "m")
        group.application.is_late = late
        group.beat = 0 if late else UNKNOWN_MEMBER_ID
        await group.until(lambda: group.member.is_out, polling=False)
        group.application.is_late = False
        for _ in range(100):
            await asyncio.sleep(0)
        assert group.member.metadata() == who
        assert set(group.subscription.states) == {PLACE}
        await group.until(group.has(2))
        assert not group.member.is_out
        assert group.member.metadata().generation_id == 2
        await group.member.stop()

    asyncio.run(main())
