"""Brokers come, die, retire, lose their session and request changes, in any order. The same seed gives the same order.

In the end, every broker has the same image, and the store has it too. No partition ever had two leaders in one leader
epoch, or two states in one partition epoch.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from random import Random

import pytest

from pybroker.cluster.controller import ControllerService
from pybroker.cluster.decisions import plan, topic_steps
from pybroker.cluster.decisions.config_changes import ConfigChange, KeyChange
from pybroker.cluster.decisions.isr_changes import InSync, IsrChange
from pybroker.cluster.decisions.plan import NewPartitions, NewTopic, TopicName
from pybroker.cluster.decisions.reassignments import Reassignment
from pybroker.cluster.metadata import journal
from pybroker.cluster.metadata.image import NO_LEADER, MetadataImage, PartitionImage
from pybroker.cluster.tests.harness import Member, Members, check_agreement
from pybroker.store.interface import CoordinationError
from pybroker.topic_partition import TopicPartition
from pyclient.protocol.errors import KafkaError

pytestmark = pytest.mark.nightly

BROKERS = (1, 2, 3, 4)
NAMES = ("a", "b", "c")
EVENTS = 60


class Chaos:
    """Random events."""

    def __init__(self, members: Members, chance: Random) -> None:
        self.members = members
        self.chance = chance
        self.seen: list[Member] = []
        self.asked: set[asyncio.Task[object]] = set()

    async def step(self) -> None:
        """Lets one random event happen."""
        events = [self.die, self.start, self.retire, self.expire] + [self.ask] * 12
        await self.chance.choice(events)()
        await asyncio.sleep(self.chance.choice([0, 0, 0.001, 0.01]))

    async def start(self) -> None:
        absent = [id for id in BROKERS if id not in self.members.alive]
        if absent:
            was_clean = self.chance.random() < 0.5
            self.seen.append(
                await self.members.start(self.chance.choice(absent), was_clean=was_clean)
            )

    async def die(self) -> None:
        if len(self.members.alive) > 1:
            await self.members.die(self.chance.choice(list(self.members.alive)))

    async def retire(self) -> None:
        if len(self.members.alive) > 2:
            leaver = self.chance.choice(list(self.members.alive))
            await self.members.alive[leaver].node.retire()
            await self.members.die(leaver)

    async def expire(self) -> None:
        member = self.chance.choice(list(self.members.alive.values()))
        await self.members.server.expire(member.store.session.id)

    async def ask(self) -> None:
        """Sends a request to the broker that takes itself for the controller, and does not wait for the answer."""
        controllers = [m for m in self.members.alive.values() if m.is_controller]
        if controllers:
            member = self.chance.choice(controllers)
            call = self._request(member.node.controller, member.image)
            self.asked.add(asyncio.ensure_future(_tolerant(call)))

    def _request(
        self, service: ControllerService, image: MetadataImage
    ) -> Callable[[], Awaitable[object]]:
        chance, name = self.chance, self.chance.choice(NAMES)
        new = NewTopic(name, chance.randint(1, 6), chance.randint(1, min(3, len(image.brokers) or 1)))
        minimum = KeyChange("min.insync.replicas", 0, str(chance.randint(1, 3)))
        target = tuple(chance.sample(BROKERS, chance.randint(1, 3)))
        return chance.choice(
            [
                lambda: service.create_topics([new]),
                lambda: service.create_topics([new]),
                lambda: service.delete_topics([TopicName(name)]),
                lambda: service.create_partitions([NewPartitions(name, chance.randint(2, 8))]),
                lambda: service.alter_configs([ConfigChange(2, name, (minimum,))]),
                lambda: service.elect_leaders([TopicPartition(name, 0)], unclean=chance.random() < 0.3),
                lambda: service.alter_reassignments([Reassignment(name, 0, target)]),
                lambda: self._propose(service, image, name),
                lambda: self._propose(service, image, name),
            ]
        )

    async def _propose(self, service: ControllerService, image: MetadataImage, name: str) -> None:
        """Lets a leader propose an ISR, perhaps with old epochs."""
        partition = image.partition(name, 0)
        leader = image.brokers.get(partition.leader) if partition is not None else None
        if partition is None or leader is None:
            return
        others = [broker for broker in partition.replicas if broker != leader.id]
        isr = (leader.id, *self.chance.sample(others, self.chance.randint(0, len(others))))
        change = IsrChange(
            image.topics[name].id,
            0,
            partition.leader_epoch,
            partition.partition_epoch,
            tuple(InSync(broker) for broker in isr),
        )
        await service.alter_partition(leader.id, leader.epoch, [change])


async def _tolerant(call: Callable[[], Awaitable[object]]) -> object:
    try:
        return await call()
    except (KafkaError, CoordinationError) as error:
        return error


def check_history(members: list[Member]) -> None:
    """Checks that each leader epoch had one leader, and each partition epoch one state."""
    leaders: dict[tuple[bytes, int, int], int] = {}
    states: dict[tuple[bytes, int, int], PartitionImage] = {}
    for member in members:
        for image in member.history.values():
            for topic in image.topics.values():
                for p in topic.partitions:
                    epoch = (topic.id, p.index, p.leader_epoch)
                    assert leaders.setdefault(epoch, p.leader) == p.leader
                    version = (topic.id, p.index, p.partition_epoch)
                    assert states.setdefault(version, p) == p
                    assert p.isr
                    assert set(p.isr) <= set(p.replicas)
                    assert not set(p.isr) & set(p.elr)
                    assert p.leader in {NO_LEADER, *p.isr}


async def run_seed(file: Path, seed: int) -> None:
    async with asyncio.timeout(60), Members(file) as members:
        chaos = Chaos(members, Random(seed))
        for node_id in BROKERS[:3]:
            chaos.seen.append(await members.start(node_id))
        for _ in range(EVENTS):
            await chaos.step()
        if chaos.asked:
            await asyncio.wait(chaos.asked)
        await members.settled()
        check_agreement(members)
        check_history(chaos.seen)
        await members.check_store()


def check_seed(file: Path, seed: int) -> None:
    try:
        asyncio.run(run_seed(file, seed))
    except BaseException as error:
        error.add_note(f"seed {seed}")
        raise


@pytest.mark.parametrize("kept", [3, 1000])
@pytest.mark.parametrize("seed", range(5))
def test_in_any_history_all_brokers_agree_on_the_metadata(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int, kept: int
) -> None:
    monkeypatch.setattr(plan, "PARTITIONS_PER_STEP", 3)
    monkeypatch.setattr(topic_steps, "PARTITIONS_PER_STEP", 3)
    monkeypatch.setattr(topic_steps, "REMOVED_AT_ONCE", 2)
    monkeypatch.setattr(journal, "KEPT", kept)
    check_seed(tmp_path / "db", seed)


@pytest.mark.campaign
def test_in_hundreds_of_histories_all_brokers_agree_on_the_metadata(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(plan, "PARTITIONS_PER_STEP", 3)
    monkeypatch.setattr(topic_steps, "PARTITIONS_PER_STEP", 3)
    monkeypatch.setattr(topic_steps, "REMOVED_AT_ONCE", 2)
    monkeypatch.setattr(journal, "KEPT", 5)
    for seed in range(1_000, 1_300):
        check_seed(tmp_path / f"db{seed}", seed)
