"""Registrations under this broker's own id: those of its earlier processes, or of another broker.

A store that notices a death only by a timeout (ZooKeeper) keeps the ephemeral nodes of a killed process until then. The
successor of that process runs on the same machine, which was not restarted since, on the same log dirs, and holds their
locks. So the owner of those nodes is dead, although its session still exists. The successor removes the registration
and the other nodes of that session (perhaps /controller). Then the other brokers need not wait.

Copied log dirs have the same ids, but their own locks. So a registration also names its process. While that process
lives, any other broker with this id is refused. If the process cannot be seen, because it runs in another container, a
starting broker assumes that it is dead, and a running broker assumes that it is its replacement. So two of them never
fight.
"""

from __future__ import annotations

import asyncio

from pybroker.cluster.metadata import znodes
from pybroker.cluster.nodes.loading import read_broker
from pybroker.cluster.owner_process import Owner, owner_of
from pybroker.store.interface import CoordinationError, CoordinationStore, Delete, NoNode, Operation

RETRY_S = 0.2
NAMESAKE_S = 30.0
"""How long to wait for the end of another broker's registration, unless sessions are longer."""
SLACK_S = 12.0
"""How many seconds after the timeout a store ends an unrenewed session at the latest."""


class BrokerIdTaken(Exception):
    """Raised if another broker with this id is alive."""


class Overtaken(CoordinationError):
    """Raised if the metadata have a later registration of this id than this broker's own."""


def patience_s(session_timeout_ms: int) -> float:
    """Returns how long to wait for the end of a registration that may no longer be renewed."""
    return max(NAMESAKE_S, session_timeout_ms / 1000 + SLACK_S)


async def remove_past(store: CoordinationStore, node_id: int, boot: str, *, starts: bool = True) -> None:
    """Removes the nodes of this broker's earlier processes. ``boot`` is machine and log dirs, as in its registration.

    ``starts`` is True if this broker was not registered yet.
    """
    while remains := await _remains(store, node_id, boot, starts):
        try:
            await store.multi(remains)
        except NoNode:
            continue  # the session has ended meanwhile


async def _remains(store: CoordinationStore, node_id: int, boot: str, starts: bool) -> list[Operation]:
    paths = [znodes.broker_path(node_id), znodes.CONTROLLER, znodes.unfit_path(node_id)]
    registration, *others = await store.get_many(paths)
    if registration is None:
        return []
    broker, stat = read_broker(node_id, *registration), registration[1]
    if broker is None or broker.boot != boot or not _is_past(owner_of(znodes.process_of(registration[0])), starts):
        return []
    owned = [path for path, node in zip(paths[1:], others, strict=True) if node and node[1].owner == stat.owner]
    return [Delete(path) for path in (paths[0], *owned)]


def _is_past(owner: Owner, starts: bool) -> bool:
    return owner in (Owner.ITSELF, Owner.DEAD, Owner.UNKNOWN) or (owner is Owner.ELSEWHERE and starts)


async def make_room(
    store: CoordinationStore, node_id: int, boot: str, *, starts: bool = True, session_timeout_ms: int = 0
) -> None:
    """Waits until nothing is registered under the id. Raises BrokerIdTaken."""
    path = znodes.broker_path(node_id)
    place = ""
    for _ in range(int(patience_s(session_timeout_ms) / RETRY_S)):
        await remove_past(store, node_id, boot, starts=starts)
        [found] = await store.get_many([path])
        if found is None:
            return
        broker = read_broker(node_id, *found)
        place = ", ".join(map(str, broker.endpoints)) if broker else "an address that its registration does not tell"
        if broker is not None and broker.boot == boot and owner_of(znodes.process_of(found[0])) is Owner.ALIVE:
            place += ", on a copy of these log dirs"
            break
        await asyncio.sleep(RETRY_S)
    raise BrokerIdTaken(f"broker {node_id} is already running at {place}: choose another node.id")
