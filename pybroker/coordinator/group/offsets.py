"""The committed offsets of a group."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

from pyclient.protocol import ZERO_UUID

NO_OFFSET = -1
NO_EPOCH = -1
NEVER_MS = -1


class CommittedOffset(NamedTuple):
    """A committed offset. ``expires_ms`` is NEVER_MS, except for clients before Kafka 2.1."""

    offset: int
    leader_epoch: int
    metadata: str
    committed_ms: int
    expires_ms: int = NEVER_MS
    topic_id: bytes = ZERO_UUID
    number: int = 0
    """The place of the offset's record among those of the shard. Of two offsets, the one with the larger number counts.
    """


NONE = CommittedOffset(NO_OFFSET, NO_EPOCH, "", NEVER_MS)
UNSTABLE = CommittedOffset(NO_OFFSET, NO_EPOCH, "", NEVER_MS, number=-1)
"""An offset that an open transaction may still change (UNSTABLE_OFFSET_COMMIT)."""


class Offsets:
    """Committed offsets by topic and partition."""

    def __init__(self) -> None:
        self._topics: dict[str, dict[int, CommittedOffset]] = {}

    def __bool__(self) -> bool:
        return bool(self._topics)

    def __iter__(self) -> Iterator[tuple[str, int, CommittedOffset]]:
        for topic, partitions in self._topics.items():
            for partition, committed in partitions.items():
                yield topic, partition, committed

    @property
    def count(self) -> int:
        """How many partitions have an offset."""
        return sum(map(len, self._topics.values()))

    def topics(self) -> dict[str, dict[int, CommittedOffset]]:
        """Returns all offsets; the caller must not change them."""
        return self._topics

    def get(self, topic: str, partition: int) -> CommittedOffset:
        """Returns the committed offset of the partition, or NONE."""
        return self._topics.get(topic, {}).get(partition, NONE)

    def set(self, topic: str, partition: int, committed: CommittedOffset) -> None:
        """Replaces the committed offset of the partition."""
        self._topics.setdefault(topic, {})[partition] = committed

    def remove(self, topic: str, partition: int) -> bool:
        """Deletes the offset of the partition; returns True if it was the topic's last one."""
        partitions = self._topics.get(topic)
        if partitions is None or partitions.pop(partition, None) is None or partitions:
            return False
        del self._topics[topic]
        return True

    def expired(
        self,
        now_ms: int,
        retention_ms: int,
        since_ms: Callable[[CommittedOffset], int],
        spares: Callable[[str], bool],
    ) -> Iterator[tuple[str, int]]:
        """Yields the partitions whose offsets have outlived their retention (KIP-211).

        ``since_ms`` returns the time from which an offset's retention counts. Offsets of a topic for which ``spares``
        returns True are still in use and never expire.
        """
        for topic, partitions in self._topics.items():
            if spares(topic):
                continue
            for partition, committed in partitions.items():
                ends_ms = committed.expires_ms
                if ends_ms == NEVER_MS:
                    ends_ms = since_ms(committed) + retention_ms
                if now_ms >= ends_ms:
                    yield topic, partition
