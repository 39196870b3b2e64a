"""The assignors ``sticky`` and ``cooperative-sticky``: balanced, with as few moves as possible.

They assign as Kafka's own assignors do, so nothing moves when another client becomes the group's leader. If racks
matter (KIP-881), a member does not keep a partition without a replica in its rack. A free partition goes first to
members in one of its racks, as far as the balance allows. If all members read the same topics, a share is a quota
(``sticky_alike``). Otherwise partitions move to members with fewer partitions until this improves nothing
(``sticky_general``). If several members claim a partition, the one of the latest generation keeps it. Of two members of
the same generation, neither keeps it.

``cooperative-sticky`` leaves out of its assignment the partitions that another member still owns. That member gives
them up, and the next round gives them to their new owners (KIP-429).
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping, Sequence

from pyclient.consumer.assignors.java_order import in_java_order
from pyclient.consumer.assignors.racks import Racks, partitions_of
from pyclient.consumer.assignors.spec import NO_RACKS, Assignment, Assignor, Claim, Member, PartitionRacks
from pyclient.consumer.assignors.sticky_alike import Alike
from pyclient.consumer.assignors.sticky_general import General
from pyclient.topic_partition import TopicPartition

Previous = Callable[[Member], Claim]


def assign(
    counts: Mapping[str, int], members: Sequence[Member], replicas: PartitionRacks = NO_RACKS
) -> Assignment:
    """Assigns, using the partitions that the members' user data name."""
    return _assign(counts, members, replicas, _told)[0]


def assign_cooperatively(
    counts: Mapping[str, int], members: Sequence[Member], replicas: PartitionRacks = NO_RACKS
) -> Assignment:
    """Assigns, without partitions that another member must give up first."""
    assigned, moving = _assign(counts, members, replicas, _owned)
    if moving is None:
        moving = _moving(members, assigned)
    return {
        member_id: [tp for tp in partitions if moving.get(tp) != member_id]
        for member_id, partitions in assigned.items()
    }


def _assign(
    counts: Mapping[str, int], members: Sequence[Member], replicas: PartitionRacks, previous: Previous
) -> tuple[Assignment, dict[TopicPartition, str] | None]:
    """Returns the assignment, and the partitions that move between owners if those are known."""
    by_id = {member.id: member for member in members}
    ordered = [by_id[member_id] for member_id in in_java_order(by_id)]
    claims = {member.id: _existing(previous(member), counts) for member in ordered}
    kept, disputed = _kept(ordered, claims)
    racks = Racks(members, partitions_of(counts), replicas)
    if len({frozenset(member.topics) for member in members}) <= 1:
        read = {topic: count for topic, count in counts.items() if members and topic in members[0].topics}
        alike = Alike(read, kept, disputed, racks)
        return _sorted(alike.assign()), alike.moving
    return _sorted(General(counts, ordered, kept, claims, racks).assign()), None


def _sorted(assigned: Assignment) -> Assignment:
    return {member_id: sorted(partitions) for member_id, partitions in assigned.items()}


def _existing(claim: Claim, counts: Mapping[str, int]) -> Claim:
    there = [tp for tp in claim.partitions if tp.partition < counts.get(tp.topic, 0)]
    return Claim(there, claim.generation)


def _kept(
    members: Sequence[Member], claims: Mapping[str, Claim]
) -> tuple[Assignment, set[TopicPartition]]:
    """Returns the partitions that each member may keep, and those that several members claim in the same generation."""
    generations = {member.id: member.generation for member in members}
    kept: Assignment = {member.id: [] for member in members}
    owners: dict[TopicPartition, str] = {}
    disputed: set[TopicPartition] = set()
    for member in members:
        partitions, told = claims[member.id]
        generation = -1 if told is None else told
        for tp in partitions:
            other = owners.get(tp)
            if other is not None and generation < generations[other]:
                continue
            if other is not None and tp in kept[other]:
                kept[other].remove(tp)
            if other is not None and generation == generations[other]:
                disputed.add(tp)
            else:
                kept[member.id].append(tp)
            owners[tp] = member.id
    return kept, disputed


def _moving(members: Sequence[Member], assigned: Assignment) -> dict[TopicPartition, str]:
    """Returns the partitions that one member owns and another one will get."""
    added = {
        tp: member.id for member in members for tp in assigned[member.id] if tp not in set(member.owned)
    }
    revoked = {tp for member in members for tp in set(member.owned) - set(assigned[member.id])}
    return {tp: member_id for tp, member_id in added.items() if tp in revoked}


# What members say of their last assignment. ``sticky``, version 1: [topic string, [partition int32]],
# generation int32; version 0 ends before the generation. ``cooperative-sticky``: generation int32.


def _told(member: Member) -> Claim:
    if not member.user_data:
        return Claim((), None)
    return Claim(*decode(member.user_data))


def _owned(member: Member) -> Claim:
    if member.generation >= 0 or not member.user_data:
        return Claim(member.owned, member.generation if member.generation >= 0 else None)
    data = member.user_data
    return Claim(member.owned, struct.unpack_from(">i", data)[0] if len(data) >= 4 else -1)


def encode(owned: Sequence[TopicPartition], generation: int) -> bytes:
    """Encodes the partitions that a member had, as Kafka's StickyAssignor does."""
    topics: dict[str, list[int]] = {}
    for tp in owned:
        topics.setdefault(tp.topic, []).append(tp.partition)
    parts = [struct.pack(">i", len(topics))]
    for topic, numbers in topics.items():
        name = topic.encode()
        parts.append(struct.pack(f">h{len(name)}si{len(numbers)}i", len(name), name, len(numbers), *numbers))
    return b"".join((*parts, struct.pack(">i", generation)))


def decode(data: bytes) -> tuple[list[TopicPartition], int | None]:
    """Decodes what ``encode`` wrote (version 0 has no generation). Returns nothing for other data."""
    try:
        return _decode(data)
    except (struct.error, UnicodeDecodeError):
        return [], -1


def _decode(data: bytes) -> tuple[list[TopicPartition], int | None]:
    owned = []
    (count,) = struct.unpack_from(">i", data)
    at = 4
    for _ in range(count):
        (size,) = struct.unpack_from(">h", data, at)
        topic = data[at + 2 : at + 2 + size].decode()
        (partitions,) = struct.unpack_from(">i", data, at + 2 + size)
        at += 6 + size
        owned += [TopicPartition(topic, n) for n in struct.unpack_from(f">{partitions}i", data, at)]
        at += 4 * partitions
    return owned, struct.unpack_from(">i", data, at)[0] if at + 4 <= len(data) else None


def _generation(_owned: Sequence[TopicPartition], generation: int) -> bytes:
    return struct.pack(">i", generation)


STICKY = Assignor("sticky", assign, user_data=encode)
COOPERATIVE_STICKY = Assignor("cooperative-sticky", assign_cooperatively, cooperative=True, user_data=_generation)
