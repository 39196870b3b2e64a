"""The assignor ``range``: each topic is cut into runs of partitions, one for each of its members.

Members stand in the order of their instance ids, those without one behind them in the order of
their member ids. The first ones get one partition more where a topic cannot be cut evenly. So
members with the same topics get the same partitions of topics of the same size, which is what joins
need, and static members keep theirs when they come back.
"""

from __future__ import annotations

from collections import Counter

from pybroker.coordinator.group.assignors.spec import GroupSpec, MemberSpec, Partitions


def assign(spec: GroupSpec) -> dict[str, Partitions]:
    """The partitions of each member."""
    members = sorted(spec.members.items(), key=_place)
    readers = Counter(topic_id for _, member in members for topic_id in member.topic_ids)
    left = {topic_id: (0, *_quota(spec, topic_id, readers[topic_id])) for topic_id in readers}
    assigned: dict[str, Partitions] = {}
    for member_id, member in members:
        mine: dict[bytes, frozenset[int]] = {}
        for topic_id in member.topic_ids:
            start, quota, extra = left[topic_id]
            end = start + quota + (1 if extra else 0)
            left[topic_id] = (end, quota, max(extra - 1, 0))
            if start < end:
                mine[topic_id] = frozenset(range(start, end))
        assigned[member_id] = mine
    return assigned


def _place(entry: tuple[str, MemberSpec]) -> tuple[bool, str]:
    member_id, member = entry
    return member.instance_id is None, member.instance_id or member_id


def _quota(spec: GroupSpec, topic_id: bytes, readers: int) -> tuple[int, int]:
    """Partitions for every reader, and how many readers get one more."""
    return divmod(spec.partition_counts[topic_id], readers)
