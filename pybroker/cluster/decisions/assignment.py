"""Assigns replicas to brokers. It spreads them first over places (racks, hosts), then over brokers.

The brokers form a circle in which neighbours are in different places if possible. The first replica of partition p, its
preferred leader, is p steps from a random start, so that leaders are spread evenly. For each further replica, a walk
around the circle takes the next broker in a place with the fewest replicas of the partition. The start of this walk
shifts after each full circle, so that the followers of one leader are not always the same.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from itertools import chain, zip_longest

from cy.counted import counted
from pyclient.protocol import errors

Places = Mapping[int, str | None]
Replicas = tuple[int, ...]


def assign(
    places: Places, partitions: int, replication_factor: int, *, start: int, first: int = 0
) -> list[Replicas]:
    """Returns the replicas of partitions ``first`` … ``first + partitions - 1``.

    ``places`` is the rack of each broker (None: a place of its own). ``start`` is any number, the same for all
    partitions of a topic. Raises InvalidReplicationFactor.
    """
    check_replication_factor(replication_factor, len(places))
    circle = _circle(places)
    place = {broker: _place(places, broker) for broker in circle}
    period = len(circle) * max(1, len(circle) - 1)  # the pattern repeats after so many partitions
    different = [
        _replicas(circle, place, start + index, index // len(circle), replication_factor)
        for index in range(first, first + min(partitions, period))
    ]
    return [different[number % period] for number in range(partitions)]


def check_replication_factor(replication_factor: int, brokers: int) -> None:
    """Raises InvalidReplicationFactor if there are too few brokers, or if the number is below 1."""
    if replication_factor < 1:
        raise errors.InvalidReplicationFactor(
            "Replication factor must be larger than 0, or -1 to use the default value."
        )
    if replication_factor > brokers:
        raise errors.InvalidReplicationFactor(
            f"Unable to replicate the partition {replication_factor} time(s): The target replication factor of "
            f"{replication_factor} cannot be reached because only {brokers} broker(s) are registered."
        )


def _circle(places: Places) -> list[int]:
    by_place: dict[str, list[int]] = defaultdict(list)
    for broker in sorted(places):
        by_place[_place(places, broker)].append(broker)
    rows = zip_longest(*(by_place[place] for place in sorted(by_place)))
    return [broker for broker in chain.from_iterable(rows) if broker is not None]


def _place(places: Places, broker: int) -> str:
    rack = places[broker]
    return f"broker {broker}" if rack is None else f"rack {rack}"


def _replicas(
    circle: Sequence[int], place: Mapping[int, str], position: int, shift: int, count: int
) -> Replicas:
    size = len(circle)
    chosen = [circle[position % size]]
    others = size - 1
    walk = [circle[(position + 1 + (shift + step) % others) % size] for step in range(others)]
    used = Counter([place[chosen[0]]])
    while len(chosen) < count:
        nearest = min(walk, key=lambda broker: used[place[broker]])
        walk.remove(nearest)
        used[place[nearest]] += 1
        chosen.append(nearest)
    return tuple(chosen)


def check_manual(assignments: Sequence[Sequence[int]], places: Places, factor: int) -> None:
    """Checks an assignment that a user made; each partition must have ``factor`` replicas. Raises
    InvalidReplicaAssignment.
    """
    for index, replicas in enumerate(assignments):
        complaint = _complaint(replicas, places, factor)
        if complaint:
            raise errors.InvalidReplicaAssignment(f"assignment {index}: {complaint}")


def _complaint(replicas: Sequence[int], places: Places, factor: int) -> str | None:
    if not replicas:
        return "it has no replica"
    if len(set(replicas)) != len(replicas):
        return f"{list(replicas)} names a broker twice"
    for broker in replicas:
        if broker not in places:
            return f"broker {broker} is not registered"
    if len(replicas) != factor:
        return f"{list(replicas)} has {counted(len(replicas), 'replica')}, but others have {factor}"
    return None
