"""The secret of the cluster, as this broker knows it; ``peer_secret`` explains its use.

The secret is a node of the coordination store, created by the first broker that needs it. If a store loses the node,
the next broker that starts creates another secret. A broker that continued with the old secret could not connect to
later brokers. So a broker reads the node before each registration and when it changes. If the node is missing, a broker
that knows the secret writes it back.
"""

from __future__ import annotations

import contextlib
import secrets

from pybroker.cluster.peer_secret import NONCE_SIZE
from pybroker.store.interface import CoordinationStore, NodeExists, NoNode, ensure_path

FOLDER = "/pybroker"
PATH = f"{FOLDER}/secret"


class ClusterSecret:
    """``value`` is the secret, ``b""`` before the first ``read``."""

    __slots__ = ("_store", "value")

    def __init__(self, store: CoordinationStore) -> None:
        self._store = store
        self.value = b""

    async def read(self) -> None:
        """Reads the secret, or creates it. If the store lacks the cluster's folder, this broker keeps the secret that
        it knows.

        Raises CoordinationError.
        """
        try:
            self.value = (await self._store.get(PATH))[0]
        except NoNode:
            await self._make()

    async def _make(self) -> None:
        if not self.value:
            await ensure_path(self._store, FOLDER)
        with contextlib.suppress(NoNode):  # the store is empty, and this write must not create a cluster in it
            with contextlib.suppress(NodeExists):  # another broker was faster
                await self._store.create(PATH, self.value or secrets.token_bytes(NONCE_SIZE))
            self.value = (await self._store.get(PATH))[0]
