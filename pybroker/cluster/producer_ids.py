"""Producer ids: unique in the cluster for ever, taken from the store in blocks of a thousand.

A broker claims a block by a conditional write of the block's last id. When it stops, the unused ids of its block are
lost. That does no harm: there are 2^63 ids.

A store that was lost, or restored from a backup, would return ids again that logs already have. The batches of a new
producer would then look like duplicates of an old producer's batches: acknowledged, but not written. So before each
broker registers, it moves the store beyond the ids of its own logs and blocks (``skip``).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable
from typing import Any, Final

from pybroker.cluster.metadata import znodes
from pybroker.cluster.nodes.loading import NOT_OURS
from pybroker.store.interface import BadVersion, CoordinationError, CoordinationStore, NodeExists
from pyclient.protocol import errors

BLOCK_SIZE: Final = 1000
MAX_PRODUCER_ID: Final = (1 << 63) - 1
MAX_KNOWN_ID: Final = 1 << 62
"""The highest id that is skipped. A client has made up any higher id in a log; to skip it would leave few ids."""

logger = logging.getLogger(__name__)


class ProducerIds:
    """Assigns ids from one broker's blocks."""

    def __init__(self, store: CoordinationStore, node_id: int) -> None:
        self._store = store
        self._node_id = node_id
        self._next = 0
        self._end = 0
        self._claiming = asyncio.Lock()

    async def next(self) -> int:
        """Returns an id that was never returned before.

        Raises CoordinatorNotAvailable while the store cannot be reached, UnknownServerError when no ids are left.
        """
        async with self._claiming:
            if self._next == self._end:
                try:
                    self._next = await self._claim()
                except CoordinationError as error:
                    raise errors.CoordinatorNotAvailable(f"could not get a block of producer ids: {error}") from error
                self._end = self._next + BLOCK_SIZE
            self._next += 1
            return self._next - 1

    async def skip(self, known: Iterable[int]) -> None:
        """Makes sure that no broker assigns ids up to the highest of ``known``, which are in logs. Raises
        CoordinationError.
        """
        highest = max((id for id in known if id <= MAX_KNOWN_ID), default=-1)
        highest = max(highest, self._end - 1)
        while True:
            found = await self._last_block()
            try:
                last = _last_id(found)
            except NOT_OURS as error:
                logger.error("%s is malformed: %s", znodes.PRODUCER_ID_BLOCK, error)
                return
            if highest <= last or await self._write(found, last + 1, highest):
                break
        if highest > last:
            self._next = self._end
            text = "the store knows producer ids up to %d, but logs have ids up to %d: the store was lost or is old"
            logger.warning(text, last, highest)

    async def _claim(self) -> int:
        while True:
            found = await self._last_block()
            first = _last_id(found) + 1
            last = first + BLOCK_SIZE - 1
            if last > MAX_PRODUCER_ID:
                raise errors.UnknownServerError("there are no producer ids left")
            if await self._write(found, first, last):
                return first

    async def _last_block(self) -> Any:
        [found] = await self._store.get_many([znodes.PRODUCER_ID_BLOCK])
        return found

    async def _write(self, found: Any, first: int, last: int) -> bool:
        """Writes the block; returns False if another broker was faster."""
        data = znodes.encode_producer_id_block(self._node_id, first, last)
        try:
            if found:
                await self._store.set(znodes.PRODUCER_ID_BLOCK, data, found[1].version)
            else:
                await self._store.create(znodes.PRODUCER_ID_BLOCK, data)
        except (BadVersion, NodeExists):
            return False
        return True


def _last_id(found: Any) -> int:
    """Returns the last assigned id, -1 if there is none."""
    return znodes.decode_producer_id_block(found[0]) if found else -1
