"""The offsets that a group has committed."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

from pyclient.protocol import ZERO_UUID

NO_OFFSET = -1
NO_EPOCH = -1
NEVER_MS = -1


class CommittedOffset(NamedTuple):
    """Where a consumer goes on. ``expires_ms`` is NEVER_MS but for clients before Kafka 2.1."""

    offset: int
    leader_epoch: int
    metadata: str
    committed_ms: int
    expires_ms: int = NEVER_MS
    topic_id: bytes = ZERO_UUID
    number: int = 0
    """Which of the shard's offset records it comes from: the later one counts."""


NONE = CommittedOffset(NO_OFFSET, NO_EPOCH, "", NEVER_MS)
UNSTABLE = CommittedOffset(NO_OFFSET, NO_EPOCH, "", NEVER_MS, number=-1)
"""Stands for an offset that a transaction may yet change (UNSTABLE_OFFSET_COMMIT)."""


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
        """How many partitions have one."""
        return sum(map(len, self._topics.values()))

    def topics(self) -> dict[str, dict[int, CommittedOffset]]:
        """All of them, for reading."""
        return self._topics

    def get(self, topic: str, partition: int) -> CommittedOffset:
        """Returns the committed offset of the partition, or NONE."""
        return self._topics.get(topic, {}).get(partition, NONE)

    def set(self, topic: str, partition: int, committed: CommittedOffset) -> None:
        """Replaces the committed offset of the partition."""
        self._topics.setdefault(topic, {})[partition] = committed

    def remove(self, topic: str, partition: int) -> bool:
        """Forgets the partition; True where it was the last one of the topic."""
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
