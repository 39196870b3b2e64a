"""Members of both protocols that come and go: the group changes its protocol again and again.

The classic members are eager: they revoke all partitions before they join. A partition never has more than one
reader. When the group is stable at the end, it has exactly one.
"""

from __future__ import annotations

import pytest

from pybroker.coordinator.group.classic import ClassicGroup
from pybroker.coordinator.group.consumer.group import ConsumerGroup
from pybroker.coordinator.group.consumer.tests.driver import Driver, Has
from pybroker.coordinator.group.consumer.tests.test_migration import assignment, metadata, read
from pybroker.coordinator.group.consumer.tests.test_random import SESSION_MS, Crowd, Member
from pybroker.coordinator.group.tests.driver import Ticket
from pyclient.protocol import JoinGroup, SyncGroup, errors
from pyclient.protocol.records import ConsumerProtocolSubscription

STEPS = 120


class Classic:
    """A classic consumer. Its requests wait until the group can answer them."""

    def __init__(self, driver: Driver, topics: list[str]) -> None:
        self.driver = driver
        self.topics = topics
        self.id = ""
        self.has: Has = {}
        self.generation = -1
        self.waits_for: Ticket | None = None

    def join(self) -> None:
        """Gives up all partitions and rejoins."""
        self.has, self.generation = {}, -1
        self.waits_for = self.driver.join(
            self.id, protocols={"range": metadata(*self.topics)}, session_ms=SESSION_MS
        )
        self.look()

    def look(self) -> None:
        """Continues after an answer has arrived."""
        ticket = self.waits_for
        if ticket is None or ticket.waits:
            return
        self.waits_for = None
        code = ticket.code
        if code == errors.MemberIdRequired.code:
            self.id = ticket.answer.member_id
            self.join()
        elif code:
            self.failed(code)
        elif isinstance(ticket.answer, JoinGroup.Response):
            self.joined(ticket.answer)
        elif isinstance(ticket.answer, SyncGroup.Response):
            self.has = {k: v for k, v in read(ticket.answer.assignment).items() if v}

    def failed(self, code: int) -> None:
        if code in (errors.UnknownMemberId.code, errors.GroupMaxSizeReached.code):
            self.id = ""
        self.has, self.generation = {}, -1

    def joined(self, response: JoinGroup.Response) -> None:
        self.id, self.generation = response.member_id, response.generation_id
        shares: dict[str, Has] = {member.member_id: {} for member in response.members}
        for topic, image in self.driver.image.topics.items():
            readers = [
                each.member_id
                for each in response.members
                if topic in ConsumerProtocolSubscription.decode(each.metadata).topics
            ]
            for partition in range(len(image.partitions) if readers else 0):
                reader = readers[partition % len(readers)]
                shares[reader].setdefault(topic, set()).add(partition)
        assignments = {id: assignment(share) for id, share in shares.items()}
        self.waits_for = self.driver.sync(self.id, self.generation, assignments)
        self.look()

    def beat(self) -> None:
        self.look()
        if self.waits_for is not None:
            return
        if self.generation < 0:
            self.join()
            return
        code = self.driver.heartbeat(self.id, self.generation).code
        if code in (errors.RebalanceInProgress.code, errors.IllegalGeneration.code):
            self.join()
        elif code == errors.UnknownMemberId.code:
            self.failed(code)

    def leave(self) -> None:
        if self.id:
            self.driver.leave((self.id, None))


class Mixed(Crowd):
    """Members of both protocols."""

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        self.classics: list[Classic] = []

    def step(self) -> None:
        act = self.dice.random()
        if act < 0.25:
            self.step_classic()
            self.check()
        else:
            super().step()

    def step_classic(self) -> None:
        act = self.dice.choice(["come", "beat", "beat", "beat", "beat", "leave"])
        if act == "come" and len(self.classics) < 3:
            self.classics.append(Classic(self.driver, self.topics()))
            self.classics[-1].join()
        elif self.classics:
            classic = self.dice.choice(self.classics)
            if act == "leave":
                self.classics.remove(classic)
                classic.leave()
            else:
                classic.beat()

    def vanish(self) -> None:
        """Does nothing: here no member stops without leaving."""

    def wait(self) -> None:
        super().wait()
        for classic in self.classics:
            classic.look()

    def load(self) -> None:
        super().load()
        for classic in self.classics:
            if classic.driver is not self.driver:
                classic.driver = self.driver
                if classic.waits_for is not None:
                    classic.waits_for = None
                    classic.failed(errors.NotCoordinator.code)

    def check(self) -> None:
        group = self.driver.shard.groups.get("g")
        if isinstance(group, ConsumerGroup):
            self.check_group(group)
        held: dict[tuple[str, int], str] = {}
        everybody: list[Member | Classic] = [*self.members, *self.classics]
        for member in everybody:
            if not _is_in(group, member):
                continue
            for topic, partitions in member.has.items():
                for partition in partitions:
                    other = held.setdefault((topic, partition), member.id)
                    assert other == member.id, f"{topic}-{partition}: {other} and {member.id}"

    def settle(self) -> None:
        """Sends only heartbeats until the group is stable."""
        for _ in range(60):
            self.driver.pass_ms(1_000)
            for member in [*self.members, *self.classics]:
                member.beat()
            self.check()
        everybody = [*self.members, *self.classics]
        for topic in {topic for member in everybody for topic in member.topics}:
            found = [each for member in everybody for each in member.has.get(topic, ())]
            assert sorted(found) == list(range(len(self.driver.image.topics[topic].partitions)))
        kind = ClassicGroup if self.classics and not self.members else ConsumerGroup
        if everybody:
            assert isinstance(self.driver.shard.groups["g"], kind)


def _is_in(group: object, member: Member | Classic) -> bool:
    if isinstance(group, ConsumerGroup):
        return member.id in group.members
    return isinstance(group, ClassicGroup) and member.id in group.members


@pytest.mark.parametrize("seed", range(60))
def test_a_partition_has_one_reader_whatever_protocol_its_group_changes_to(seed: int) -> None:
    crowd = Mixed(seed)
    for _ in range(STEPS):
        crowd.step()
    crowd.settle()
