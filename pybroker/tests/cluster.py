"""Several brokers in this process and on this loop, over one coordination store in memory."""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import uvloop

from pybroker import data_folder
from pybroker.config import BrokerConfig
from pybroker.log.dirs.log_dir import CLEAN_SHUTDOWN
from pybroker.server import Broker
from pybroker.store.embedded import EmbeddedServer
from pybroker.tests.waiting import until_async
from pyclient.keywords import with_dots

SETTINGS = {
    "replica.fetch.wait.max.ms": "100",
    "replica.fetch.backoff.ms": "50",
    "offsets.topic.num.partitions": "2",
    "transaction.state.log.num.partitions": "2",
    "group.initial.rebalance.delay.ms": "0",
}


async def pause() -> None:
    """Pauses before the next attempt, so that other tasks run. Nothing depends on the length of the pause."""
    await asyncio.sleep(0.003)


def in_loop(test: Callable[[], Awaitable[None]]) -> None:
    """Runs a test on a loop of its own."""
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(test())  # type: ignore[arg-type]


class Cluster:
    """Brokers by id; stopped ones can be started again on their data."""

    def __init__(self, root: Path, **settings: str) -> None:
        self.root = root
        self.settings = SETTINGS | with_dots(settings)
        self.brokers: dict[int, Broker] = {}
        self._ports: dict[int, int] = {}

    async def __aenter__(self) -> Cluster:
        self.store = await EmbeddedServer.open(str(self.root / "store"))
        return self

    async def __aexit__(self, *_: object) -> None:
        for node_id in tuple(self.brokers):
            await self.stop(node_id)
        await self.store.close()

    async def start(self, node_id: int, **settings: str) -> Broker:
        """Starts a broker; returns it as soon as it serves."""
        own = with_dots(settings)
        listener = f"PLAINTEXT://127.0.0.1:{self._ports.get(node_id, 0)}"
        given: dict[str, Any] = {"node.id": node_id, "listeners": listener, **self.settings, **own}
        config = BrokerConfig(given)
        folder = data_folder.plan(str(self.root / f"broker-{node_id}"), node_id, config.log_dirs)
        folder.create()
        broker = Broker(config, folder, store=self.store.connect)
        await broker.start()
        self.brokers[node_id] = broker
        self._ports[node_id] = broker.addresses()[0][1]
        return broker

    async def stop(self, node_id: int) -> None:
        """Stops a broker cleanly."""
        await self.brokers.pop(node_id).stop()

    async def kill(self, node_id: int) -> None:
        """Kills a broker as nearly as this process can: its session and its sockets end first, and the logs
        count as not closed.
        """
        broker = self.brokers.pop(node_id)
        for connection in list(broker.net.connections):
            connection.close()
        broker.net.stop_accepting()
        broker.peers.close()
        await broker.node._store.close()
        await broker.node.leave()
        broker.node._membership = None  # a killed broker hands over no leadership
        with contextlib.suppress(Exception):
            await broker.stop()
        for log_dir in broker.folder.log_dirs:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(f"{log_dir}/{CLEAN_SHUTDOWN}")

    async def until(self, holds: Callable[[], object]) -> None:
        """Waits until ``holds()`` is true."""
        await until_async(holds)
