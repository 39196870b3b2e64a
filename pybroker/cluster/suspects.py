"""Brokers that may have died: a connection to them broke a moment ago, and the metadata do not show it yet.

When a broker is killed, its connections to clients and brokers end at the same moment. A client then asks at once for
the new leader. If it gets the old one, it asks again only much later (librdkafka: once a second). So Metadata about a
suspect's partitions is answered only when their new leaders are known, or after ``PATIENCE_MS``. If the coordination
store notices the death only by a session timeout, the client waits no longer than that.

For ``GRACE_MS``, clients still get the address of a broker that has gone, although it leads nothing. If a broker is
missing, librdkafka ends its thread for that broker. The ending thread delays partitions that have just moved away from
the broker until the next full second.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterable
from typing import Final, NamedTuple

from pybroker.clock import Clock
from pybroker.cluster.metadata.image import BrokerRegistration, MetadataImage, PartitionImage
from pybroker.cluster.metadata_cache import MetadataCache

PATIENCE_MS: Final = 300
GRACE_MS: Final = 2_000


class Accused(NamedTuple):
    """A broker's registration when a connection to it ended, and when that was."""

    broker: BrokerRegistration
    since_ms: int

    def counts(self, image: MetadataImage) -> bool:
        """Returns whether the metadata still have this registration."""
        broker = image.brokers.get(self.broker.id)
        return broker is not None and broker.epoch == self.broker.epoch


class Suspects:
    """The brokers to which a connection ended recently."""

    def __init__(self, metadata: MetadataCache, clock: Clock) -> None:
        self._metadata = metadata
        self._clock = clock
        self._accused: dict[int, Accused] = {}

    def accuse(self, node_id: int) -> None:
        """Notes that a connection to the broker has ended."""
        broker = self._metadata.image.brokers.get(node_id)
        if broker is not None:
            self._accused[node_id] = Accused(broker, self._clock.monotonic_ms())

    def _for(self, limit_ms: int) -> list[Accused]:
        """Returns the brokers that were reported within this time."""
        since_ms = self._clock.monotonic_ms() - limit_ms
        return [each for each in self._accused.values() if each.since_ms > since_ms]

    def _standing(self) -> list[Accused]:
        """Returns the brokers whose state is not known yet."""
        return [each for each in self._for(PATIENCE_MS) if each.counts(self._metadata.image)]

    def lead(self, partitions: Iterable[PartitionImage]) -> bool:
        """Returns whether a suspect leads any of the partitions."""
        if not self._accused:
            return False
        ids = {each.broker.id for each in self._standing()}
        return bool(ids) and any(partition.leader in ids for partition in partitions)

    def settled(self) -> asyncio.Future[None]:
        """Returns a future that is done when the metadata show the state of all suspects, or when their time is over.
        """
        return asyncio.ensure_future(self._settled())

    async def _settled(self) -> None:
        standing = self._standing()
        left_ms = max((each.since_ms for each in standing), default=0) + PATIENCE_MS - self._clock.monotonic_ms()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(max(0, left_ms) / 1000):
                await self._metadata.until(lambda image: not any(each.counts(image) for each in standing))

    def departed(self) -> list[BrokerRegistration]:
        """Returns brokers that left so recently that clients should still get their address."""
        if not self._accused:
            return []
        recent = self._for(GRACE_MS)
        self._accused = {each.broker.id: each for each in recent}
        return [each.broker for each in recent if each.broker.id not in self._metadata.image.brokers]
