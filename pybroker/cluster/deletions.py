"""Finishes the deletions of topics after their answers.

The controller removes the topics' nodes. Each broker deletes its logs, and then leaves the notes.

A deletion has five steps. A crash after one of them leaves what the next step removes:

| step                                                     | who does it      | who goes on after a crash            |
|----------------------------------------------------------|------------------|--------------------------------------|
| 1. A note, and the journal's entry, are written.         | the controller   | each reader of the entry or the note |
|    A mark below the note says that nodes remain.         |                  |                                      |
| 2. Nodes are removed, the last ones with the mark.       | the controller   | the next controller, by the mark     |
| 3. Logs are renamed to -delete.                          | each with logs   | its next start, by the note          |
| 4. A broker removes itself from the note.                | each with logs   | its next start, by the note          |
| 5. The note without brokers and mark is removed.         | who made it so   | the next controller                  |

Before step 1 nothing has happened. The client has its answer after it. No broker waits for another one.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Iterable
from typing import Final

from pybroker.cluster.decisions.plan import Removal, Step
from pybroker.cluster.decisions.topic_steps import removal_steps
from pybroker.cluster.metadata import znodes
from pybroker.cluster.metadata.image import MetadataImage, TopicImage
from pybroker.cluster.nodes.deletion_notes import confirm_deleted
from pybroker.cluster.nodes.loading import Deleted, load_marked, load_nodes
from pybroker.cluster.nodes.recording import Differs, Recorder
from pybroker.store.interface import CoordinationError, CoordinationStore
from pyclient.protocol import errors

PAUSE_S: Final = 0.1
"""How long deletions are gathered before they are finished together."""
LONGEST_PAUSE_S: Final = 5.0
"""The longest pause before the controller tries again to remove nodes. Each pause is twice as long as the last one."""


async def _no_logs() -> None:
    return


class Deletions:
    """The deleted topics of which this broker may still have logs."""

    def __init__(
        self, store: CoordinationStore, node_id: int, remove_nodes: Callable[[], Awaitable[Collection[bytes]]]
    ) -> None:
        """``remove_nodes()`` removes all nodes of deleted topics, if this broker is the controller. It returns the ids
        of the topics for which that failed.
        """
        self._store = store
        self._remove_nodes = remove_nodes
        self._node_id = node_id
        self.delete_logs: Callable[[], Awaitable[object]] = _no_logs
        """Deletes this broker's logs of all topics that its published metadata have lost."""
        self._topics: dict[bytes, str] = {}
        self._added = set[bytes]()
        """The topics that were added since a round began: that round may have come too early for them."""
        self._finishing: asyncio.Task[None] | None = None
        self._is_closed = False

    def add(self, topics: Iterable[TopicImage | Deleted]) -> None:
        """Adds topics that the published metadata have lost by a deletion; they are finished soon."""
        for topic in topics:
            self._topics[topic.id] = topic.name
            self._added.add(topic.id)
        if self._topics and not self._is_closed and (self._finishing is None or self._finishing.done()):
            self._finishing = asyncio.ensure_future(self._finish())

    async def free(self, names: Iterable[str]) -> None:
        """Returns when no logs of deleted topics have one of these names."""
        if self._topics and not set(names).isdisjoint(self._topics.values()):
            await self.delete_logs()

    async def _finish(self) -> None:
        pause_s = PAUSE_S
        while self._topics:
            await asyncio.sleep(pause_s)
            ids = list(self._topics)
            self._added.clear()
            failed = await self._remove_nodes()
            await self.delete_logs()
            for topic_id in ids:
                if topic_id not in failed and topic_id not in self._added:
                    del self._topics[topic_id]
            await confirm_deleted(self._store, self._node_id, ids)
            pause_s = min(2 * pause_s, LONGEST_PAUSE_S) if failed else PAUSE_S

    def close(self) -> None:
        """Finishes nothing further, also of topics that are added later: the next start does."""
        self._is_closed = True
        if self._finishing is not None:
            self._finishing.cancel()


class Removals:
    """The nodes of deleted topics that the controller still has to remove.

    They are known by the steps of a plan. If one of the steps fails, or belongs to an earlier term, the nodes are read.
    """

    def __init__(self, store: CoordinationStore) -> None:
        self._store = store
        self._left: dict[bytes, Removal] = {}

    def add(self, removals: Iterable[Removal]) -> None:
        """Adds what a plan has left for later."""
        for removal in removals:
            self._left.setdefault(removal.topic_id, removal)

    async def look(self, deleted: Iterable[Deleted]) -> None:
        """Forgets all steps, and takes up what is left of the ``deleted`` topics."""
        marked = await load_marked(self._store, deleted)
        self._left = {topic.id: Removal(topic.id, topic.name, []) for topic in marked}

    def __contains__(self, topic_id: bytes) -> bool:
        return topic_id in self._left

    def of(self, names: Collection[str]) -> list[bytes]:
        """Returns the ids of the topics with one of these names."""
        return [topic_id for topic_id, removal in self._left.items() if removal.name in names]

    def all(self) -> list[bytes]:
        """Returns the ids of all topics."""
        return list(self._left)

    async def remove_some(self, topic_id: bytes, recorder: Recorder, image: MetadataImage) -> None:
        """Performs the next step of a topic. If the nodes differ from what it expects, it reads them and tries again.

        Raises the errors of ``Recorder.write``. The next call then reads the nodes.
        """
        try:
            await self._next(self._left[topic_id], recorder, image)
        except Differs:
            await self._next(self._left[topic_id], recorder, image)

    async def _next(self, removal: Removal, recorder: Recorder, image: MetadataImage) -> None:
        steps = removal.steps or await self._found(removal, image)
        first, rest = steps[:1], steps[1:]
        removal.steps.clear()
        for step in first:
            await recorder.write(step, image)
        removal.steps.extend(rest)
        if not rest:
            del self._left[removal.topic_id]

    async def _found(self, removal: Removal, image: MetadataImage) -> list[Step]:
        topic_id, name, _ = removal
        try:
            [mark] = await self._store.get_many([znodes.remains_path(topic_id)])
            if mark is None:
                return []
            is_free = name not in image.topics
            return removal_steps(topic_id, name, await load_nodes(self._store, name, topic_id) if is_free else [])
        except CoordinationError as error:
            raise errors.UnknownServerError(f"coordination store: {error}") from error
