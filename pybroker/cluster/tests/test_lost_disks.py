"""A broker reports its lost disks until the cluster knows."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from pybroker.cluster.decisions.plan import NewTopic
from pybroker.cluster.metadata import znodes
from pybroker.cluster.metadata.image import NO_LEADER
from pybroker.cluster.tests.harness import Members, run
from pybroker.store.embedded import EmbeddedStore
from pybroker.store.interface import ConnectionLoss, Operation

UNFIT = znodes.unfit_path(2)


class Lossy:
    """A session that loses the first writes in which its broker reports a lost disk."""

    def __init__(self, store: EmbeddedStore) -> None:
        self.losses = 2
        self._store = store

    def __getattr__(self, name: str) -> object:
        return getattr(self._store, name)

    async def multi(self, operations: Sequence[Operation]) -> None:
        """Raises ConnectionLoss."""
        if self.losses and any(each.path == UNFIT for each in operations):
            self.losses -= 1
            raise ConnectionLoss("lost")
        await self._store.multi(operations)


async def create(members: Members) -> bytes:
    """Creates a topic with replicas on both brokers. Returns its id."""
    settings = (("min.insync.replicas", "2"),)
    topic = NewTopic("t", -1, -1, ((0, (1, 2)),), configs=settings)
    await members.controller.node.controller.create_topics([topic])
    return (await members.settled()).topics["t"].id


def test_case_11_a_lost_disk_is_reported_again_until_the_store_has_recorded_it(tmp_path: Path) -> None:
    async def scenario(members: Members) -> None:
        await members.start(1)
        await members.start(2, wrap=Lossy)
        lost = frozenset({(await create(members), 0)})
        members.alive[2].node.tell_lost(lost)
        await members.until(lambda: members.controller.image.brokers[2].offline == lost)
        [partition] = (await members.settled()).topics["t"].partitions
        assert (partition.leader, partition.isr, partition.elr) == (1, (1,), ())

    run(tmp_path / "store", scenario)


def test_case_11_a_lone_broker_reports_a_lost_disk_to_later_brokers(tmp_path: Path) -> None:
    """The lone broker has lost records that a broker which left earlier still has."""

    async def scenario(members: Members) -> None:
        await members.start(1, 2)
        lost = frozenset({(await create(members), 0)})
        await members.die(2)
        await members.settled()
        members.alive[1].node.tell_lost(lost)
        await members.until(lambda: members.controller.image.brokers[1].offline == lost)
        await members.alive[1].node.retire()
        [partition] = members.alive[1].image.topics["t"].partitions
        assert (partition.leader, partition.isr, partition.elr) == (NO_LEADER, (2,), ())
        await members.die(1)
        await members.start(1)
        assert (await members.settled()).topics["t"].partitions[0].leader == NO_LEADER
        await members.start(2)
        assert (await members.settled()).topics["t"].partitions[0].leader == 2

    run(tmp_path / "store", scenario)
