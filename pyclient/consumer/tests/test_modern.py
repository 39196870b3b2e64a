"""The membership of the new protocol against a coordinator whose answers the test scripts."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from cy.client.signal_safe_lock import SignalSafeLock
from pyclient.config import CONSUMER, load
from pyclient.consumer.appointments import ASSIGNED, LOST, REVOKED, Appointments
from pyclient.consumer.group.modern import ConsumerMembership
from pyclient.consumer.subscription import Subscription
from pyclient.consumer.tests.coordinated import Application, Coordinated
from pyclient.protocol import ConsumerGroupHeartbeat, Metadata
from pyclient.protocol.errors import FencedMemberEpoch, GroupAuthorizationFailed, TopicAuthorizationFailed
from pyclient.tests.support import PATIENCE_S
from pyclient.topic_partition import TopicPartition

T0, T1, U0 = TopicPartition("t", 0), TopicPartition("t", 1), TopicPartition("u", 0)
T, T_ANEW, U = b"t" * 16, b"T" * 16, b"u" * 16
FENCED_MEMBER_EPOCH = FencedMemberEpoch.code
Assignment = dict[bytes, list[int]]


class Group:
    """A group with one member. ``names``: topics that the brokers know; ``owned``: what the member reported last."""

    def __init__(self) -> None:
        self.names = {T: "t"}
        self.target: Assignment = {T: [0, 1]}
        self.told: Assignment | None = None
        self.owned: Assignment = {}
        self.epoch = 1
        self.code = 0
        """The error code of the next answer."""
        config = load(
            CONSUMER, "127.0.0.1:1", {"group.id": "g", "group.protocol": "consumer", "retry.backoff.ms": 1}
        )
        self.client = Coordinated(config, {ConsumerGroupHeartbeat: self.heartbeat, Metadata: self.metadata})
        self.application = Application()
        self.appointments = Appointments(self.client.loop)
        self.subscription = Subscription()
        self.subscription.subscribe(["t", "u"])
        self.member = ConsumerMembership(
            self.client, config, self.subscription, SignalSafeLock(), self.appointments, self.application
        )

    def heartbeat(self, request: ConsumerGroupHeartbeat.Request) -> ConsumerGroupHeartbeat.Response:
        kind = ConsumerGroupHeartbeat.Response
        if self.code:
            code, self.code = self.code, 0
            return kind(error_code=code)
        if request.topic_partitions is not None:
            self.owned = {row.topic_id: row.partitions for row in request.topic_partitions}
        assignment = None
        if self.told != self.target:
            self.told = self.target
            rows = [kind.TopicPartitions(topic_id=each, partitions=numbers) for each, numbers in self.target.items()]
            assignment = kind.Assignment(topic_partitions=rows)
        return kind(member_id="m", member_epoch=self.epoch, heartbeat_interval_ms=1, assignment=assignment)

    def metadata(self, request: Metadata.Request) -> Metadata.Response:
        return self.described([row.topic_id for row in request.topics or ()])

    def described(self, topic_ids: list[bytes]) -> Metadata.Response:
        kind = Metadata.Response
        rows = [kind.MetadataResponseTopic(topic_id=e, name=self.names[e]) for e in topic_ids if e in self.names]
        return kind(topics=rows)

    async def until(self, condition: Callable[[], object]) -> None:
        async with asyncio.timeout(PATIENCE_S):
            while not condition():
                self.application.poll(self.appointments)
                await asyncio.sleep(0)

    async def until_owned(self, owned: Assignment) -> None:
        await self.until(lambda: self.owned == owned)


def in_group(test: Callable[[Group], Awaitable[None]]) -> Any:
    def run() -> None:
        async def main() -> None:
            group = Group()
            group.member.start()
            await group.until_owned({T: [0, 1]})
            group.application.told.clear()
            try:
                await test(group)
            finally:
                await group.member.stop()
            assert group.application.errors == []

        asyncio.run(main())

    return run


@in_group
async def test_an_assigned_topic_that_is_still_unknown_does_not_block_others(group: Group) -> None:
    group.target = {T: [1], U: [0]}
    await group.until_owned({T: [1]})
    assert set(group.subscription.states) == {T1}
    group.names[U] = "u"
    await group.until_owned({T: [1], U: [0]})
    assert set(group.subscription.states) == {T1, U0}
    assert group.application.told == [REVOKED, ASSIGNED]


@in_group
async def test_a_later_assignment_does_not_wait_for_an_unknown_topic(group: Group) -> None:
    group.target = {T: [0, 1], U: [0]}
    await group.until(lambda: Metadata in group.client.asked[-1:])
    group.target = {T: [1], U: [0]}
    await group.until_owned({T: [1]})
    assert group.application.told == [REVOKED]


@in_group
async def test_partitions_of_a_topic_created_again_are_lost_and_assigned_without_position(group: Group) -> None:
    group.subscription.state(T0).seek(100)
    group.names, group.target = {T_ANEW: "t"}, {T_ANEW: [0]}
    await group.until_owned({T_ANEW: [0]})
    assert set(group.subscription.states) == {T0}
    assert group.subscription.state(T0).position is None
    assert group.application.told == [LOST, ASSIGNED]


@in_group
async def test_an_owned_partition_is_kept_while_metadata_lacks_its_topic(group: Group) -> None:
    group.subscription.state(T0).seek(100)
    group.client.forget(["t"])
    group.target = {T: [0]}
    await group.until_owned({T: [0]})
    assert group.subscription.state(T0).position == 100
    assert group.application.told == [REVOKED]


@pytest.mark.parametrize("listens", [True, False])
def test_an_evicted_member_keeps_its_identity_until_the_application_polls(listens: bool) -> None:
    """The application still processes its records, so the coordinator must refuse their commit."""

    async def main() -> None:
        group = Group()
        group.application.has_listener = listens
        group.member.start()
        await group.until_owned({T: [0, 1]})
        who = group.member.metadata()
        assert (who.generation_id, who.member_id) == (1, "m")
        group.epoch, group.code, group.told = 7, FENCED_MEMBER_EPOCH, None
        async with asyncio.timeout(PATIENCE_S):
            while not group.member.is_out and group.member.epoch == 1:
                await asyncio.sleep(0)
        assert group.member.is_out
        for _ in range(100):
            await asyncio.sleep(0)
        assert group.member.metadata() == who
        assert set(group.subscription.states) == {T0, T1}
        await group.until(lambda: group.member.metadata().generation_id == 7)
        assert not group.member.is_out
        await group.until_owned({T: [0, 1]})
        await group.member.stop()

    asyncio.run(main())


def test_a_missing_right_is_reported_and_the_member_continues_once_it_is_granted() -> None:
    async def main() -> None:
        group = Group()
        group.code = GroupAuthorizationFailed.code
        group.member.start()
        await group.until(lambda: group.application.errors)
        await group.until_owned({T: [0, 1]})
        group.code = TopicAuthorizationFailed.code
        await group.until(lambda: len(group.application.errors) > 1)
        group.target = {T: [1]}
        await group.until_owned({T: [1]})
        await group.member.stop()
        kinds = [type(error) for error in group.application.errors]
        assert kinds == [GroupAuthorizationFailed, TopicAuthorizationFailed]

    asyncio.run(main())
