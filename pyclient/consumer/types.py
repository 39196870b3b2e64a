"""The values of the consumer's API."""

from __future__ import annotations

from collections.abc import Awaitable, Collection
from typing import NamedTuple, Protocol

from pyclient.offset_and_metadata import OffsetAndMetadata as OffsetAndMetadata
from pyclient.topic_partition import TopicPartition


class OffsetAndTimestamp(NamedTuple):
    """The first record at or after a time."""

    offset: int
    timestamp: int
    """The timestamp of the record at ``offset``, in milliseconds."""
    leader_epoch: int = -1


class GroupMetadata(NamedTuple):
    """A consumer's membership in its group, for ``Producer.send_offsets`` (KIP-447)."""

    group_id: str
    generation_id: int = -1
    member_id: str = ""
    group_instance_id: str | None = None


class RebalanceListener(Protocol):
    """An object that is called within ``poll``, on its thread, when the assignment changes.

        class Offsets(RebalanceListener):
            def on_partitions_assigned(self, partitions):
                ...

    A subclass defines the methods that it needs. Any other object with such methods works as well; missing methods are
    not called. With an asyncio consumer the methods may be coroutines.
    """

    def on_partitions_revoked(self, partitions: Collection[TopicPartition]) -> Awaitable[None] | None:
        """Called before partitions are given up. They are still ours until it returns, so commit processed records
        here.
        """
        return None

    def on_partitions_assigned(self, partitions: Collection[TopicPartition]) -> Awaitable[None] | None:
        """Called with newly assigned partitions. ``seek`` may set their positions here."""
        return None

    def on_partitions_lost(self, partitions: Collection[TopicPartition]) -> Awaitable[None] | None:
        """Called when partitions are no longer ours, or their topic was deleted and created again. Nothing can be
        committed. By default this calls ``on_partitions_revoked``.
        """
        return self.on_partitions_revoked(partitions)
