"""The assignor ``range``: it divides each topic into ranges of partitions, one for each member that reads it.

Static members come first, ordered by instance id. The others follow, ordered by member id. If a topic cannot be divided
evenly, the first members get one partition more. So members with the same topics get the same partition numbers of all
topics that have equally many partitions. Joins need this. Static members get the same partitions when they return.
"""

from __future__ import annotations

from pybroker.coordinator.group.assignors.spec import GroupSpec, MemberSpec, Partitions


def assign(spec: GroupSpec) -> dict[str, Partitions]:
    """Returns the partitions of each member."""
    assigned: dict[str, dict[bytes, frozenset[int]]] = {
        member_id: {} for member_id, _ in sorted(spec.members.items(), key=_place)
    }
    for topic_id, readers in _readers(spec, list(assigned)).items():
        count = spec.partition_counts[topic_id]
        quota, extra = divmod(count, len(readers))
        start = 0
        for place, member_id in enumerate(readers):
            if start == count:
                break
            end = start + quota + (1 if place < extra else 0)
            assigned[member_id][topic_id] = frozenset(range(start, end))
            start = end
    return dict(assigned)


def _place(entry: tuple[str, MemberSpec]) -> tuple[bool, str]:
    member_id, member = entry
    return member.instance_id is None, member.instance_id or member_id


def _readers(spec: GroupSpec, ordered: list[str]) -> dict[bytes, list[str]]:
    """Returns the members that read each topic, in order."""
    if spec.alike:
        return dict.fromkeys(spec.partition_counts, ordered)
    readers: dict[bytes, list[str]] = {}
    for member_id in ordered:
        for topic_id in spec.members[member_id].topic_ids:
            readers.setdefault(topic_id, []).append(member_id)
    return readers
