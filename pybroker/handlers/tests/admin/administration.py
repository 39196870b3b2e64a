"""A small broker for tests of administration: a real cluster node on a real store, no logs."""

from __future__ import annotations

import asyncio
import inspect
import os
import tempfile
from collections.abc import Awaitable, Callable
from types import SimpleNamespace
from typing import Any

from pybroker.clock import ManualClock
from pybroker.cluster.node import ClusterNode
from pybroker.config import BrokerConfig, Endpoint
from pybroker.handlers import ROWS
from pybroker.handlers.common.call import Call
from pybroker.handlers.common.described import DescribedTopics
from pybroker.handlers.common.turns import Turns
from pybroker.handlers.tests.harness import FakeConnection
from pybroker.store.embedded import EmbeddedStore
from pyclient.protocol import Metadata, errors
from pyclient.protocol.apis import Api

HANDLERS = {row.api: row.handle for row in ROWS}
LOCAL = ("10.1.2.3", 9092)


async def nobody(*_: object) -> None:
    """Fails like a lookup that finds no controller."""
    raise errors.NotController


async def passes(settings: object) -> None:
    """Stands for the check of TLS settings, and accepts all of them."""


class Administration:
    """``await administration(Api, version, request)`` returns the handler's answer. An answer to Metadata is decoded,
    because it has the partitions in bytes.
    """

    def __init__(self, node: ClusterNode, config: BrokerConfig) -> None:
        self.node = node
        self.config = config
        self.broker: Any = SimpleNamespace(
            node_id=1,
            authorizer=None,
            cluster_id=node.cluster_id,
            config=config,
            metadata=node.metadata,
            suspects=node.suspects,
            controller=node.controller,
            forwarding=SimpleNamespace(ask=nobody),
            endpoint_for=lambda connection: node.addresses("PLAINTEXT", LOCAL),
            clock=ManualClock(),
            turns=Turns(),
            described=DescribedTopics(),
            try_out=passes,
            quotas=None,
            loop=asyncio.get_running_loop(),
        )
        node.metadata.add_listener(self.broker.described.forget)

    async def __call__(self, api: Api, version: int, request: Any, connection: Any = None) -> Any:
        connection = connection or FakeConnection()
        connection.local_address = LOCAL
        response = HANDLERS[api](request, Call(self.broker, version, "test", connection))
        if inspect.isawaitable(response):
            response = await response
        message = api.response_codec.encode(version, response)
        return api.decode_response(version, message, 0, len(message)) if api is Metadata else response


def run(
    scenario: Callable[[Administration], Awaitable[None]], settings: dict[str, str] | None = None
) -> None:
    """Runs ``scenario`` with a broker with these settings, on its own store."""

    async def main(folder: str) -> None:
        store = await EmbeddedStore.open(os.path.join(folder, "coordination.db"))
        config = BrokerConfig(settings or {})
        node = await ClusterNode.open(store, config, 1, ManualClock())
        await node.join({"PLAINTEXT": Endpoint("PLAINTEXT", "PLAINTEXT", "127.0.0.1", 9092)})
        await scenario(Administration(node, config))
        await node.leave()
        await store.close()

    with tempfile.TemporaryDirectory() as folder:
        asyncio.run(main(folder))
