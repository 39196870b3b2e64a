"""The secret of the cluster, as this broker knows it; ``peer_secret`` says what it is for.

It is a node of the coordination store, made by the first broker that asks. A store may lose the node, alone or with
all its contents, and who starts next makes another one. A broker that went on with the old one could talk to none that
has started since. So it is read before each registration, and when its node changes; where the node is gone, a broker
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
    """``value``: the secret, ``b""`` before the first ``read``."""

    __slots__ = ("_store", "value")

    def __init__(self, store: CoordinationStore) -> None:
        self._store = store
        self.value = b""

    async def read(self) -> None:
        """Reads the secret, or makes it. In a store without the folder of a cluster this broker keeps what it knows.

        Raises CoordinationError.
        """
        try:
            self.value = (await self._store.get(PATH))[0]
        except NoNode:
            await self._make()

    async def _make(self) -> None:
        if not self.value:
            await ensure_path(self._store, FOLDER)
        with contextlib.suppress(NoNode):  # the store is empty: this must not create a cluster there
            with contextlib.suppress(NodeExists):  # another broker was quicker
                await self._store.create(PATH, self.value or secrets.token_bytes(NONCE_SIZE))
            self.value = (await self._store.get(PATH))[0]
