"""The cluster's id, by which a broker finds out whether its data belong to the cluster of this store."""

from __future__ import annotations

from collections.abc import Callable

from pybroker.cluster.metadata import znodes
from pybroker.cluster.nodes.folders import missing
from pybroker.store.interface import CoordinationError, CoordinationStore, Create, NodeExists


class ClusterMismatch(Exception):
    """Raised if the store belongs to another cluster than this broker's data."""


class StoreIsEmpty(CoordinationError):
    """Raised if the store no longer contains a cluster."""


async def join_cluster(store: CoordinationStore, own: str | None, new_id: Callable[[], str]) -> str:
    """Returns the cluster's id: the store's id, else ``own`` (the id in this broker's data), else a new one.

    Makes the folders of the store. Raises ClusterMismatch if store and data differ.
    """
    while True:
        stored = await _stored_id(store)
        if stored is not None and own not in (None, stored):
            raise ClusterMismatch(f"the coordination store belongs to cluster {stored}, not {own}")
        wanted = stored or own or new_id()
        try:
            await _lay_out(store, None if stored else wanted)
            return wanted
        except NodeExists:
            continue  # another broker was faster


async def _stored_id(store: CoordinationStore) -> str | None:
    [found] = await store.get_many([znodes.CLUSTER_ID])
    return znodes.decode_cluster_id(found[0]) if found else None


async def _lay_out(store: CoordinationStore, cluster_id: str | None) -> None:
    made = await missing(store, znodes.FOLDERS)
    if cluster_id is not None:
        made.append(Create(znodes.CLUSTER_ID, znodes.encode_cluster_id(cluster_id)))
    if made:
        await store.multi(made)


async def check_cluster(store: CoordinationStore, own: str) -> None:
    """Raises StoreIsEmpty or ClusterMismatch if the store is not that of ``own``, the cluster that this broker joined.
    """
    stored = await _stored_id(store)
    if stored is None:
        raise StoreIsEmpty(
            f"the coordination store has lost cluster {own}: restore its contents, or restart a broker to create"
            " a new cluster; the logs are kept"
        )
    if stored != own:
        raise ClusterMismatch(f"the coordination store belongs to cluster {stored} now, not {own}")
