"""Random members of both protocols, lost answers, crashes and refused writes. Invariants are checked after each step.

The checks use the members' own view. No two members may believe that they have the same partition, unless the
coordinator has evicted one of them. When the group is stable at the end, members read every partition.
"""

from __future__ import annotations

import random

import pytest

from pybroker.coordinator.group.consumer.group import ConsumerGroup
from pybroker.coordinator.group.consumer.settings import Pace
from pybroker.coordinator.group.consumer.tests.driver import LEAVE, Client, Driver, image_of
from pybroker.coordinator.group.tests.driver import Ticket
from pyclient.protocol import errors

STEPS = 120
SESSION_MS = 40_000


class Member(Client):
    """A client whose answers may be lost, and that rejoins when it is fenced."""

    def __init__(self, driver: Driver, member_id: str, topics: list[str]) -> None:
        super().__init__(driver, member_id)
        self.topics = topics
        self.loses = False
        self._lost = False
        """True if the next heartbeat and its answer must be complete, because an answer was lost."""

    def join(self) -> None:
        self.has, self.epoch, self._said = {}, 0, None
        self.take(self.driver.come(self.id, *self.topics))

    def take(self, ticket: Ticket) -> None:
        if ticket.code in (errors.FencedMemberEpoch.code, errors.UnknownMemberId.code):
            self.has, self.epoch = {}, 0
        elif ticket.code == errors.CoordinatorNotAvailable.code or self.loses:
            self._lost = True
        else:
            self._lost = False
            super().take(ticket)

    def beat(self) -> None:
        if self.epoch and self._lost:
            self.say_all()
        elif self.epoch:
            super().beat()
        else:
            self.join()

    def subscribe(self, topics: list[str]) -> None:
        self.topics = topics
        if self.epoch:
            self.say_all()

    def say_all(self) -> None:
        self._said = None
        ticket = self.driver.beat(
            self.id,
            self.epoch,
            has=self.has,
            subscribed_topic_names=self.topics,
            rebalance_timeout_ms=60_000,
        )
        self.take(ticket)


class Crowd:
    """Members that come, go, change their minds, and lose answers."""

    def __init__(self, seed: int) -> None:
        self.dice = random.Random(seed)
        pace = Pace(session_timeout_ms=SESSION_MS, assignment_interval_ms=self.dice.choice([0, 900]))
        self.driver = Driver(image_of(t=4, u=3), pace=pace)
        self.members: list[Member] = []
        self.made = 0

    def step(self) -> None:
        rare = [self.come, self.leave, self.mind, self.lose, self.refuse, self.grow, self.load]
        self.dice.choice([*rare, self.wait, self.vanish, *[self.beat] * 4])()
        self.check()

    def any(self) -> Member | None:
        return self.dice.choice(self.members) if self.members else None

    def topics(self) -> list[str]:
        return self.dice.choice([["t"], ["t", "u"], ["t", "u"], ["u"]])

    def come(self) -> None:
        if len(self.members) < 5:
            self.made += 1
            member = Member(self.driver, f"m{self.made}", self.topics())
            self.members.append(member)
            member.join()

    def beat(self) -> None:
        member = self.any()
        if member is not None:
            member.beat()

    def leave(self) -> None:
        member = self.any()
        if member is not None and member.epoch:
            self.members.remove(member)
            self.driver.beat(member.id, LEAVE)

    def vanish(self) -> None:
        """Lets a member stop without leaving. It counts as a reader until its session ends."""
        member = self.any()
        if member is not None and len(self.members) > 3:
            self.members.remove(member)
            for _ in range(5):
                self.driver.pass_ms(SESSION_MS // 4)
                for each in self.members:
                    each.beat()

    def mind(self) -> None:
        member = self.any()
        if member is not None:
            member.subscribe(self.topics())

    def lose(self) -> None:
        member = self.any()
        if member is not None and member.epoch:
            member.loses = True
            member.beat()
            member.loses = False

    def refuse(self) -> None:
        self.driver.refuse = errors.CoordinatorNotAvailable
        self.beat()
        self.driver.refuse = None

    def grow(self) -> None:
        if self.dice.random() < 0.2:
            self.driver.change_topics(t=len(self.driver.image.topics["t"].partitions) + 1)

    def load(self) -> None:
        """Lets another broker become the coordinator."""
        if self.dice.random() < 0.5:
            loaded = self.driver.again()
            loaded.monotonic_ms = self.driver.monotonic_ms
            loaded.perform(loaded.shard.loaded)
            self.driver = loaded
            for member in self.members:
                member.driver = loaded

    def wait(self) -> None:
        self.driver.pass_ms(self.dice.choice([300, 1_000]))

    # Invariants

    def check(self) -> None:
        group = self.driver.shard.groups.get("g")
        if group is None:
            return
        assert isinstance(group, ConsumerGroup)
        held: dict[tuple[str, int], str] = {}
        for member in self.members:
            if member.id not in group.members:
                continue
            for topic, partitions in member.has.items():
                for partition in partitions:
                    other = held.setdefault((topic, partition), member.id)
                    assert other == member.id, f"{topic}-{partition}: {other} and {member.id}"
        self.check_group(group)

    def check_group(self, group: ConsumerGroup) -> None:
        owners: dict[bytes, dict[int, str]] = {}
        for member in group.members.values():
            assert member.epoch <= group.assignment_epoch <= group.epoch
            for owned in (member.assigned, member.pending_revocation):
                for topic_id, partitions in owned.items():
                    for partition in partitions:
                        mine = owners.setdefault(topic_id, {})
                        assert partition not in mine
                        mine[partition] = member.id
        assert group.owners == owners
        assert set(group.targets) <= set(group.members)

    def rest(self) -> None:
        """Sends only heartbeats until the group is stable and all partitions are read."""
        for _ in range(40):
            self.driver.pass_ms(1_000)
            for member in self.members:
                member.beat()
        group = self.driver.consumers()
        assert group.state == "Stable", group
        image = self.driver.image
        for member in self.members:
            assert member.has == self.driver.has(member.id)
        for topic in {topic for member in self.members for topic in member.topics}:
            read = [each for member in self.members for each in member.has.get(topic, ())]
            assert sorted(read) == list(range(len(image.topics[topic].partitions)))


@pytest.mark.parametrize("seed", range(60))
def test_no_partition_has_two_readers_and_none_is_left_out(seed: int) -> None:
    crowd = Crowd(seed)
    for _ in range(STEPS):
        crowd.step()
    if not crowd.members:
        crowd.come()
    crowd.rest()
