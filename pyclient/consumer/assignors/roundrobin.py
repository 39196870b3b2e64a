"""The assignor ``roundrobin``: all partitions, topic by topic, are dealt to the members in turn.

Racks are ignored, as by Kafka's own assignor.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pyclient.consumer.assignors.spec import NO_RACKS, Assignment, Assignor, Member, PartitionRacks
from pyclient.topic_partition import TopicPartition


def assign(
    counts: Mapping[str, int], members: Sequence[Member], _replicas: PartitionRacks = NO_RACKS
) -> Assignment:
    """Assigns the partitions. Members are ordered by rank; those that do not read a topic are skipped."""
    assigned: Assignment = {member.id: [] for member in members}
    ordered = sorted(members, key=lambda member: member.rank)
    place = 0
    for topic in sorted(counts):
        if not any(topic in member.topics for member in ordered):
            continue
        for number in range(counts[topic]):
            while topic not in ordered[place % len(ordered)].topics:
                place += 1
            assigned[ordered[place % len(ordered)].id].append(TopicPartition(topic, number))
            place += 1
    return assigned


ROUNDROBIN = Assignor("roundrobin", assign)
