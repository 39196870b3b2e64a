"""Plans where replicas go: as few moves as possible, then an even spread. Pure.

A replica stays where it is as long as its broker is wanted and the partition does not get fewer replicas. Missing
replicas go to the brokers that have the fewest. The first replica, which leads, stays first if it stays at all.
Otherwise the replica whose broker leads the fewest partitions comes first.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import TypeVar

import click

from cy.counted import counted

Key = TypeVar("Key", bound=tuple[str, int])
Replicas = tuple[int, ...]


def plan(now: Mapping[Key, Sequence[int]], brokers: Iterable[int], count: int | None = None) -> dict[Key, Replicas]:
    """Places each partition's replicas on ``brokers``. Each partition gets ``count`` replicas, by default as many as
    now.

    Raises UsageError if there are fewer brokers than replicas.
    """
    wanted = list(brokers)
    kept = {key: [each for each in now[key] if each in wanted] for key in sorted(now)}
    sizes = {key: len(now[key]) if count is None else count for key in kept}
    for key, size in sizes.items():
        if size > len(wanted):
            there = counted(len(wanted), "broker")
            raise click.UsageError(f"{key[0]}-{key[1]}: {size} replicas do not fit onto {there}")
        del kept[key][size:]
    load = Counter(each for replicas in kept.values() for each in replicas)
    leaders = Counter(kept[key][0] for key in kept if kept[key][:1] == list(now[key][:1]))
    return {key: placed(replicas, sizes[key], now[key], wanted, load, leaders) for key, replicas in kept.items()}


def placed(
    kept: list[int], size: int, now: Sequence[int], wanted: list[int], load: Counter[int], leaders: Counter[int]
) -> Replicas:
    """Places one partition's replicas; counts them in ``load`` and ``leaders``."""
    replicas = list(kept)
    while len(replicas) < size:
        free = [each for each in wanted if each not in replicas]
        least = min(free, key=lambda each: (load[each], leaders[each], wanted.index(each)))
        load[least] += 1
        replicas.append(least)
    if replicas[:1] != list(now[:1]):  # the leader has left
        first = min(replicas, key=lambda each: (leaders[each], replicas.index(each)))
        replicas.remove(first)
        replicas.insert(0, first)
        leaders[first] += 1
    return tuple(replicas)
