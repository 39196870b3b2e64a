"""What a broker finds registered under its own id: the remains of its past, or another broker.

Where the store learns of a death by a time-out only (ZooKeeper), a killed process leaves its ephemeral nodes behind
for that long. Its successor runs on the same machine, since the same start of it, on the same log dirs, and holds their
locks: so the owner of those nodes is dead, whatever its session says. The successor takes them off, its registration
and what the same session owns besides (/controller, perhaps): the others then need not wait any longer.
"""

from __future__ import annotations

import asyncio

from pybroker.cluster import znodes
from pybroker.cluster.loading import read_broker
from pybroker.coordination.interface import CoordinationError, CoordinationStore, Delete, NoNode, Operation

RETRY_S = 0.2
NAMESAKE_S = 30.0
"""Longer than a session that nobody renews."""


class BrokerIdTaken(Exception):
    """Another broker of this id is alive."""


class Overtaken(CoordinationError):
    """The metadata speaks of a later registration of this id than this broker knows as its own."""


async def remove_past(store: CoordinationStore, node_id: int, boot: str) -> None:
    """Takes off what the past of this broker left; ``boot``: machine and log dirs, as its registration has them."""
    while remains := await _remains(store, node_id, boot):
        try:
            await store.multi(remains)
        except NoNode:
            continue  # the session has ended meanwhile


async def _remains(store: CoordinationStore, node_id: int, boot: str) -> list[Operation]:
    paths = [znodes.broker_path(node_id), znodes.CONTROLLER, znodes.unfit_path(node_id)]
    registration, *others = await store.get_many(paths)
    if registration is None:
        return []
    broker, stat = read_broker(node_id, *registration), registration[1]
    if broker is None or broker.boot != boot:
        return []
    owned = [path for path, node in zip(paths[1:], others, strict=True) if node and node[1].owner == stat.owner]
    return [Delete(path) for path in (paths[0], *owned)]


async def make_room(store: CoordinationStore, node_id: int, boot: str) -> None:
    """Returns when nothing is registered under the id. Raises BrokerIdTaken."""
    path = znodes.broker_path(node_id)
    place = ""
    for _ in range(int(NAMESAKE_S / RETRY_S)):
        await remove_past(store, node_id, boot)
        [found] = await store.get_many([path])
        if found is None:
            return
        broker = read_broker(node_id, *found)
        place = ", ".join(map(str, broker.endpoints)) if broker else "a place that its registration does not tell"
        await asyncio.sleep(RETRY_S)
    raise BrokerIdTaken(f"broker {node_id} runs already, at {place}: choose another node.id")
