"""The nodes of deleted topics that the controller still has to remove (step 2 of ``deletions``).

The steps of a plan tell which nodes remain. If a step fails, or belongs to an earlier term, the nodes are read.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Collection, Iterable

from pybroker.cluster.decisions.plan import Removal, Step
from pybroker.cluster.decisions.topic_steps import removal_steps
from pybroker.cluster.metadata import znodes
from pybroker.cluster.metadata_cache import MetadataCache
from pybroker.cluster.nodes.loading import Deleted, load_marked, load_nodes
from pybroker.cluster.nodes.recording import Differs
from pybroker.cluster.term import Term
from pybroker.store.interface import CoordinationError, CoordinationStore
from pyclient.protocol import errors
from pyclient.protocol.errors import KafkaError

_log = logging.getLogger(__name__)


class RemainingNodes:
    """Removes the nodes, in steps of the controller's ``term``. Without a term, it removes nothing."""

    def __init__(self, store: CoordinationStore, cache: MetadataCache, term: Term, lock: asyncio.Lock) -> None:
        """``lock`` is the lock that serialises the controller's changes."""
        self._store = store
        self._cache = cache
        self._term = term
        self._lock = lock
        self._left: dict[bytes, Removal] = {}

    def __contains__(self, topic_id: bytes) -> bool:
        return topic_id in self._left

    def add(self, removals: Iterable[Removal]) -> None:
        """Adds the removals that a plan has left for later."""
        for removal in removals:
            self._left.setdefault(removal.topic_id, removal)

    async def look(self, deleted: Iterable[Deleted]) -> None:
        """Forgets all steps. The next removal reads which nodes of the ``deleted`` topics remain."""
        marked = await load_marked(self._store, deleted)
        self._left = {topic.id: Removal(topic.id, topic.name, []) for topic in marked}

    async def remove_of(self, names: Collection[str]) -> None:
        """Removes all nodes of the topics with these names; the caller holds the lock. Raises the errors of a write."""
        for topic_id in [topic_id for topic_id, removal in self._left.items() if removal.name in names]:
            while await self._remove_some(topic_id):
                pass

    async def remove_all(self) -> set[bytes]:
        """Removes all nodes; other changes may come between two steps. Returns the topics for which that failed."""
        failed = set[bytes]()
        for topic_id in list(self._left):
            try:
                while await self._remove_some_in_turn(topic_id):
                    pass
            except KafkaError as error:
                failed.add(topic_id)
                _log.error("nodes of a deleted topic could not be removed: %s", error)
        return failed

    async def _remove_some_in_turn(self, topic_id: bytes) -> bool:
        async with self._lock:
            return await self._remove_some(topic_id)

    async def _remove_some(self, topic_id: bytes) -> bool:
        """Performs the next step of a topic; returns False if none is left, or if the term is over.

        If the nodes differ from what the step expects, it reads them and tries again. If that fails too, the next call
        reads the nodes.
        """
        if not self._term.is_on or topic_id not in self._left:
            return False
        try:
            await self._next(self._left[topic_id])
        except Differs:
            await self._next(self._left[topic_id])
        return True

    async def _next(self, removal: Removal) -> None:
        steps = removal.steps or await self._found(removal)
        first, rest = steps[:1], steps[1:]
        removal.steps.clear()
        for step in first:
            await self._term.write(step, self._cache.image)
        removal.steps.extend(rest)
        if not rest:
            del self._left[removal.topic_id]

    async def _found(self, removal: Removal) -> list[Step]:
        """Reads which nodes remain, and returns the steps that remove them."""
        topic_id, name, _ = removal
        try:
            [mark] = await self._store.get_many([znodes.remains_path(topic_id)])
            if mark is None:
                return []
            is_free = name not in self._cache.image.topics
            return removal_steps(topic_id, name, await load_nodes(self._store, name, topic_id) if is_free else [])
        except CoordinationError as error:
            raise errors.UnknownServerError(f"coordination store: {error}") from error
