"""This broker's place in the cluster: registered, candidate for controller, watching the others.

``join`` registers the broker (ephemeral /brokers/ids/N), stands for controller, loads the image and
publishes it. Afterwards the watches keep it so: brokers that come and go reach the controller's
elections, a controller that vanishes is replaced, and an expired session is followed by a new one.
Whatever a watch starts runs one after the other in one task, so it cannot overtake itself.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable

from pybroker.clock import Clock
from pybroker.cluster import znodes
from pybroker.cluster.image import BrokerRegistration
from pybroker.cluster.leadership import become_controller
from pybroker.cluster.loading import load_brokers, load_deleted, load_image
from pybroker.cluster.service import ControllerService
from pybroker.coordination.interface import (
    CoordinationError,
    CoordinationStore,
    Create,
    Delete,
    NodeExists,
    SessionState,
    Watch,
)
from pyclient.protocol.errors import KafkaError

_log = logging.getLogger(__name__)


class ClusterMismatch(Exception):
    """The store belongs to another cluster than this broker's data."""


async def cluster_id(store: CoordinationStore, own: str | None, new_id: Callable[[], str]) -> str:
    """The cluster's id: the store's, else ``own`` (of this broker's data), else a new one.

    Makes the folders of the store. Raises ClusterMismatch where store and data differ.
    """
    [found] = await store.get_many([znodes.CLUSTER_ID])
    if found is None:
        found_id = own or new_id()
        await _lay_out(store, found_id)
        return found_id
    stored = znodes.decode_cluster_id(found[0])
    if own is not None and own != stored:
        raise ClusterMismatch(f"the coordination store belongs to cluster {stored}, not {own}")
    return stored


async def _lay_out(store: CoordinationStore, cluster_id: str) -> None:
    existing = await store.get_many(znodes.FOLDERS)
    missing = [p for p, node in zip(znodes.FOLDERS, existing, strict=True) if node is None]
    identity = Create(znodes.CLUSTER_ID, znodes.encode_cluster_id(cluster_id))
    await store.multi([*map(Create, missing), identity])


class Membership:
    """Keeps one broker in the cluster."""

    def __init__(
        self,
        store: CoordinationStore,
        service: ControllerService,
        registration: BrokerRegistration,
        clock: Clock,
        cluster_id: str,
    ) -> None:
        self._store = store
        self._service = service
        self._registration = registration
        self._clock = clock
        self._cluster_id = cluster_id
        self._standing = asyncio.Lock()
        self._watches: list[Watch] = []
        self._wanted: dict[Callable[[], Awaitable[None]], None] = {}
        self._worker: asyncio.Task[None] | None = None

    async def join(self, *, was_clean: bool = False) -> None:
        """Registers, stands for controller, publishes the image and elects leaders.

        After an unclean stop this broker's leaderships begin a new leader epoch; ``was_clean``
        tells that its logs were closed in order, and keeps them.
        """
        await self._register()
        self._watches = [
            self._store.watch(znodes.CONTROLLER, lambda path: self._start(self._stand)),
            self._store.watch(znodes.BROKER_IDS, lambda path: self._start(self._count)),
        ]
        self._store.session.on_change(self._on_session)
        restarted = () if was_clean else (self._registration.id,)
        await self._stand(restarted)

    async def _register(self) -> None:
        path = znodes.broker_path(self._registration.id)
        data = znodes.encode_broker(self._registration, self._clock.now_ms())
        try:
            await self._store.create(path, data, ephemeral=True)
        except NodeExists:
            await self._store.multi([Delete(path), Create(path, data, ephemeral=True)])

    async def _stand(self, restarted: tuple[int, ...] = ()) -> None:
        """Becomes controller, or learns who is."""
        async with self._standing:
            if not self._service.is_controller:
                await self._stand_once(restarted)

    async def _stand_once(self, restarted: tuple[int, ...]) -> None:
        node_id = self._registration.id
        leadership = await become_controller(self._store, node_id, self._clock.now_ms())
        image = await load_image(self._store, self._cluster_id)
        if leadership is None:
            await self._service.follow(image)
            return
        _log.info("broker %d is controller in epoch %d", node_id, leadership.epoch)
        await self._service.take_over(
            leadership, image, restarted, await load_deleted(self._store)
        )

    async def _count(self) -> None:
        """Brokers came or went."""
        if self._service.is_controller:
            await self._service.set_brokers(await load_brokers(self._store))

    async def _rejoin(self) -> None:
        """The session expired: begins another, with a new broker epoch."""
        self._service.step_down()
        await self._store.new_session()
        await self._register()
        await self._stand()

    def _on_session(self, state: SessionState) -> None:
        if state is SessionState.EXPIRED:
            self._start(self._rejoin)

    def _start(self, work: Callable[[], Awaitable[None]]) -> None:
        self._wanted[work] = None
        if self._worker is None or self._worker.done():
            self._worker = asyncio.ensure_future(self._work())

    async def _work(self) -> None:
        while self._wanted:
            work = next(iter(self._wanted))
            del self._wanted[work]
            try:
                await work()
            except (CoordinationError, KafkaError) as error:
                _log.warning("cluster membership: %s: %s", type(error).__name__, error)

    async def leave(self) -> None:
        """Stops watching and gives up the registration; the store stays open."""
        for watch in self._watches:
            watch.cancel()
        self._wanted.clear()
        if self._worker is not None:
            await asyncio.wait([self._worker])
        self._service.step_down()
