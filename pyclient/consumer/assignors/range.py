"""The assignor ``range``: each topic is cut into runs of partitions, one for each of its readers.

The first readers get one partition more where a topic cannot be cut evenly. Racks (KIP-881) are not
looked at.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pyclient.consumer.assignors.spec import Assignment, Assignor, Member
from pyclient.topic_partition import TopicPartition


def assign(counts: Mapping[str, int], members: Sequence[Member]) -> Assignment:
    """Members stand in the order of their ranks."""
    assigned: Assignment = {member.id: [] for member in members}
    ordered = sorted(members, key=lambda member: member.rank)
    for topic in sorted(counts):
        readers = [member.id for member in ordered if topic in member.topics]
        if not readers:
            continue
        quota, extra = divmod(counts[topic], len(readers))
        start = 0
        for place, reader in enumerate(readers):
            end = start + quota + (place < extra)
            assigned[reader] += [TopicPartition(topic, number) for number in range(start, end)]
            start = end
    return assigned


RANGE = Assignor("range", assign)
