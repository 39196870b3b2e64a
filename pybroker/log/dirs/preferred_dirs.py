"""Where replicas are to be made that are not here yet (AlterReplicaLogDirs for what this broker does not have).

Any client may ask for any partition, existing or not, so what is remembered is bounded: the newest wishes, for an hour.
A reassignment that names log dirs follows its wishes within seconds.

State machine: no clock, no I/O.
"""

from __future__ import annotations

from typing import NamedTuple

from pybroker.log.dirs.folders import MAX_NAME
from pybroker.topic_partition import TopicPartition

MOST = 10_000
LASTING_MS = 3_600_000


class Wish(NamedTuple):
    """A log dir, and until when it is remembered."""

    path: str
    until_ms: int


class PreferredDirs:
    """The wishes, the oldest first."""

    def __init__(self) -> None:
        self._wishes: dict[TopicPartition, Wish] = {}

    def __len__(self) -> int:
        return len(self._wishes)

    def remember(self, topic_partition: TopicPartition, path: str, now_ms: int) -> None:
        """A replica is wanted in ``path``; one whose name no folder can have is not remembered."""
        if len(str(topic_partition)) > MAX_NAME:
            return
        self._wishes.pop(topic_partition, None)
        self._wishes[topic_partition] = Wish(path, now_ms + LASTING_MS)
        self._forget(now_ms)

    def take(self, topic_partition: TopicPartition, now_ms: int) -> str | None:
        """Where the replica is to be made, if anybody has said so; told once."""
        self._forget(now_ms)
        wish = self._wishes.pop(topic_partition, None)
        return None if wish is None else wish.path

    def _forget(self, now_ms: int) -> None:
        while self._wishes:
            oldest, wish = next(iter(self._wishes.items()))
            if len(self._wishes) <= MOST and now_ms < wish.until_ms:
                return
            del self._wishes[oldest]
