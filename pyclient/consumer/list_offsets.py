"""Offsets by time, from the leaders (ListOffsets)."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

from pyclient.consumer.types import OffsetAndTimestamp
from pyclient.core.client import Client
from pyclient.errors import KafkaError, LeaderNotAvailable, check
from pyclient.protocol import ListOffsets
from pyclient.topic_partition import TopicPartition

Found = OffsetAndTimestamp | None


class OffsetLookup:
    """Asks each leader once for all of its partitions, again for those that failed retriably."""

    def __init__(self, client: Client, isolation: int, timeout: float) -> None:
        self._client = client
        self._isolation = isolation
        self._timeout = timeout

    async def find(self, times: Mapping[TopicPartition, int]) -> dict[TopicPartition, Found]:
        """For each partition the first offset whose record is at or after the time (ms), or EARLIEST,
        LATEST; None where there is none. Raises the last error when the time is over.
        """
        left, found = dict(times), dict[TopicPartition, Found]()

        async def attempt() -> None:
            await self._client.metadata({tp.topic for tp in left}, timeout=self._timeout)
            parts = [self._ask(node, rows) for node, rows in self._by_leader(left).items()]
            errors: list[KafkaError] = []
            for part in await asyncio.gather(*parts, return_exceptions=True):
                if isinstance(part, KafkaError):
                    errors.append(part)
                elif isinstance(part, BaseException):
                    raise part
                else:
                    errors.extend(self._sort(part, left, found))
            if errors:
                raise min(errors, key=lambda error: error.retriable)

        await self._client.retrying(attempt, deadline=self._client.clock() + self._timeout)
        return found

    def _by_leader(self, times: Mapping[TopicPartition, int]) -> dict[int, dict[TopicPartition, int]]:
        nodes: dict[int, dict[TopicPartition, int]] = {}
        for tp, time in times.items():
            leader = self._client.cluster.leader(tp)
            if leader is None:
                raise LeaderNotAvailable(f"{tp} has no leader now")
            nodes.setdefault(leader[0], {})[tp] = time
        return nodes

    async def _ask(self, node: int, times: dict[TopicPartition, int]) -> ListOffsets.Response:
        topics: dict[str, ListOffsets.Request.ListOffsetsTopic] = {}
        for tp, time in times.items():
            topic = topics.setdefault(tp.topic, ListOffsets.Request.ListOffsetsTopic(name=tp.topic))
            leader = self._client.cluster.leader(tp)
            row = ListOffsets.Request.ListOffsetsPartition(
                partition_index=tp.partition,
                current_leader_epoch=-1 if leader is None else leader[1],
                timestamp=time,
            )
            topic.partitions.append(row)
        request = ListOffsets.Request(
            replica_id=-1,
            isolation_level=self._isolation,
            topics=list(topics.values()),
            timeout_ms=int(self._timeout * 1000),
        )
        response: ListOffsets.Response = await self._client.send(node, ListOffsets, request)
        return response

    def _sort(
        self, response: Any, left: dict[TopicPartition, int], found: dict[TopicPartition, Found]
    ) -> list[KafkaError]:
        """Moves what was answered from ``left`` to ``found``; the errors of the others."""
        errors = []
        for topic in response.topics:
            for row in topic.partitions:
                tp = TopicPartition(topic.name, row.partition_index)
                try:
                    check(row.error_code)
                except KafkaError as error:
                    errors.append(error)
                    continue
                left.pop(tp, None)
                known = row.offset >= 0
                found[tp] = OffsetAndTimestamp(row.offset, row.timestamp, row.leader_epoch) if known else None
        return errors
