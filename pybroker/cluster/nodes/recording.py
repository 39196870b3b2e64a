"""Writes a controller's steps: the change and its journal entry, in one ``multi``.

The ``multi`` fails at its first operation if the term is over (the epoch's node has another version). It fails at the
journal entry if another broker has written the next version. In both cases this broker is no longer the controller. If
it fails between the two, at a node of the change itself, the term goes on and the image is wrong (``Differs``). Only
the controller changes those nodes in a term, so the image was wrong before (``corrections``).

If the connection broke and the outcome of a write is unknown, the write is repeated. It can succeed only once, and its
journal entry tells whether it was ours. If the outcome stays unknown, the term ends, because nothing can be planned on
an image that may lack the change. The next term finds the change in the journal. But a step without a journal entry
changes no image. So the term goes on, and the caller reads the nodes again (``Differs``, UnknownServerError).
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Iterable, Sequence

from pybroker.cluster.decisions.plan import Step
from pybroker.cluster.metadata import journal, znodes
from pybroker.cluster.metadata.image import MetadataImage
from pybroker.cluster.nodes.controller_election import Leadership
from pybroker.cluster.nodes.loading import load_versions
from pybroker.store.interface import (
    BadVersion,
    ConnectionLoss,
    CoordinationError,
    CoordinationStore,
    Create,
    Delete,
    NodeExists,
    NoNode,
    NotEmpty,
    Operation,
    SessionExpired,
    SessionState,
)
from pyclient.protocol import errors

PRUNED_PER_STEP = 10
PAUSE_S = 0.05

_log = logging.getLogger(__name__)


class Fenced(errors.NotController):
    """Raised if the term is over: another controller has written, or the outcome of this one's change is unknown."""


class Differs(errors.UnknownServerError):
    """Raised if nodes differ from the image on which a change is based. Nothing was written, and the term goes on."""


class Recorder:
    """Writes the steps of one term."""

    def __init__(
        self, store: CoordinationStore, leadership: Leadership, versions: Iterable[int]
    ) -> None:
        self._store = store
        self.leadership = leadership
        self._versions = deque(versions)

    @classmethod
    async def open(cls, store: CoordinationStore, leadership: Leadership) -> Recorder:
        """Returns the recorder of a term that has begun. Reads first which journal entries exist."""
        return cls(store, leadership, await load_versions(store))

    async def write(self, step: Step, image: MetadataImage) -> None:
        """Writes one step, computed from ``image``, and its journal entry in one transaction.

        Raises Fenced, Differs, NotController, UnknownServerError.
        """
        if not step.delta:
            await self._perform(step.operations, None)
            return
        version = image.version + 1
        data = journal.encode(step.delta, image, self.leadership.epoch)
        entry = Create(znodes.journal_path(version), data)
        old = self._too_old()
        await self._perform(step.operations, entry, old)
        for _ in old:
            self._versions.popleft()
        self._versions.append(version)

    def _too_old(self) -> list[Operation]:
        count = min(len(self._versions) - journal.KEPT, PRUNED_PER_STEP)
        return [Delete(znodes.journal_path(self._versions[n])) for n in range(max(0, count))]

    async def _perform(
        self, change: Sequence[Operation], entry: Create | None, old: Sequence[Operation] = ()
    ) -> None:
        entries = [] if entry is None else [entry]
        try:
            await self._attempt([self.leadership.check(), *change, *entries, *old], entry)
        except (BadVersion, NodeExists, NoNode, NotEmpty) as error:
            if 0 < error.index <= len(change):
                raise Differs(f"the coordination store differs from the metadata: {error}") from error
            raise Fenced(f"another controller has changed the metadata: {error}") from error
        except ConnectionLoss as error:
            if change and entry is None:
                raise errors.UnknownServerError(f"coordination store: {error}") from error
            raise Fenced(f"it is unknown whether a change was written: {error}") from error
        except SessionExpired as error:
            raise errors.NotController(f"the controller's session has expired: {error}") from error
        except CoordinationError as error:
            _log.error("the coordination store refused a change: %s", error)
            raise errors.UnknownServerError(f"coordination store: {error}") from error

    async def _attempt(self, operations: list[Operation], entry: Create | None) -> None:
        try:
            await self._store.multi(operations)
            return
        except ConnectionLoss as error:
            _log.warning("it is unknown whether a change was written, trying again: %s", error)
        await self._reconnected()
        try:
            await self._store.multi(operations)
        except (BadVersion, NodeExists, NoNode):
            if entry is None or not await self._is_there(entry):
                raise

    async def _reconnected(self) -> None:
        await asyncio.sleep(PAUSE_S)
        while self._store.session.state is SessionState.SUSPENDED:
            await asyncio.sleep(PAUSE_S)

    async def _is_there(self, entry: Create) -> bool:
        [found] = await self._store.get_many([entry.path])
        return found is not None and found[0] == entry.data
