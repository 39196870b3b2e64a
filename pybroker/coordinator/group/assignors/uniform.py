"""The assignor ``uniform``: equal numbers of partitions for all members, with the fewest moves that this allows.

Balance comes first: among members that read the same topics, the numbers of partitions differ by at most one. Then
stickiness: a member keeps its partitions, up to its share.

If all members read the same topics, one pass over them is enough. Otherwise unassigned partitions go to the members
with the fewest, topic by topic. Topics with the fewest readers for their partitions come first. Then partitions move
from the members with the most to those with the fewest, until nothing improves, at most ROUNDS times over all topics.
With overlapping subscriptions the result may be slightly uneven.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from fractions import Fraction
from heapq import heapify, heapreplace
from itertools import islice
from typing import Final

from pybroker.coordinator.group.assignors.spec import GroupSpec, MemberSpec, Partitions

ROUNDS: Final = 16

Loose = tuple[bytes, int]
Owned = dict[bytes, set[int]]


def assign(spec: GroupSpec) -> dict[str, Partitions]:
    """Returns the partitions of each member."""
    if not spec.partition_counts:
        return {}
    return _assign_alike(spec) if spec.alike else _Unlike(spec).assign()


# All members read the same topics


def _assign_alike(spec: GroupSpec) -> dict[str, Partitions]:
    counts = spec.partition_counts
    share, extras = divmod(sum(counts.values()), len(spec.members))
    loose = list(_unassigned(spec))
    assigned: dict[str, Partitions] = {}
    wanting: list[tuple[str, int]] = []
    for place, (member_id, member) in enumerate(spec.members.items()):
        room = share + (1 if extras else 0)
        kept, room = _keep(member, counts, room, loose)
        may_have_more = extras > 0
        if room > 0 and may_have_more and len(spec.members) - place > extras:
            room -= 1
            may_have_more = False
        if may_have_more:
            extras -= 1
        assigned[member_id] = kept
        if room > 0:
            wanting.append((member_id, room))
    _hand_out(loose, wanting, assigned)
    return assigned


def _unassigned(spec: GroupSpec) -> Iterator[Loose]:
    """Yields the unassigned partitions, by topic and number."""
    taken: dict[bytes, set[int]] = {topic_id: set() for topic_id in spec.partition_counts}
    for member in spec.members.values():
        for topic_id, partitions in member.assigned.items():
            if topic_id in taken:
                taken[topic_id] |= partitions
    for topic_id, count in sorted(spec.partition_counts.items()):
        mine = taken[topic_id]
        yield from ((topic_id, each) for each in range(count) if each not in mine)


def _keep(
    member: MemberSpec, counts: Mapping[bytes, int], room: int, loose: list[Loose]
) -> tuple[Partitions, int]:
    """Returns the partitions that the member keeps, and how many more it can take. Adds the others to ``loose``."""
    kept: dict[bytes, frozenset[int]] = {}
    same = True
    for topic_id, partitions in member.assigned.items():
        if topic_id not in counts:
            same = False
            continue
        if len(partitions) > room:
            ordered = sorted(partitions)
            loose += [(topic_id, each) for each in ordered[room:]]
            partitions = frozenset(ordered[:room])
            same = False
        if partitions:
            kept[topic_id] = partitions
            room -= len(partitions)
    return (member.assigned if same else kept), room


def _hand_out(
    loose: list[Loose], wanting: list[tuple[str, int]], assigned: dict[str, Partitions]
) -> None:
    rest = iter(loose)
    for member_id, room in wanting:
        mine: Owned = {}
        for topic_id, partition in islice(rest, room):
            mine.setdefault(topic_id, set()).add(partition)
        if mine:
            assigned[member_id] = _merged(assigned[member_id], mine)


def _merged(had: Partitions, gained: Owned) -> Partitions:
    merged = dict(had)
    for topic_id, partitions in gained.items():
        merged[topic_id] = merged.get(topic_id, frozenset()) | partitions
    return merged


# Members read different topics


class _Unlike:
    """Assigns when members read different topics. It uses members' numbers instead of ids; ``loads`` counts their
    partitions.
    """

    def __init__(self, spec: GroupSpec) -> None:
        self._spec = spec
        self._ids = list(spec.members)
        self._readers: dict[bytes, list[int]] = {}
        for number, member in enumerate(spec.members.values()):
            for topic_id in member.topic_ids:
                self._readers.setdefault(topic_id, []).append(number)
        self._owners: dict[bytes, list[int]] = {
            topic_id: [-1] * spec.partition_counts[topic_id] for topic_id in self._readers
        }
        self._loads = [0] * len(self._ids)
        self._moved: set[int] = set()

    def assign(self) -> dict[str, Partitions]:
        self._keep()
        for topic_id in self._in_order():
            self._fill(topic_id)
        self._balance()
        return self._result()

    def _in_order(self) -> list[bytes]:
        """Returns the topics: most partitions per reader first, then fewest readers, then by id."""
        counts = self._spec.partition_counts

        def place(topic_id: bytes) -> tuple[Fraction, int, bytes]:
            readers = len(self._readers[topic_id])
            return -Fraction(counts[topic_id], readers), readers, topic_id

        return sorted(self._readers, key=place)

    def _keep(self) -> None:
        for number, member in enumerate(self._spec.members.values()):
            for topic_id, partitions in member.assigned.items():
                if topic_id not in member.topic_ids:
                    self._moved.add(number)
                    continue
                owners = self._owners[topic_id]
                for partition in partitions:
                    if partition < len(owners):
                        owners[partition] = number
                        self._loads[number] += 1
                    else:
                        self._moved.add(number)

    def _fill(self, topic_id: bytes) -> None:
        """Gives the topic's unassigned partitions to the readers with the fewest."""
        owners = self._owners[topic_id]
        if -1 not in owners:
            return
        heap = [(self._loads[number], number) for number in self._readers[topic_id]]
        heapify(heap)
        for partition, owner in enumerate(owners):
            if owner == -1:
                load, number = heap[0]
                owners[partition] = number
                heapreplace(heap, (load + 1, number))
                self._loads[number] = load + 1
                self._moved.add(number)

    def _balance(self) -> None:
        topics = [id for id in self._in_order() if len(self._readers[id]) >= 2]
        for _ in range(ROUNDS):
            if not any([self._even_out(topic_id) for topic_id in topics]):
                return

    def _even_out(self, topic_id: bytes) -> bool:
        """Moves partitions of the topic from the member with the most to the one with the fewest; returns whether any
        moved.
        """
        readers, loads = self._readers[topic_id], self._loads
        if max(loads[each] for each in readers) - min(loads[each] for each in readers) <= 1:
            return False
        mine: dict[int, list[int]] = {number: [] for number in readers}
        for partition, owner in enumerate(self._owners[topic_id]):
            mine[owner].append(partition)
        return self._move(topic_id, mine)

    def _move(self, topic_id: bytes, mine: dict[int, list[int]]) -> bool:
        loads, owners = self._loads, self._owners[topic_id]
        least = [(loads[number], number) for number in mine]
        most = [(-loads[number], -number) for number in mine if mine[number]]
        heapify(least)
        heapify(most)
        moved = False
        while most:
            load, giver = -most[0][0], -most[0][1]
            while least[0][0] != loads[least[0][1]]:
                heapreplace(least, (loads[least[0][1]], least[0][1]))
            low, taker = least[0]
            if load - low <= 1:
                break
            partition = mine[giver].pop()
            owners[partition] = taker
            loads[giver] -= 1
            loads[taker] += 1
            self._moved |= {giver, taker}
            moved = True
            heapreplace(least, (low + 1, taker))
            if mine[giver]:
                heapreplace(most, (-loads[giver], -giver))
            else:
                _drop_first(most)
        return moved

    def _result(self) -> dict[str, Partitions]:
        owned: list[Owned] = [{} for _ in self._ids]
        for topic_id, owners in self._owners.items():
            for partition, number in enumerate(owners):
                owned[number].setdefault(topic_id, set()).add(partition)
        specs = list(self._spec.members.values())
        return {
            member_id: (
                {topic_id: frozenset(each) for topic_id, each in owned[number].items()}
                if number in self._moved
                else specs[number].assigned
            )
            for number, member_id in enumerate(self._ids)
        }


def _drop_first(heap: list[tuple[int, int]]) -> None:
    heap[0] = heap[-1]
    heap.pop()
    heapify(heap)
