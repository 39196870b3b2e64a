"""The assignor ``range``: each topic is cut into runs of partitions, one for each of its readers.

If a topic cannot be cut evenly, the first readers get one partition more. If racks matter (KIP-881), a reader first
gets partitions with a replica in its rack, within the same quotas. Topics with the same readers and the same number of
partitions are assigned alike: a reader gets the same partition number of each, if all of these partitions have a
replica in its rack.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from pyclient.consumer.assignors.racks import Racks
from pyclient.consumer.assignors.spec import NO_RACKS, Assignment, Assignor, Member, PartitionRacks
from pyclient.topic_partition import TopicPartition

Fits = Callable[[str, TopicPartition], bool]


class _Topic:
    """A topic that is being cut. Readers are ordered by rank."""

    def __init__(self, name: str, count: int, readers: Sequence[Member], replicas: PartitionRacks) -> None:
        self.name, self.count = name, count
        self.readers = [member.id for member in readers]
        self.likeness = count, tuple((member.id, member.rack or None) for member in readers)
        self.shares: Assignment = {reader: [] for reader in self.readers}
        self._left = [TopicPartition(name, number) for number in range(count)]
        self.racks = Racks(readers, self._left, replicas)
        self._quota, self._extra = divmod(count, len(readers))

    def room(self, reader: str) -> int:
        """Returns the number of partitions that the reader may still get."""
        return max(0, self._quota + (self._extra > 0) - len(self.shares[reader]))

    def is_near(self, reader: str, tp: TopicPartition) -> bool:
        """Returns whether a replica is in the reader's rack, or the reader has no rack."""
        return not self.racks.are_apart(reader, tp)

    def give(self, reader: str, partitions: Sequence[TopicPartition]) -> None:
        """Assigns these partitions to the reader."""
        share = self.shares[reader]
        share += partitions
        if len(share) > self._quota:
            self._extra -= 1
        self._left = [tp for tp in self._left if tp not in partitions]

    def cut(self, fits: Fits) -> None:
        """Gives each reader in turn the partitions that fit, up to the reader's quota."""
        for reader in self.readers:
            run = [tp for tp in self._left if fits(reader, tp)][: self.room(reader)]
            if run:
                self.give(reader, run)


def assign(
    counts: Mapping[str, int], members: Sequence[Member], replicas: PartitionRacks = NO_RACKS
) -> Assignment:
    """Assigns the partitions of each topic. Members are ordered by rank."""
    ordered = sorted(members, key=lambda member: member.rank)
    topics = []
    for name in sorted(counts):
        readers = [member for member in ordered if name in member.topics]
        if readers and counts[name]:
            topics.append(_Topic(name, counts[name], readers, replicas))
    if any(topic.racks for topic in topics):
        _match_racks(topics)
    for topic in topics:
        topic.cut(lambda reader, tp: True)
    return {member.id: sorted(tp for topic in topics for tp in topic.shares.get(member.id, ())) for member in members}


def _match_racks(topics: Sequence[_Topic]) -> None:
    alike: dict[object, list[_Topic]] = {}
    for topic in topics:
        alike.setdefault(topic.likeness, []).append(topic)
    for group in alike.values():
        if len(group) > 1:
            _match_together(group)
        elif group[0].racks:
            group[0].cut(group[0].is_near)


def _match_together(topics: Sequence[_Topic]) -> None:
    """Gives a reader the same partition number of all these topics, if the reader may have all of these partitions."""
    if all(rack is None for _, rack in topics[0].likeness[1]):
        return
    for number in range(topics[0].count):
        for reader in topics[0].readers:
            places = [(topic, TopicPartition(topic.name, number)) for topic in topics]
            if all(topic.room(reader) and topic.is_near(reader, tp) for topic, tp in places):
                for topic, tp in places:
                    topic.give(reader, [tp])
                break


RANGE = Assignor("range", assign)
