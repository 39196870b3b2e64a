"""Racks of members and of partitions' replicas, if an assignment should consider them (KIP-881).

It should if some member is in the rack of some replica, and if not all partitions have replicas in the same racks.
Otherwise each member is as near to one partition as to another.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from pyclient.consumer.assignors.spec import Member, PartitionRacks
from pyclient.topic_partition import TopicPartition

NOWHERE: frozenset[str] = frozenset()


class Racks:
    """The racks of a group, or of a topic's readers. False if they do not matter."""

    def __init__(
        self, members: Iterable[Member], partitions: Sequence[TopicPartition], replicas: PartitionRacks
    ) -> None:
        self._members = {member.id: member.rack for member in members if member.rack}
        self._partitions = {tp: replicas.get(tp, NOWHERE) for tp in partitions} if self._members else {}
        self._sizes = Counter(self._members.values())
        self._matter = self._do_matter()

    def _do_matter(self) -> bool:
        everywhere = NOWHERE.union(*self._partitions.values())
        return not everywhere.isdisjoint(self._sizes) and any(
            racks != everywhere for racks in self._partitions.values()
        )

    def __bool__(self) -> bool:
        return self._matter

    def are_apart(self, member_id: str, tp: TopicPartition) -> bool:
        """Returns whether the member has a rack, and the partition has no replica in it."""
        return member_id in self._members and self._members[member_id] not in self._partitions[tp]

    def are_together(self, member_id: str, tp: TopicPartition) -> bool:
        """Returns whether the member has a rack, and the partition has a replica in it."""
        return member_id in self._members and self._members[member_id] in self._partitions[tp]

    def rarest_first(self, partitions: Iterable[TopicPartition]) -> list[TopicPartition]:
        """Returns the partitions, ordered by the number of members in their racks."""
        return sorted(partitions, key=lambda tp: sum(self._sizes[rack] for rack in self._partitions[tp]))


def partitions_of(counts: Mapping[str, int]) -> list[TopicPartition]:
    """Returns all partitions, topic by topic."""
    return [TopicPartition(topic, number) for topic in sorted(counts) for number in range(counts[topic])]
