"""A broker without sockets whose group coordinator works on real logs."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from cy.batch import Builder
from pybroker.cluster.metadata.image import OFFSETS_TOPIC, MetadataDelta
from pybroker.coordinator.group.joining import Caller
from pybroker.coordinator.group.shard import OffsetsAsked
from pybroker.coordinator.groups import GroupCoordinator
from pybroker.replication.tests import harness
from pybroker.tests.waiting import until_async
from pybroker.topic_partition import TopicPartition
from pyclient.protocol import ZERO_UUID, JoinGroup, OffsetCommit

PARTITIONS = 3
SETTINGS = {"group.initial.rebalance.delay.ms": "0", "offsets.commit.timeout.ms": "60000"}
HASTY = {"offsets.commit.timeout.ms": "50"}


class Node(harness.Node):
    """Broker 1 with its groups."""

    def __init__(self, root: Path, **settings: str) -> None:
        super().__init__(root, settings=SETTINGS | settings)

    def start(self) -> None:
        super().start()
        self.groups = self.run(self._groups())

    async def _groups(self) -> GroupCoordinator:
        groups = GroupCoordinator(self.config, self.replicas, self.metadata, self.clock)
        self.replicas.on_leadership(groups.runtime.on_leadership)
        self.metadata.add_listener(groups.on_metadata)
        for tp, epoch in self.led:
            groups.runtime.on_leadership(tp, epoch)
        return groups

    def stop(self) -> None:
        self.groups.close()
        self.turn()
        super().stop()

    def offsets_topic(self, **options: Any) -> None:
        """Makes or changes ``__consumer_offsets``."""
        self.create(OFFSETS_TOPIC, PARTITIONS, **options)

    def publish_without(self, topic: str) -> None:
        """Removes the topic from the metadata without calling listeners."""
        gone = {topic: self.metadata.image.topics[topic]}
        self.metadata.image = self.metadata.image.apply(MetadataDelta(deleted=gone))

    def pass_ms(self, milliseconds: int) -> None:
        """Advances the clock of the groups."""
        self.clock.advance(milliseconds)
        for hosted in self.groups.runtime._hosted.values():
            self.groups.runtime._ring(hosted)

    def task(self, work: Any) -> asyncio.Task[Any]:
        """Starts ``work``, and lets the loop run a little."""
        task = self.loop.create_task(work)
        for _ in range(5):
            self.turn()
        return task

    def until_told(self, ask: Callable[[], Awaitable[Any]], holds: Callable[[Any], bool]) -> None:
        """Repeats the request until the answer satisfies a condition."""

        async def is_told() -> bool:
            return holds(await ask())

        self.run(until_async(is_told))

    def commit(
        self, offset: int, group: str = "g", partition: int = 0, topic_id: bytes = ZERO_UUID
    ) -> Any:
        """Commits an offset without a member id, as a coroutine."""
        topic, asked = (
            OffsetCommit.Request.OffsetCommitRequestTopic,
            OffsetCommit.Request.OffsetCommitRequestPartition,
        )
        partitions = [asked(partition_index=partition, committed_offset=offset)]
        request = OffsetCommit.Request(
            group_id=group, topics=[topic(name="t", topic_id=topic_id, partitions=partitions)]
        )
        return self.groups.offset_commit(request, 8)

    def many(self, count: int) -> OffsetCommit.Request:
        """Returns a commit of so many partitions."""
        topic, asked = (
            OffsetCommit.Request.OffsetCommitRequestTopic,
            OffsetCommit.Request.OffsetCommitRequestPartition,
        )
        partitions = [asked(partition_index=n, committed_metadata="x" * 50) for n in range(count)]
        return OffsetCommit.Request(group_id="g", topics=[topic(name="t", partitions=partitions)])

    def append_record(self, tp: TopicPartition, key: bytes, value: bytes) -> None:
        """Writes a record that no coordinator would write."""
        batch = Builder()
        batch.append(self.clock.now_ms(), key, value)
        self.replicas.append(tp, batch.build(), 1, self.clock.now_ms())

    def join(self, group: str = "g", member_id: str = "", **fields: Any) -> Any:
        """Sends a JoinGroup, as a coroutine."""
        protocol = JoinGroup.Request.JoinGroupRequestProtocol(name="range", metadata=b"")
        request = JoinGroup.Request(
            group_id=group,
            member_id=member_id,
            session_timeout_ms=10_000,
            rebalance_timeout_ms=10_000,
            protocol_type="consumer",
            protocols=[protocol],
            **fields,
        )
        return self.groups.join_group(request, Caller(3, "c", "/127.0.0.1"))

    def committed(self, group: str = "g") -> dict[tuple[str, int], int]:
        """Returns all offsets of the group."""
        found = self.run(self.groups.committed(OffsetsAsked(group, None)))
        return {(name, index): each.offset for name, all in found for index, each in all.items()}


def code(response: OffsetCommit.Response) -> int:
    """Returns the error code of the only partition."""
    [topic] = response.topics
    [partition] = topic.partitions
    return int(partition.error_code)
