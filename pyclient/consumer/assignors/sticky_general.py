"""Sticky shares if members read different topics.

Every member keeps its partitions, and each free partition goes to the reader with the fewest. Then partitions move to
readers that have at least two fewer, first back to those that had them in an earlier generation, until this improves
nothing. If the shares have not become more even, everything stays as it was.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Mapping, Sequence
from itertools import pairwise

from pyclient.consumer.assignors.java_order import JavaSet, partition_hash
from pyclient.consumer.assignors.racks import Racks
from pyclient.consumer.assignors.spec import Assignment, Claim, Member
from pyclient.topic_partition import TopicPartition

Pair = tuple[str, str]


class Movements:
    """Remembers moves, so that no partition moves between two members while another one moves back."""

    def __init__(self) -> None:
        self._pairs: dict[TopicPartition, Pair] = {}
        self._moved: dict[tuple[str, Pair], JavaSet[TopicPartition]] = {}

    def move(self, tp: TopicPartition, giver: str, taker: str) -> None:
        """Notes a move. A partition that moves several times counts as moved from its first owner."""
        pair = self._pairs.pop(tp, None)
        if pair is None:
            self._note(tp, (giver, taker))
            return
        moved = self._moved[tp.topic, pair]
        moved.remove(tp)
        if not moved:
            del self._moved[tp.topic, pair]
        if pair[0] != taker:
            self._note(tp, (pair[0], taker))

    def _note(self, tp: TopicPartition, pair: Pair) -> None:
        self._pairs[tp] = pair
        self._moved.setdefault((tp.topic, pair), JavaSet(partition_hash)).add(tp)

    def instead(self, tp: TopicPartition, giver: str, taker: str) -> TopicPartition:
        """Returns the partition to move: one of the same topic that came from the taker, if there is one."""
        source = self._pairs.get(tp, (giver, ""))[0]
        back = self._moved.get((tp.topic, (taker, source)))
        return tp if back is None else back.first()


class General:
    """Computes one assignment of members whose subscriptions differ.

    ``members`` are in the order in which they claim; ``kept`` has what each may keep.
    """

    def __init__(
        self,
        counts: Mapping[str, int],
        members: Sequence[Member],
        kept: Mapping[str, Sequence[TopicPartition]],
        claims: Mapping[str, Claim],
        racks: Racks,
    ) -> None:
        self._racks = racks
        self._topics = {member.id: {topic for topic in member.topics if topic in counts} for member in members}
        self._readers = {topic: [one.id for one in members if topic in one.topics] for topic in counts}
        self._all = [
            TopicPartition(topic, number)
            for topic in sorted(counts, key=lambda topic: (len(self._readers[topic]), topic))
            for number in range(counts[topic])
        ]
        self._assigned: Assignment = {
            member_id: [
                tp
                for tp in partitions
                if tp.topic in self._topics[member_id] and not (racks and racks.are_apart(member_id, tp))
            ]
            for member_id, partitions in kept.items()
        }
        self._must_revoke = any(len(self._assigned[each]) < len(kept[each]) for each in kept)
        self._owner = {tp: each for each, partitions in self._assigned.items() for tp in partitions}
        self._before = _before(claims)
        self._movements = Movements()
        self._ranking: list[tuple[int, str]] = []
        """Members ordered by the number of their partitions."""

    def assign(self) -> Assignment:
        """Returns each member's partitions."""
        free = [tp for tp in self._all if tp not in self._owner and self._readers[tp.topic]]
        was_empty = not any(self._assigned.values())
        self._ranking = sorted((len(partitions), each) for each, partitions in self._assigned.items())
        for tp in self._take_near(free) if self._racks else free:
            self._take(tp, self._least_of(tp.topic))
        settled = {each: self._assigned.pop(each) for each in list(self._assigned) if self._is_settled(each)}
        self._ranking = [row for row in self._ranking if row[1] not in settled]
        self._balance(free, was_empty)
        return self._assigned | settled

    def _least_of(self, topic: str) -> str:
        return next(each for _, each in self._ranking if topic in self._topics[each])

    def _take_near(self, free: Sequence[TopicPartition]) -> list[TopicPartition]:
        """Gives partitions to members in a replica's rack, or without a rack. Returns the rest."""
        left = []
        for tp in free:
            readers = (each for _, each in self._ranking if tp.topic in self._topics[each])
            taker = next((each for each in readers if not self._racks.are_apart(each, tp)), None)
            if taker is None:
                left.append(tp)
            else:
                self._take(tp, taker)
        return left

    def _take(self, tp: TopicPartition, member_id: str) -> None:
        self._rank(member_id, False)
        self._assigned[member_id].append(tp)
        self._owner[tp] = member_id
        self._rank(member_id, True)

    def _rank(self, member_id: str, there: bool) -> None:
        row = len(self._assigned[member_id]), member_id
        if there:
            insort(self._ranking, row)
        else:
            del self._ranking[bisect_left(self._ranking, row)]

    def _is_settled(self, member_id: str) -> bool:
        """Returns whether the member has all partitions that it can have, and no other member reads these topics."""
        count = sum(1 for tp in self._all if tp.topic in self._topics[member_id])
        mine = self._assigned[member_id]
        return len(mine) >= count and all(len(self._readers[tp.topic]) < 2 for tp in mine)

    # -- balance -------------------------------------------------------------------------------------

    def _balance(self, free: Sequence[TopicPartition], was_empty: bool) -> None:
        before = {each: list(partitions) for each, partitions in self._assigned.items()}
        if not self._must_revoke:
            self._reassign([tp for tp in free if len(self._readers[tp.topic]) > 1])
        moved = self._reassign([tp for tp in self._all if len(self._readers[tp.topic]) > 1])
        if moved and not was_empty and _unevenness(self._assigned) >= _unevenness(before):
            self._assigned = before

    def _reassign(self, partitions: Sequence[TopicPartition]) -> bool:
        """Moves partitions as long as that improves the balance. Returns whether any moved."""
        moved = False
        while True:
            again = False
            for tp in partitions:
                if self._is_balanced():
                    break
                again |= self._relocate(tp)
            moved |= again
            if not again:
                return moved

    def _relocate(self, tp: TopicPartition) -> bool:
        size = len(self._assigned[self._owner[tp]])
        before = self._before.get(tp, "")
        if before in self._readers[tp.topic] and size > len(self._assigned[before]) + 1:
            self._move(tp, before)
            return True
        if any(size > len(self._assigned[each]) + 1 for each in self._readers[tp.topic]):
            self._move(tp, self._least_of(tp.topic))
            return True
        return False

    def _move(self, tp: TopicPartition, taker: str) -> None:
        tp = self._movements.instead(tp, self._owner[tp], taker)
        giver = self._owner[tp]
        self._movements.move(tp, giver, taker)
        self._rank(giver, False)
        self._assigned[giver].remove(tp)
        self._rank(giver, True)
        self._take(tp, taker)

    def _is_balanced(self) -> bool:
        """Returns whether no member could take a partition from one that has two more."""
        if not self._ranking or self._ranking[0][0] >= self._ranking[-1][0] - 1:
            return True
        most: dict[str, int] = {}
        for partitions in self._assigned.values():
            for tp in partitions:
                most[tp.topic] = max(most.get(tp.topic, 0), len(partitions))
        return not any(size + 1 < most.get(topic, 0) for size, each in self._ranking for topic in self._topics[each])


def _before(claims: Mapping[str, Claim]) -> dict[TopicPartition, str]:
    """Returns the previous owner of each partition, from the latest generation before the last one."""
    last = max((-1 if claim.generation is None else claim.generation for claim in claims.values()), default=-1)
    owners: dict[TopicPartition, tuple[int, str]] = {}
    for member_id, (partitions, told) in claims.items():
        generation = -1 if told is None else told
        if generation == last:
            continue
        for tp in partitions:
            if tp not in owners or generation > owners[tp][0]:
                owners[tp] = generation, member_id
    return {tp: member_id for tp, (_, member_id) in owners.items()}


def _unevenness(assigned: Assignment) -> int:
    """Returns the sum of the differences between all pairs of shares."""
    sizes = sorted(map(len, assigned.values()))
    steps = enumerate(pairwise(sizes), 1)
    return sum((high - low) * place * (len(sizes) - place) for place, (low, high) in steps)
