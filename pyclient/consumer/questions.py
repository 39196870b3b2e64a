"""Answers an application's questions about topics and about the first and last offsets. Runs on the loop."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Mapping

from pyclient.consumer.offsets.list_offsets import OffsetLookup
from pyclient.consumer.types import OffsetAndTimestamp
from pyclient.core.client import Client
from pyclient.core.cluster import PartitionInfo
from pyclient.topic_partition import TopicPartition, partitions_of


class Questions:
    """Answers questions for one consumer, whatever its subscription. ``start`` connects."""

    def __init__(
        self, client: Client, lookup: OffsetLookup, start: Callable[[float | None], Awaitable[None]]
    ) -> None:
        self._client = client
        self._lookup = lookup
        self._start = start

    async def edges(
        self, partitions: Collection[TopicPartition], time: int, timeout: float | None = None
    ) -> dict[TopicPartition, int]:
        """Returns the offsets where the partitions begin or end."""
        found = await self._find(dict.fromkeys(partitions_of(partitions), time), timeout)
        return {tp: 0 if row is None else row.offset for tp, row in found.items()}

    async def offsets(
        self, times: Mapping[TopicPartition, int], timeout: float | None = None
    ) -> dict[TopicPartition, OffsetAndTimestamp | None]:
        """Returns the first offsets at or after these times, in ``timeout`` seconds (default.api.timeout.ms). Raises
        ValueError for a negative time, which has another meaning in the protocol, and TypeError for another type.
        """
        for tp, time in times.items():
            if not hasattr(time, "__index__"):
                raise TypeError(f"{tp}: a time must be an int, in ms since 1970, not {time!r}")
            if time < 0:
                raise ValueError(f"{tp}: a time in ms since 1970 must not be below 0, as {time} is")
        return await self._find(times, timeout)

    async def _find(
        self, times: Mapping[TopicPartition, int], timeout: float | None
    ) -> dict[TopicPartition, OffsetAndTimestamp | None]:
        deadline = self._client.deadline(timeout)
        await self._start(timeout)
        return await self._lookup.find(times, deadline)

    async def partitions_for(self, topic: str) -> list[PartitionInfo]:
        """Returns the partitions of a topic. Raises UnknownTopicOrPartition."""
        await self._client.metadata([topic])
        return list(self._client.cluster.partitions(topic) or ())

    async def list_topics(self) -> dict[str, list[PartitionInfo]]:
        """Returns all topics with their partitions."""
        await self._client.all_topics()
        cluster = self._client.cluster
        return {topic: list(cluster.partitions(topic) or ()) for topic in cluster.topics()}
