"""Sticky shares where all members read the same topics: each gets the quota or one more.

A member keeps of what it had as much as its share allows; ``extra`` members may keep one more than
the others. What is left is dealt in turn to those that are below their share, then to those that may
have one more.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence

from pyclient.consumer.assignors.spec import Assignment
from pyclient.topic_partition import TopicPartition


class Alike:
    """One assignment. ``kept``: what each member had, in the order in which they choose.

    ``moving``, after ``assign``: what has a new owner though it had one, or several.
    """

    def __init__(
        self, counts: Mapping[str, int], kept: Mapping[str, Sequence[TopicPartition]], disputed: set[TopicPartition]
    ) -> None:
        self.moving: dict[TopicPartition, str] = {}
        self._all = [TopicPartition(topic, number) for topic in sorted(counts) for number in range(counts[topic])]
        self._kept = kept
        self._disputed = disputed
        self._quota, self._extra = divmod(len(self._all), max(1, len(kept)))
        self._assigned: Assignment = {member_id: [] for member_id in kept}
        self._revoked: dict[TopicPartition, str] = {}
        self._below: list[str] = []
        self._at_quota: list[str] = []
        """That may get one more."""

    def assign(self) -> Assignment:
        """Each member's partitions."""
        for member_id, partitions in self._kept.items():
            ordered = sorted(partitions, key=lambda tp: (tp.partition, tp.topic))
            self._keep(member_id, [tp for tp in ordered if tp not in self._disputed])
        taken = {tp for partitions in self._assigned.values() for tp in partitions}
        self._deal([tp for tp in self._all if tp not in taken])
        return self._assigned

    def _keep(self, member_id: str, owned: list[TopicPartition]) -> None:
        quota = self._quota
        if len(owned) < quota:
            self._below.append(member_id)
        elif self._extra and len(owned) > quota:
            quota += 1
            self._extra -= 1
            if not self._extra:
                self._at_quota.clear()
        elif self._extra:
            self._at_quota.append(member_id)
        self._assigned[member_id] += owned[:quota]
        self._revoked.update(dict.fromkeys(owned[quota:], member_id))

    def _deal(self, free: Sequence[TopicPartition]) -> None:
        below, at_quota = sorted(self._below), deque(sorted(self._at_quota))
        place = 0
        for tp in free:
            if not below:
                self._give(tp, at_quota.popleft())
                continue
            place %= len(below)
            self._give(tp, below[place])
            if len(self._assigned[below[place]]) == self._quota:
                at_quota.append(below.pop(place))
            else:
                place += 1

    def _give(self, tp: TopicPartition, member_id: str) -> None:
        self._assigned[member_id].append(tp)
        if tp in self._disputed or self._revoked.get(tp, member_id) != member_id:
            self.moving[tp] = member_id
