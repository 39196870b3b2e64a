"""Producer ids: unique in the cluster for ever, taken from the store in blocks of a thousand.

A block is claimed by a conditional write of its last id; what a broker had left of a block when it
stopped is lost, which is fine: there are 2^63.
"""

from __future__ import annotations

import asyncio
from typing import Final

from pybroker.cluster import znodes
from pybroker.coordination.interface import BadVersion, CoordinationError, CoordinationStore, NodeExists
from pyclient.protocol import errors

BLOCK_SIZE: Final = 1000
MAX_PRODUCER_ID: Final = (1 << 63) - 1


class ProducerIds:
    """Gives out the ids of one broker's blocks."""

    def __init__(self, store: CoordinationStore, node_id: int) -> None:
        self._store = store
        self._node_id = node_id
        self._next = 0
        self._end = 0
        self._claiming = asyncio.Lock()

    async def next(self) -> int:
        """An id that was never given out before.

        Raises CoordinatorNotAvailable while the store cannot be reached, UnknownServerError when none are left.
        """
        async with self._claiming:
            if self._next == self._end:
                try:
                    self._next = await self._claim()
                except CoordinationError as error:
                    raise errors.CoordinatorNotAvailable(f"no block of producer ids can be had: {error}") from error
                self._end = self._next + BLOCK_SIZE
            self._next += 1
            return self._next - 1

    async def _claim(self) -> int:
        while True:
            [found] = await self._store.get_many([znodes.PRODUCER_ID_BLOCK])
            first = znodes.decode_producer_id_block(found[0]) + 1 if found else 0
            last = first + BLOCK_SIZE - 1
            if last > MAX_PRODUCER_ID:
                raise errors.UnknownServerError("every producer id has been given out")
            data = znodes.encode_producer_id_block(self._node_id, first, last)
            try:
                if found:
                    await self._store.set(znodes.PRODUCER_ID_BLOCK, data, found[1].version)
                else:
                    await self._store.create(znodes.PRODUCER_ID_BLOCK, data)
                return first
            except (BadVersion, NodeExists):
                continue
