"""Brokers on one store, in one process, for a scenario that runs on its own event loop."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path

from pybroker.clock import ManualClock
from pybroker.cluster.metadata import znodes
from pybroker.cluster.metadata.image import MetadataDelta, MetadataImage
from pybroker.cluster.node import ClusterNode
from pybroker.config import BrokerConfig, Endpoint
from pybroker.store.embedded import EmbeddedServer, EmbeddedStore
from pybroker.tests.waiting import until_async

LISTENERS = {"PLAINTEXT": Endpoint("PLAINTEXT", "PLAINTEXT", "127.0.0.1", 9092)}


class Cluster:
    """Brokers on one store's file; ``deltas`` has the deltas of the first broker."""

    def __init__(self, file: Path) -> None:
        self.file = str(file)
        self.deltas: list[MetadataDelta] = []

    async def __aenter__(self) -> Cluster:
        self.server = await EmbeddedServer.open(self.file)
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.server.close()

    async def broker(
        self,
        node_id: int = 1,
        settings: dict[str, str] | None = None,
        cluster_id: str | None = None,
        *,
        was_clean: bool = False,
    ) -> tuple[ClusterNode, EmbeddedStore, BrokerConfig]:
        store = await self.server.connect()
        config = BrokerConfig(settings or {})
        node = await ClusterNode.open(store, config, node_id, ManualClock(), cluster_id)

        async def remember(delta: MetadataDelta, image: MetadataImage) -> None:
            self.deltas.append(delta)

        node.metadata.add_listener(remember)
        await node.join(LISTENERS, was_clean=was_clean)
        return node, store, config


async def until_no_note_is_left(store: EmbeddedStore) -> None:
    """Waits until the deletions of topics are finished."""

    async def is_empty() -> bool:
        return not await store.children(znodes.DELETED_TOPICS)

    await until_async(is_empty)


Run = Callable[[Callable[[Cluster], Awaitable[None]]], None]
