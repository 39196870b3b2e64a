"""Values of the consumer's interface."""

from __future__ import annotations

from collections.abc import Awaitable, Collection
from typing import NamedTuple, Protocol

from pyclient.offset_and_metadata import OffsetAndMetadata as OffsetAndMetadata
from pyclient.topic_partition import TopicPartition


class OffsetAndTimestamp(NamedTuple):
    """Where the records of a time begin."""

    offset: int
    timestamp: int
    """Of the record at ``offset``, in milliseconds."""
    leader_epoch: int = -1


class GroupMetadata(NamedTuple):
    """Who commits: for ``Producer.send_offsets`` (KIP-447)."""

    group_id: str
    generation_id: int = -1
    member_id: str = ""
    group_instance_id: str | None = None


class RebalanceListener(Protocol):
    """Told of changes of the assignment, within ``poll`` and on its thread.

        class Offsets(RebalanceListener):
            def on_partitions_assigned(self, partitions):
                ...

    A subclass has the methods that it needs. So may any other object, without a base; what it lacks is not called.
    The methods of a listener of an asyncio consumer may be coroutines.
    """

    def on_partitions_revoked(self, partitions: Collection[TopicPartition]) -> Awaitable[None] | None:
        """Still ours until this returns: commit here what was processed."""
        return None

    def on_partitions_assigned(self, partitions: Collection[TopicPartition]) -> Awaitable[None] | None:
        """New ones; positions may be set by ``seek``."""
        return None

    def on_partitions_lost(self, partitions: Collection[TopicPartition]) -> Awaitable[None] | None:
        """Not ours any more, or gone with a topic that was made again: nothing can be committed.
        By default ``on_partitions_revoked`` is called.
        """
        return self.on_partitions_revoked(partitions)
