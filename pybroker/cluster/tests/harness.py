"""Several brokers' cluster rooms in one process, on one store."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

from pybroker.clock import ManualClock
from pybroker.cluster.decisions.isr_changes import InSync, IsrChange
from pybroker.cluster.decisions.plan import NewTopic
from pybroker.cluster.following import newest
from pybroker.cluster.membership import Membership
from pybroker.cluster.metadata import znodes
from pybroker.cluster.metadata.image import MetadataDelta, MetadataImage, PartitionImage
from pybroker.cluster.node import ClusterNode
from pybroker.config import BrokerConfig, Endpoint
from pybroker.store.embedded import EmbeddedServer, EmbeddedStore
from pybroker.tests.waiting import PATIENCE_S, until_async
from pyclient.keywords import with_dots


class Member:
    """One broker: its node, its session, and its image at each version."""

    def __init__(self, node_id: int, node: ClusterNode, store: EmbeddedStore) -> None:
        self.id = node_id
        self.node = node
        self.store = store
        self.deltas: list[MetadataDelta] = []
        self.history: dict[int, MetadataImage] = {}
        node.metadata.add_listener(self._remember)

    async def _remember(self, delta: MetadataDelta, image: MetadataImage) -> None:
        self.deltas.append(delta)
        self.history[image.version] = image

    @property
    def image(self) -> MetadataImage:
        return self.node.metadata.image

    @property
    def is_controller(self) -> bool:
        return self.node.controller.is_controller

    async def die(self) -> None:
        """Dies like kill -9: the session ends without a clean stop."""
        await self.store.close()
        await self.node.leave()
        await self.store.close()  # of a session that it was about to begin


class Members:
    """Brokers on one store: a file, or the store that ``open_server`` returns."""

    def __init__(
        self,
        file: Path,
        *,
        open_server: Callable[[], Awaitable[Any]] | None = None,
        **settings: str,
    ) -> None:
        self._open = open_server or (lambda: EmbeddedServer.open(str(file)))
        self._settings = with_dots(settings)
        self.alive: dict[int, Member] = {}

    async def __aenter__(self) -> Members:
        self.server: Any = await self._open()
        return self

    async def __aexit__(self, *_: object) -> None:
        for member in self.alive.values():
            await member.node.leave()
        await self.server.close()

    async def start(
        self,
        *ids: int,
        was_clean: bool = False,
        rack: str = "",
        directory_ids: Iterable[str] = (),
        wrap: Callable[[EmbeddedStore], Any] = lambda store: store,
        own: Mapping[str, str] = MappingProxyType({}),
    ) -> Member:
        """Starts brokers one after the other, with their ``own`` settings before those of all; returns the last."""
        for node_id in ids:
            settings = self._settings | ({"broker.rack": rack} if rack else {}) | own
            store = wrap(await self.server.connect())
            node = await ClusterNode.open(store, BrokerConfig(settings), node_id, ManualClock())
            self.alive[node_id] = Member(node_id, node, store)
            listener = Endpoint("PLAINTEXT", "PLAINTEXT", "127.0.0.1", 9000 + node_id)
            await node.join({"PLAINTEXT": listener}, was_clean=was_clean, directory_ids=directory_ids)
        return self.alive[ids[-1]]

    async def die(self, node_id: int) -> None:
        """Lets a broker die without a clean stop."""
        await self.alive.pop(node_id).die()

    @property
    def controller(self) -> Member:
        """Returns the broker that is the controller."""
        return next(member for member in self.alive.values() if member.is_controller)

    async def until(self, holds: Callable[[], object]) -> None:
        """Waits until ``holds()`` returns True."""
        await until_async(holds)

    @property
    def has_settled(self) -> bool:
        """Returns whether one broker is the controller and all have the same image."""
        images = [member.image for member in self.alive.values()]
        controllers = [m for m in self.alive.values() if m.is_controller]
        return (
            len(controllers) == 1
            and all(set(image.brokers) == set(self.alive) for image in images)
            and len({image.version for image in images}) == 1
        )

    async def settled(self) -> MetadataImage:
        """Waits until all have the same image, which it returns."""
        await self.until(lambda: self.has_settled)
        return next(iter(self.alive.values())).image

    async def check_store(self) -> None:
        """Checks that a new broker would load the same image that the others have."""
        store = await self.server.connect()
        image = await self.settled()
        loaded = await newest(store, MetadataImage(cluster_id=image.cluster_id))
        while loaded.version != image.version:  # a change was still in progress
            image = await self.settled()
            loaded = await newest(store, MetadataImage(cluster_id=image.cluster_id))
        assert loaded == image

        async def has_no_other_topics() -> bool:
            return await store.children(znodes.TOPICS) == sorted(image.topics)

        await until_async(has_no_other_topics)
        for name, topic in image.topics.items():
            indexes = await store.children(znodes.partitions_path(name))
            assert sorted(map(int, indexes)) == list(range(len(topic.partitions)))
        await store.close()


def check_agreement(members: Members) -> None:
    """Checks that every broker has had the same image at the same version."""
    seen: dict[int, MetadataImage] = {}
    for member in members.alive.values():
        for version, image in member.history.items():
            known = seen.setdefault(version, image)
            assert known == image, f"broker {member.id} differs at version {version}"


def run(file: Path, scenario: Callable[[Members], Awaitable[None]], **settings: str) -> None:
    """Runs a scenario, and checks at its end that all brokers agree."""

    async def main() -> None:
        async with asyncio.timeout(PATIENCE_S), Members(file, **settings) as members:
            await scenario(members)
            check_agreement(members)
            if members.alive:
                await members.check_store()

    asyncio.run(main())


def assigned(name: str, *replicas: tuple[int, ...]) -> NewTopic:
    """Returns a topic with these replicas."""
    return NewTopic(name, -1, -1, tuple(enumerate(replicas)))


def partition_of(image: MetadataImage, topic: str = "t", index: int = 0) -> PartitionImage:
    """Returns a partition, which must exist."""
    found = image.partition(topic, index)
    assert found is not None
    return found


def proposal(image: MetadataImage, *isr: int, topic: str = "t", index: int = 0) -> IsrChange:
    """Returns the change by which a leader proposes ``isr``."""
    known = partition_of(image, topic, index)
    members = tuple(InSync(id, image.brokers[id].epoch if id in image.brokers else 0) for id in isr)
    return IsrChange(image.topics[topic].id, index, known.leader_epoch, known.partition_epoch, members)


async def propose(members: Members, leader: int, *changes: IsrChange) -> list[object]:
    """Sends a leader's changes to the controller, and returns the answers."""
    image = members.controller.image
    return list(await members.controller.node.controller.alter_partition(leader, image.brokers[leader].epoch, changes))


def membership_of(member: Member) -> Membership:
    """Returns the membership of a broker."""
    assert member.node._membership is not None
    return member.node._membership
