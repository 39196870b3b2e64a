"""The assignors ``sticky`` and ``cooperative-sticky``: balanced, with as few moves as possible.

Balanced: no member could take a partition it reads from one that has two more. Sticky: a member
keeps what it owned, as far as balance allows. Of several members that claim a partition the one of
the latest generation has it; two of the same generation: nobody.

``cooperative-sticky`` leaves out of its assignment what another member still owns: that member
gives it up, and the next round gives it to the new one (KIP-429).
"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from heapq import heapify, heappop, heappush

from pyclient.consumer.assignors.spec import Assignment, Assignor, Member
from pyclient.topic_partition import TopicPartition


def assign(counts: Mapping[str, int], members: Sequence[Member]) -> Assignment:
    """Who had what is in the members' user data, else among what they own."""
    assigned = _kept(counts, members)
    readers = _readers(counts, members)
    taken = {tp for partitions in assigned.values() for tp in partitions}
    free = [
        TopicPartition(topic, number)
        for topic in sorted(counts, key=lambda name: (len(readers[name]), name))
        for number in range(counts[topic])
        if readers[topic]
    ]
    _deal([tp for tp in free if tp not in taken], readers, assigned)
    _balance(readers, assigned)
    return {member_id: sorted(partitions) for member_id, partitions in assigned.items()}


def assign_cooperatively(counts: Mapping[str, int], members: Sequence[Member]) -> Assignment:
    """Without what has to be given up by another member first."""
    assigned = assign(counts, members)
    owner = {tp: member.id for member in members for tp in member.owned}
    return {
        member_id: [tp for tp in partitions if owner.get(tp, member_id) == member_id]
        for member_id, partitions in assigned.items()
    }


def _readers(counts: Mapping[str, int], members: Sequence[Member]) -> dict[str, list[str]]:
    ordered = sorted(members, key=lambda member: member.id)
    return {topic: [member.id for member in ordered if topic in member.topics] for topic in counts}


def _kept(counts: Mapping[str, int], members: Sequence[Member]) -> dict[str, set[TopicPartition]]:
    """What each member had and still may have."""
    claims: dict[TopicPartition, tuple[int, str | None]] = {}
    for member in members:
        owned, generation = _previous(member)
        for tp in owned:
            if tp.topic not in member.topics or tp.partition >= counts.get(tp.topic, 0):
                continue
            last = claims.get(tp)
            if last is None or generation > last[0]:
                claims[tp] = generation, member.id
            elif generation == last[0]:
                claims[tp] = generation, None
    kept: dict[str, set[TopicPartition]] = {member.id: set() for member in members}
    for tp, (_, owner) in claims.items():
        if owner is not None:
            kept[owner].add(tp)
    return kept


def _previous(member: Member) -> tuple[Sequence[TopicPartition], int]:
    if member.owned or len(member.user_data) <= 4:
        return member.owned, member.generation
    return decode(member.user_data)


def _deal(
    free: Sequence[TopicPartition], readers: Mapping[str, list[str]], assigned: dict[str, set[TopicPartition]]
) -> None:
    """Each goes to the reader that has least."""
    heaps: dict[tuple[str, ...], list[tuple[int, str]]] = {}
    for tp in free:
        group = tuple(readers[tp.topic])
        heap = heaps.get(group)
        if heap is None:
            heap = heaps[group] = [(len(assigned[member_id]), member_id) for member_id in group]
            heapify(heap)
        while heap[0][0] != len(assigned[heap[0][1]]):
            _, stale = heappop(heap)
            heappush(heap, (len(assigned[stale]), stale))
        _, least = heappop(heap)
        assigned[least].add(tp)
        heappush(heap, (len(assigned[least]), least))


def _balance(readers: Mapping[str, list[str]], assigned: dict[str, set[TopicPartition]]) -> None:
    """Moves partitions from those that have most to those that have least, until nobody has two
    more than one who could take one.
    """
    moved = True
    while moved:
        moved = False
        for member_id in sorted(assigned, key=lambda each: (-len(assigned[each]), each)):
            moved |= _relieve(member_id, readers, assigned)


def _relieve(
    giver: str, readers: Mapping[str, list[str]], assigned: dict[str, set[TopicPartition]]
) -> bool:
    moved = False
    for tp in sorted(assigned[giver], reverse=True):
        taker = min(readers[tp.topic], key=lambda each: (len(assigned[each]), each))
        if len(assigned[giver]) - len(assigned[taker]) >= 2:
            assigned[giver].discard(tp)
            assigned[taker].add(tp)
            moved = True
    return moved


# User data of ``sticky``, version 1: [topic string, [partition int32]], generation int32.


def encode(owned: Sequence[TopicPartition], generation: int) -> bytes:
    """What a member had, as Kafka's StickyAssignor writes it."""
    topics: dict[str, list[int]] = {}
    for tp in owned:
        topics.setdefault(tp.topic, []).append(tp.partition)
    parts = [struct.pack(">i", len(topics))]
    for topic, numbers in topics.items():
        name = topic.encode()
        parts.append(struct.pack(f">h{len(name)}si{len(numbers)}i", len(name), name, len(numbers), *numbers))
    return b"".join((*parts, struct.pack(">i", generation)))


def decode(data: bytes) -> tuple[list[TopicPartition], int]:
    """What ``encode`` wrote; nothing where it was not written so."""
    try:
        return _decode(data)
    except (struct.error, UnicodeDecodeError):
        return [], -1


def _decode(data: bytes) -> tuple[list[TopicPartition], int]:
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
    generation = struct.unpack_from(">i", data, at)[0] if at < len(data) else -1
    return owned, generation


def _generation(_owned: Sequence[TopicPartition], generation: int) -> bytes:
    return struct.pack(">i", generation)


STICKY = Assignor("sticky", assign, user_data=encode)
COOPERATIVE_STICKY = Assignor("cooperative-sticky", assign_cooperatively, cooperative=True, user_data=_generation)
