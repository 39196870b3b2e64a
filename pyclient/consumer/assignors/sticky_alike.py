"""Sticky shares if all members read the same topics: each member gets the quota, or one partition more.

A member keeps as many of its partitions as its share allows; ``extra`` members may keep one more than the others. The
remaining partitions are dealt in turn to members below their share, then to those that may have one more. If racks
matter, a member keeps no partition without a replica in its rack. Free partitions go first to members in one of their
racks, beginning with the partitions for which there are the fewest such members.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence

from pyclient.consumer.assignors.racks import Racks, partitions_of
from pyclient.consumer.assignors.spec import Assignment
from pyclient.topic_partition import TopicPartition


class Alike:
    """One assignment. ``kept`` has what each member had, in the order in which members choose.

    After ``assign``, ``moving`` has the partitions with a new owner that had one or several before.
    """

    def __init__(
        self,
        counts: Mapping[str, int],
        kept: Mapping[str, Sequence[TopicPartition]],
        disputed: set[TopicPartition],
        racks: Racks,
    ) -> None:
        self._racks = racks
        self.moving: dict[TopicPartition, str] = {}
        self._all = partitions_of(counts)
        self._kept = kept
        self._disputed = disputed
        self._quota, self._extra = divmod(len(self._all), max(1, len(kept)))
        self._assigned: Assignment = {member_id: [] for member_id in kept}
        self._revoked: dict[TopicPartition, str] = {}
        self._below: list[str] = []
        self._at_quota: list[str] = []
        """The members that may get one partition more."""

    def assign(self) -> Assignment:
        """Returns each member's partitions."""
        for member_id, partitions in self._kept.items():
            ordered = sorted(partitions, key=lambda tp: (tp.partition, tp.topic))
            near = self._near(member_id, ordered) if self._racks else ordered
            self._keep(member_id, [tp for tp in near if tp not in self._disputed])
        self._below.sort()
        self._at_quota.sort()
        taken = {tp for partitions in self._assigned.values() for tp in partitions}
        free = [tp for tp in self._all if tp not in taken]
        self._deal(self._deal_near(self._racks.rarest_first(free)) if self._racks else free)
        return self._assigned

    def _near(self, member_id: str, owned: Sequence[TopicPartition]) -> list[TopicPartition]:
        """Returns the partitions that the member may keep, considering its rack."""
        far = [tp for tp in owned if self._racks.are_apart(member_id, tp)]
        self._revoked.update(dict.fromkeys(far, member_id))
        return [tp for tp in owned if tp not in far]

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

    def _deal_near(self, free: Sequence[TopicPartition]) -> list[TopicPartition]:
        """Gives partitions to members in one of their racks that have room. Returns the rest."""
        left, place = [], 0
        for tp in free:
            if (found := self._next_near(tp, self._below, place)) is not None:
                place = self._fill(tp, found)
            elif (found := self._next_near(tp, self._at_quota, 0)) is not None:
                self._give(tp, self._at_quota.pop(found))
                self._extra -= 1
                if not self._extra:
                    self._at_quota.clear()
            else:
                left.append(tp)
        return left

    def _next_near(self, tp: TopicPartition, members: Sequence[str], start: int) -> int | None:
        places = (*range(start, len(members)), *range(start))
        return next((place for place in places if self._racks.are_together(members[place], tp)), None)

    def _fill(self, tp: TopicPartition, place: int) -> int:
        """Gives a partition to a member below its share. Returns the index in ``_below`` of the member for the next
        partition.
        """
        member_id = self._below[place]
        self._give(tp, member_id)
        if len(self._assigned[member_id]) < self._quota:
            place += 1
        else:
            self._below.pop(place)
            if self._extra:
                self._at_quota.append(member_id)
        return place % len(self._below) if self._below else 0

    def _deal(self, free: Sequence[TopicPartition]) -> None:
        below, at_quota = self._below, deque(self._at_quota)
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
