"""Finishes the deletions of topics after their answers.

The controller removes the topics' nodes. Each broker deletes its logs, and then leaves the notes.

A deletion is decided when its first step is in the store. A crash leaves the note, by which the next start, or the next
controller, finishes the deletion.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from typing import Final

from pybroker.cluster.metadata.image import TopicImage
from pybroker.cluster.nodes.deletions import confirm_deleted
from pybroker.cluster.nodes.loading import Deleted
from pybroker.store.interface import CoordinationStore

PAUSE_S: Final = 0.1
"""How long deletions are gathered before they are finished together."""


async def _no_logs() -> None:
    return


class Deletions:
    """The deleted topics of which this broker may still have logs."""

    def __init__(
        self, store: CoordinationStore, node_id: int, remove_nodes: Callable[[], Awaitable[object]]
    ) -> None:
        """``remove_nodes()`` removes all nodes of deleted topics, if this broker is the controller."""
        self._store = store
        self._remove_nodes = remove_nodes
        self._node_id = node_id
        self.delete_logs: Callable[[], Awaitable[object]] = _no_logs
        """Deletes this broker's logs of all topics that its published metadata have lost."""
        self._topics: dict[bytes, str] = {}
        self._finishing: asyncio.Task[None] | None = None

    def add(self, topics: Iterable[TopicImage | Deleted]) -> None:
        """Adds topics that the published metadata have lost by a deletion; they are finished soon."""
        self._topics.update((topic.id, topic.name) for topic in topics)
        if self._topics and (self._finishing is None or self._finishing.done()):
            self._finishing = asyncio.ensure_future(self._finish())

    async def free(self, names: Iterable[str]) -> None:
        """Returns when no logs of deleted topics have one of these names."""
        if self._topics and not set(names).isdisjoint(self._topics.values()):
            await self.delete_logs()

    async def _finish(self) -> None:
        while self._topics:
            await asyncio.sleep(PAUSE_S)
            ids = list(self._topics)
            await self._remove_nodes()
            await self.delete_logs()
            for topic_id in ids:
                del self._topics[topic_id]
            await confirm_deleted(self._store, self._node_id, ids)

    def close(self) -> None:
        """Finishes nothing further: the next start does."""
        if self._finishing is not None:
            self._finishing.cancel()
