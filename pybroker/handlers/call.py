"""What a handler knows besides the request: who asks, in which version, and the broker that is
asked.
"""

from __future__ import annotations

from asyncio import AbstractEventLoop
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any, Protocol

from pybroker.clock import Clock
from pybroker.handlers.lane import Lane


class Connection(Protocol):
    """A client's connection, as handlers see it."""

    id: str
    """Unique among the broker's connections: ``local-remote-number`` as in Kafka's logs."""
    listener_name: str
    local_address: tuple[str, int]
    peer_address: tuple[str, int]
    client_software_name: str
    client_software_version: str
    broker_id: int | None
    """The broker of this cluster at the other end, once it has proved itself (``cluster.peer_secret``)."""
    authentication: Any
    """The proof that is under way."""
    pinned: bool
    """The bytes of the request that is being handled stay as long as they are referenced."""

    def hold(self) -> None:
        """No further request is read until ``release`` has been called as often."""
        ...

    def release(self) -> None:
        """Ends a ``hold``."""
        ...


@contextmanager
def held(connection: Connection) -> Iterator[None]:
    """What comes next from this client is served afterwards."""
    connection.hold()
    try:
        yield
    finally:
        connection.release()


class Broker(Protocol):
    """The broker, as handlers see it. ``pybroker.server`` builds the real one; tests use small
    fakes.
    """

    node_id: int
    cluster_id: str
    clock: Clock
    config: Any
    metadata: Any
    suspects: Any
    """Brokers that may just have died (``cluster.suspects``)."""
    controller: Any
    forwarding: Any
    replicas: Any
    logs: Any
    groups: Any
    transactions: Any
    producer_ids: Any
    unpackers: ThreadPoolExecutor
    """For batches that take long to unpack."""
    lane: Lane
    """Where long requests wait for their next turn."""
    loop: AbstractEventLoop
    peers: Any
    """Requests to other brokers: ``await peers.request(node_id, message)``."""
    peer_secret: bytes

    def endpoint_for(self, connection: Connection) -> dict[int, tuple[str, int]]:
        """Host and port of every live broker, by node id, as the client on ``connection`` should
        reach it.
        """
        ...


class Call:
    """One request's context. Shared by consecutive requests of a connection: never changed after it
    is made.
    """

    __slots__ = ("broker", "client_id", "connection", "version")

    def __init__(
        self, broker: Broker, version: int, client_id: str | None, connection: Connection
    ) -> None:
        self.broker = broker
        self.version = version
        self.client_id = client_id
        self.connection = connection
