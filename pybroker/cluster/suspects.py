"""Brokers that may have died: a connection to them broke a moment ago, and the metadata do not say so yet.

When a broker is killed its connections end in one moment, those to clients and those to brokers. A client then asks
at once who leads now, and, told what was, asks again only much later (librdkafka: when its second is full). So whoever
asks for what a suspect leads is answered when it is known what becomes of it, or after ``PATIENCE_MS``; where a
coordination store needs a session time-out to notice, that is all that it costs.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterable
from typing import Final

from pybroker.clock import Clock
from pybroker.cluster.image import MetadataImage, PartitionImage
from pybroker.cluster.metadata_cache import MetadataCache

PATIENCE_MS: Final = 300


class Suspects:
    """Ids of brokers, each for a moment."""

    def __init__(self, metadata: MetadataCache, clock: Clock) -> None:
        self._metadata = metadata
        self._clock = clock
        self._until_ms: dict[tuple[int, int], int] = {}
        """By id and epoch of the registration."""

    def accuse(self, node_id: int) -> None:
        """A connection to the broker has ended."""
        broker = self._metadata.image.brokers.get(node_id)
        if broker is not None:
            self._until_ms[node_id, broker.epoch] = self._clock.monotonic_ms() + PATIENCE_MS

    def lead(self, partitions: Iterable[PartitionImage]) -> bool:
        """Whether one of the partitions is led by a suspect."""
        if not self._until_ms:
            return False
        self._forget()
        ids = {id for id, _ in self._until_ms}
        return any(partition.leader in ids for partition in partitions)

    def _forget(self) -> None:
        """Those whose time is over, and those of whom the metadata have heard."""
        now_ms, image = self._clock.monotonic_ms(), self._metadata.image
        for suspect, until_ms in tuple(self._until_ms.items()):
            if until_ms <= now_ms or not _counts(image, suspect):
                del self._until_ms[suspect]

    def settled(self) -> asyncio.Future[None]:
        """Done when the metadata say what has become of all suspects, or when their time is over."""
        return asyncio.ensure_future(self._settled())

    async def _settled(self) -> None:
        suspects, until_ms = tuple(self._until_ms), max(self._until_ms.values(), default=0)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(max(0, until_ms - self._clock.monotonic_ms()) / 1000):
                await self._metadata.until(lambda image: not any(_counts(image, each) for each in suspects))


def _counts(image: MetadataImage, suspect: tuple[int, int]) -> bool:
    """Whether the metadata have this registration still."""
    broker = image.brokers.get(suspect[0])
    return broker is not None and broker.epoch == suspect[1]
