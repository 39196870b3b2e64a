"""A broker without sockets, as handlers see it."""

from __future__ import annotations

import inspect
import itertools
from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any

from pybroker.cluster.metadata.image import TopicImage
from pybroker.cluster.suspects import Suspects
from pybroker.handlers.common.call import Authorizer, Call
from pybroker.handlers.common.turns import TURN_S, Turn, Turns
from pybroker.replication.tests import harness


class FakeProducerIds:
    """Returns the ids 1000, 1001, …"""

    def __init__(self) -> None:
        self.last = 999

    async def next(self) -> int:
        self.last += 1
        return self.last


class FakeConnection(SimpleNamespace):
    """A client's connection. ``held`` is greater than 0 while it would read no other request."""

    def __init__(self) -> None:
        super().__init__(
            listener_name="PLAINTEXT",
            held=0,
            broker_id=None,
            pinned=False,
            principal="User:alice",
            sasl=None,
            authentication=None,
            share=None,
            peer_address=("127.0.0.1", 50_000),
        )

    def hold(self) -> None:
        self.held += 1

    def release(self) -> None:
        self.held -= 1


class OneItemTurns(Turns):
    """Turns that are over after one item. ``count`` is how many turns have been awaited."""

    def __init__(self) -> None:
        super().__init__(itertools.count(0, 2 * TURN_S).__next__)
        self.count = 0

    async def next_turn(self) -> Turn:
        self.count += 1
        return await super().next_turn()


class Node(harness.Node):
    """Broker 1, as handlers see it."""

    def start(self, deleted: Mapping[str, TopicImage] | None = None) -> None:
        self.producer_ids = FakeProducerIds()
        self.endpoints = {harness.NODE: ("broker1", 9092), 2: ("broker2", 9093)}
        self.connection: Any = FakeConnection()
        self.transactions: Any = None
        self.authorizer: Authorizer | None = None
        self.turns = Turns()
        super().start(deleted)
        self.unpackers = self.pools.syncs
        self.suspects = Suspects(self.metadata, self.clock)

    def endpoint_for(self, connection: Any) -> dict[int, tuple[str, int]]:
        return self.endpoints

    def call(self, version: int, client_id: str = "c") -> Call:
        """Returns the context of a request."""
        return Call(self, version, client_id, self.connection)  # type: ignore[arg-type]

    def ask(self, handler: Any, request: Any, version: int, client_id: str = "c") -> Any:
        """Calls a handler and returns its result: a response, None, or a future."""
        result = handler.handle(request, self.call(version, client_id))
        if inspect.iscoroutine(result):
            return self.run(result)
        return result
