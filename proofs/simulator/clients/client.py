"""A client's process: connections to brokers, requests that are answered or not."""

from __future__ import annotations

import asyncio
from random import Random
from typing import Any

import pyclient.protocol
from proofs.simulator.machines.cluster import Cluster, Process
from proofs.simulator.machines.connection import ClientEnd, connect
from pybroker.cluster.metadata.image import MetadataImage
from pyclient.protocol import errors
from pyclient.protocol.answers import answer_on

CONNECT_TIMEOUT_S = 0.3


class Client(Process):
    """A client: one process of an application."""

    def __init__(self, cluster: Cluster, place: int, rng: Random) -> None:
        super().__init__(cluster, place, f"client {place}", None)
        self.rng = rng
        self._connections: dict[int, ClientEnd] = {}
        self._epochs: dict[tuple[bytes, int], int] = {}

    def image(self) -> MetadataImage | None:
        """Returns the metadata of some broker, or None if no broker can be reached."""
        network = self.cluster.network
        brokers = [b for b in self.cluster.brokers() if not network.is_cut(self.place, b.node_id)]
        image: MetadataImage | None = self.rng.choice(brokers).metadata.image if brokers else None
        return image

    def leader(self, topic: str, partition: int) -> int:
        """Returns the leader of a partition according to some broker, but never an earlier leader. Raises
        LeaderNotAvailable.
        """
        image = self.image()
        found = image.partition(topic, partition) if image is not None else None
        if image is None or found is None or found.leader < 0:
            raise errors.LeaderNotAvailable(f"{topic}-{partition}")
        key = image.topics[topic].id, partition
        if found.leader_epoch < self._epochs.get(key, -1):
            raise errors.LeaderNotAvailable(f"{topic}-{partition}")
        self._epochs[key] = found.leader_epoch
        return found.leader

    async def request(self, broker: int, message: Any, version: int, timeout_s: float) -> Any:
        """Sends a request and returns the response. Raises NetworkException, RequestTimedOut."""
        try:
            async with asyncio.timeout(timeout_s):
                return await self._request(broker, message, version)
        except TimeoutError:
            connection = self._connections.pop(broker, None)
            if connection is not None:
                connection.lose("no answer in time")
            raise errors.RequestTimedOut(f"broker {broker}") from None

    async def _request(self, broker: int, message: Any, version: int) -> Any:
        connection = self._connections.get(broker)
        if connection is None or connection.is_closed:
            try:
                connection = await connect(self.cluster, self, broker, lambda end: None)
            except OSError as error:
                raise errors.NetworkException(str(error)) from error
            self._connections[broker] = connection
        answer, done = answer_on(self.loop)
        connection.send(_api_of(message), version, message, done)
        return await answer

    def drop(self, broker: int) -> None:
        """Forgets the connection. Requests on their way still arrive."""
        self._connections.pop(broker, None)

    def become(self, principal: str) -> None:
        """Acts as another user from now on, on new connections."""
        self.principal = principal
        for connection in self._connections.values():
            connection.lose("another user comes")
        self._connections.clear()


def _api_of(message: Any) -> Any:
    return getattr(pyclient.protocol, type(message).__qualname__.partition(".")[0])
