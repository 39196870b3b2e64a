"""A broker of a simulated process: ``pybroker.server.Broker`` on virtual time, disk, store and network.

All of it is production code except the edges. It binds no sockets, its connections to other brokers are simulated, and
it has no threads.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from proofs.simulator.machines.connection import connect
from proofs.simulator.machines.scheduler import Pool
from pybroker.config import BrokerConfig, Endpoint
from pybroker.data_folder import DataFolder
from pybroker.handlers.common.turns import Turns
from pybroker.log.housekeeping import Housekeeping
from pybroker.net.peer import Peers
from pybroker.pools import Pools
from pybroker.server import Broker

if TYPE_CHECKING:
    from proofs.simulator.machines.cluster import Process

LOG_DIR, SECOND_DIR = "/disk", "/disk2"
ROOT = Path("/simulated")
CONNECT_TIMEOUT_S = 1.0


class SimulatedPeers(Peers):
    """Simulated connections to the other brokers."""

    process: Process

    async def open(self, node_id: int, endpoint: Endpoint, on_lost: Callable[[Any], object]) -> Any:
        async with asyncio.timeout(CONNECT_TIMEOUT_S):
            return await connect(self.process.cluster, self.process, node_id, on_lost)


class SimulatedClock:
    """The clocks of a machine, whose calendar may jump."""

    def __init__(self, process: Process) -> None:
        self._scheduler = process.cluster.scheduler
        self._machine = process.machine

    def now_ms(self) -> int:
        """Returns milliseconds since the epoch by the machine's calendar."""
        offset_ms: int = self._machine.clock_offset_ms
        return 1_700_000_000_000 + int(self._scheduler.now * 1000) + offset_ms

    def monotonic_ms(self) -> int:
        """Returns milliseconds since the simulated start of the machine."""
        return 1_000_000 + int(self._scheduler.now * 1000)


class SimulatedBroker(Broker):
    """The broker of one simulated process."""

    def __init__(self, process: Process, settings: dict[str, str]) -> None:
        open_store: Callable[[], Awaitable[Any]] = process.open_store
        super().__init__(
            BrokerConfig(settings),
            DataFolder(ROOT, ROOT / "broker", tuple(settings["log.dirs"].split(","))),
            clock=SimulatedClock(process),
            storage=process.storage,
            store=open_store,
        )
        self.turns = Turns(lambda: 0.0)
        self.pools = Pools.one(Pool(process.loop))  # type: ignore[arg-type]
        self.unpackers = Pool(process.loop)  # type: ignore[assignment]
        self.process = process
        self.is_serving = False

    def _watch_loop(self) -> None:
        """Does nothing, because a simulated loop is never late."""

    def _bind(self) -> None:
        endpoint = Endpoint("PLAINTEXT", "PLAINTEXT", f"broker{self.node_id}", 9092)
        self._bound = [SimpleNamespace(endpoint=endpoint)]  # type: ignore[list-item]

    def _make_peers(self) -> Peers:
        peers = SimulatedPeers(self.node_id, lambda: self.peer_secret, self.loop)
        peers.process = self.process
        return peers

    def _serve(self) -> None:
        self.is_serving = True
        self._opened.callback(self.groups.close)
        self._opened.callback(self.transactions.close)
        self._opened.callback(self._serve_no_more)
        housekeeping = Housekeeping(self.logs, self.config, self.clock, self.pools.upkeep)
        housekeeping.start()
        self._opened.push_async_callback(housekeeping.stop)
        self._opened.push_async_callback(self.node.retire)

    def _serve_no_more(self) -> None:
        self.is_serving = False
        self.process.close_connections()
