"""Looks up offsets by time at the leaders (ListOffsets)."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Mapping
from typing import Any, Final

from pyclient.consumer.errors import not_answered
from pyclient.consumer.types import OffsetAndTimestamp
from pyclient.core.client import Client
from pyclient.core.deadline import Deadline
from pyclient.core.reports.rights import Rights
from pyclient.errors import KafkaError, LeaderNotAvailable, of_code
from pyclient.protocol import ListOffsets
from pyclient.topic_partition import TopicPartition

Found = OffsetAndTimestamp | None
LOOK_S: Final = 1.0
"""Seconds in which the metadata must show a partition that was added just now."""


class OffsetLookup:
    """Asks each leader once for all of its partitions, and again for those with a retriable error."""

    def __init__(self, client: Client, isolation: int, timeout: float) -> None:
        """``timeout`` is the number of seconds that a leader may take."""
        self._client = client
        self._isolation = isolation
        self._timeout = timeout

    async def find(self, times: Mapping[TopicPartition, int], deadline: Deadline) -> dict[TopicPartition, Found]:
        """Returns for each partition the offset of the first record at or after its time in ms; None if there is none.
        EARLIEST and LATEST stand for the log's start and end. Raises the last error at ``deadline``, a time of the
        client's clock.
        """
        left, found = dict(times), dict[TopicPartition, Found]()
        await self._check_there(times, deadline)

        async def attempt() -> None:
            await self._client.known({tp.topic for tp in left}, deadline)
            some, errors = await self.once(left)
            found.update(some)
            for tp in some:
                del left[tp]
            if errors:
                raise min(errors.values(), key=lambda error: error.retriable)

        await self._client.retrying(attempt, deadline=deadline)
        return found

    async def _check_there(self, partitions: Collection[TopicPartition], deadline: Deadline) -> None:
        """Raises UnknownTopicOrPartition for a partition that neither the known metadata nor fresh ones have."""
        client = self._client

        async def attempt() -> None:
            for tp in partitions:
                if client.cluster.partition(tp) is None:
                    raise client.why_unknown(tp)

        left = deadline - client.clock()
        await client.metadata({tp.topic for tp in partitions}, timeout=left, setting=deadline.setting)
        await client.retrying(attempt, deadline=min(deadline, client.clock() + LOOK_S))

    async def once(
        self, times: Mapping[TopicPartition, int]
    ) -> tuple[dict[TopicPartition, Found], dict[TopicPartition, KafkaError]]:
        """Like ``find``, but makes one attempt and returns the errors of the partitions that failed."""
        found: dict[TopicPartition, Found] = {}
        errors: dict[TopicPartition, KafkaError] = {}
        nodes: dict[int, dict[TopicPartition, int]] = {}
        for tp, time in times.items():
            leader = self._client.cluster.leader(tp)
            if leader is None:
                errors[tp] = LeaderNotAvailable(f"{tp} has no leader now")
            else:
                nodes.setdefault(leader[0], {})[tp] = time
        parts = await asyncio.gather(*(self._ask(*each) for each in nodes.items()), return_exceptions=True)
        for rows, part in zip(nodes.values(), parts, strict=True):
            if isinstance(part, KafkaError):
                errors |= dict.fromkeys(rows, part)
            elif isinstance(part, BaseException):
                raise part
            else:
                _sort(self._client.rights, part, found, errors)
                errors |= {tp: not_answered(tp) for tp in rows if tp not in found and tp not in errors}
        return found, errors

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
        response: ListOffsets.Response = await self._client.send(self._client.nodes.aside(node), ListOffsets, request)
        return response


def _sort(
    rights: Rights, response: Any, found: dict[TopicPartition, Found], errors: dict[TopicPartition, KafkaError]
) -> None:
    for topic in response.topics:
        for row in topic.partitions:
            tp = TopicPartition(topic.name, row.partition_index)
            if error := of_code(row.error_code):
                errors[tp] = rights.told(type(error)(f"{tp}: {error}"), topic=tp.topic)
            else:
                known = row.offset >= 0
                found[tp] = OffsetAndTimestamp(row.offset, row.timestamp, row.leader_epoch) if known else None
