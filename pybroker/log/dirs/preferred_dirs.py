"""Remembers in which log dirs new replicas should be created (AlterReplicaLogDirs for replicas that are not here).

A client may name any partition, existing or not. So only the newest ``MOST`` requested dirs are kept, for an hour. That
is enough, because a reassignment that names log dirs creates the replicas within seconds.

State machine: no clock, no I/O.
"""

from __future__ import annotations

from typing import NamedTuple

from pybroker.log.dirs.folders import MAX_NAME
from pybroker.topic_partition import TopicPartition

MOST = 10_000
LASTING_MS = 3_600_000


class Wish(NamedTuple):
    """The log dir that a client has requested for a replica, and when the request expires."""

    path: str
    until_ms: int


class PreferredDirs:
    """The log dirs that clients have requested, oldest request first."""

    def __init__(self) -> None:
        self._wishes: dict[TopicPartition, Wish] = {}

    def __len__(self) -> int:
        return len(self._wishes)

    def remember(self, topic_partition: TopicPartition, path: str, now_ms: int) -> None:
        """Remembers that a replica should be created in ``path``, unless its name is too long for a folder."""
        if len(str(topic_partition)) > MAX_NAME:
            return
        self._wishes.pop(topic_partition, None)
        self._wishes[topic_partition] = Wish(path, now_ms + LASTING_MS)
        self._forget(now_ms)

    def take(self, topic_partition: TopicPartition, now_ms: int) -> str | None:
        """Removes and returns the path that a client has requested for the replica; None if there is none."""
        self._forget(now_ms)
        wish = self._wishes.pop(topic_partition, None)
        return None if wish is None else wish.path

    def _forget(self, now_ms: int) -> None:
        while self._wishes:
            oldest, wish = next(iter(self._wishes.items()))
            if len(self._wishes) <= MOST and now_ms < wish.until_ms:
                return
            del self._wishes[oldest]
