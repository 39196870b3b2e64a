"""The election of the controller: the broker that creates the ephemeral node /controller, in a new epoch.

The epoch's node is written in the same ``multi``, so each of its versions belongs to one controller. A write that
checks this version fails as soon as another broker has been elected. So an old controller that was disconnected or
paused cannot change anything (its brokers see STALE_CONTROLLER_EPOCH).
"""

from __future__ import annotations

import contextlib
from typing import NamedTuple

from pybroker.cluster.metadata import znodes
from pybroker.store.interface import (
    BadVersion,
    Check,
    CoordinationStore,
    Create,
    Delete,
    NodeExists,
    NoNode,
    Operation,
    Set,
)

ATTEMPTS = 5
"""How often a broker tries to become controller if others write in between. Then it waits before the next try."""


class Leadership(NamedTuple):
    """A controller's term: its epoch and the version of the epoch's node."""

    epoch: int
    version: int

    def check(self) -> Operation:
        """Returns the operation that makes a ``multi`` fail when the term is over."""
        return Check(znodes.CONTROLLER_EPOCH, self.version)


async def become_controller(
    store: CoordinationStore, node_id: int, now_ms: int
) -> Leadership | None:
    """Returns the new term of this broker, None if another broker is the controller.

    Raises NoNode if the store lacks the nodes that a start makes, and BadVersion if others keep writing.
    """
    for attempt in range(ATTEMPTS):
        found, cluster = await store.get_many([znodes.CONTROLLER_EPOCH, znodes.CLUSTER_ID])
        if cluster is None:
            raise NoNode(znodes.CLUSTER_ID)  # the cluster's nodes are missing: no broker could begin a term
        epoch = int(found[0]) + 1 if found else 1
        version = found[1].version if found else -1
        data = str(epoch).encode()
        write = (
            Set(znodes.CONTROLLER_EPOCH, data, version)
            if found
            else Create(znodes.CONTROLLER_EPOCH, data)
        )
        claim = Create(znodes.CONTROLLER, znodes.encode_controller(node_id, now_ms), ephemeral=True)
        try:
            await store.multi([claim, write])
            return Leadership(epoch, version + 1)
        except NodeExists as error:
            if error.index == 0 and not await _gave_up_own_term(store):
                return None
        except (BadVersion, NoNode):
            if attempt == ATTEMPTS - 1:
                raise
    return None


async def give_up(store: CoordinationStore, leadership: Leadership) -> None:
    """Ends a term before its session ends; does nothing if another term has begun."""
    with contextlib.suppress(BadVersion, NoNode):
        await store.multi([leadership.check(), Delete(znodes.CONTROLLER)])


async def _gave_up_own_term(store: CoordinationStore) -> bool:
    """Deletes a /controller of this session that a failed term has left."""
    stat = await store.exists(znodes.CONTROLLER)
    if stat is None:
        return True
    if stat.owner != store.session.id:
        return False
    await store.delete(znodes.CONTROLLER)
    return True
