"""Finishes the deletions of topics after their answers.

The controller removes the topics' nodes (``remaining_nodes``). Each broker deletes its logs, and then removes itself
from the notes.

A deletion has five steps. After a crash, the one in the last column goes on with the next step:

| step                                                     | who does it      | who goes on after a crash            |
|----------------------------------------------------------|------------------|--------------------------------------|
| 1. A note, and the journal's entry, are written.         | the controller   | each reader of the entry or the note |
|    A mark below the note says that nodes remain.         |                  |                                      |
| 2. Nodes are removed, the last ones with the mark.       | the controller   | the next controller, by the mark     |
| 3. Logs are renamed to -delete.                          | each with logs   | its next start, by the note          |
| 4. A broker removes itself from the note.                | each with logs   | its next start, by the note          |
| 5. The note without brokers and mark is removed.         | who made it so   | the next controller                  |

The client gets its answer after step 1. No broker waits for another one.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Iterable
from typing import Final

from pybroker.cluster.metadata.image import TopicImage
from pybroker.cluster.nodes.deletion_notes import confirm_deleted
from pybroker.cluster.nodes.loading import Deleted
from pybroker.cluster.remaining_nodes import RemainingNodes
from pybroker.store.interface import CoordinationStore

PAUSE_S: Final = 0.1
"""How long deletions are gathered before they are finished together."""
LONGEST_PAUSE_S: Final = 5.0
"""The longest pause before the controller tries again to remove nodes. Each pause is twice as long as the last one."""


async def _no_logs() -> None:
    return


class Deletions:
    """The deleted topics of which this broker may still have logs."""

    def __init__(self, store: CoordinationStore, node_id: int, nodes: RemainingNodes) -> None:
        self._store = store
        self._node_id = node_id
        self.nodes = nodes
        self.delete_logs: Callable[[], Awaitable[object]] = _no_logs
        """Deletes this broker's logs of all topics that are no longer in its published metadata."""
        self._topics: dict[bytes, str] = {}
        self._added = set[bytes]()
        """The topics that were added after the current round began, and which that round may have missed."""
        self._finishing: asyncio.Task[None] | None = None
        self._is_closed = False

    def add(self, topics: Iterable[TopicImage | Deleted]) -> None:
        """Adds topics that a deletion has removed from the published metadata; their deletion is finished soon."""
        for topic in topics:
            self._topics[topic.id] = topic.name
            self._added.add(topic.id)
        if self._topics and not self._is_closed and (self._finishing is None or self._finishing.done()):
            self._finishing = asyncio.ensure_future(self._finish())

    async def free(self, names: Collection[str]) -> None:
        """Returns when neither logs nor nodes of deleted topics have one of these names.

        The caller is the controller, in the middle of a change. Raises the errors of a write.
        """
        if self._topics and not set(names).isdisjoint(self._topics.values()):
            await self.delete_logs()
        await self.nodes.remove_of(names)

    async def _finish(self) -> None:
        pause_s = PAUSE_S
        while self._topics:
            await asyncio.sleep(pause_s)
            ids = list(self._topics)
            self._added.clear()
            failed = await self.nodes.remove_all()
            await self.delete_logs()
            for topic_id in ids:
                if topic_id not in failed and topic_id not in self._added:
                    del self._topics[topic_id]
            await confirm_deleted(self._store, self._node_id, ids)
            pause_s = min(2 * pause_s, LONGEST_PAUSE_S) if failed else PAUSE_S

    def close(self) -> None:
        """Stops finishing deletions, also those that are added later: the next start finishes them."""
        self._is_closed = True
        if self._finishing is not None:
            self._finishing.cancel()
