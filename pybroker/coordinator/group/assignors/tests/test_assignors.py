"""The guarantees of the server-side assignors, checked on many random groups."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Mapping

import pytest

from pybroker.coordinator.group.assignors import ASSIGNORS, Assignor
from pybroker.coordinator.group.assignors.spec import GroupSpec, MemberSpec, Partitions

T, U, V = (bytes([number]) * 16 for number in (1, 2, 3))


def group(
    counts: Mapping[bytes, int],
    members: Mapping[str, tuple[set[bytes], Partitions]],
    instances: Mapping[str, str] | None = None,
) -> GroupSpec:
    specs = {
        id: MemberSpec((instances or {}).get(id), frozenset(topics), had)
        for id, (topics, had) in members.items()
    }
    read = {topic for topics, _ in members.values() for topic in topics}
    alike = len({spec.topic_ids for spec in specs.values()}) <= 1
    return GroupSpec(specs, alike, {topic: counts[topic] for topic in counts if topic in read})


def loads(assigned: Mapping[str, Partitions]) -> dict[str, int]:
    return {id: sum(map(len, mine.values())) for id, mine in assigned.items()}


def check_complete(spec: GroupSpec, assigned: Mapping[str, Partitions]) -> None:
    """Checks that every partition has one member, which reads its topic."""
    owners = Counter(
        (topic, partition)
        for mine in assigned.values()
        for topic, partitions in mine.items()
        for partition in partitions
    )
    wanted = {(topic, each) for topic, n in spec.partition_counts.items() for each in range(n)}
    assert set(owners) == wanted
    assert set(owners.values()) <= {1}
    for id, mine in assigned.items():
        assert set(mine) <= spec.members[id].topic_ids
        assert all(mine.values()), "a topic without partitions is left out"


def kept(before: Mapping[str, Partitions], after: Mapping[str, Partitions]) -> int:
    """Returns how many partitions stay with the same member."""
    return sum(
        len(partitions & after.get(id, {}).get(topic, frozenset()))
        for id, mine in before.items()
        for topic, partitions in mine.items()
    )


def random_group(seed: int) -> tuple[random.Random, dict[bytes, int], GroupSpec]:
    dice = random.Random(seed)
    counts = {bytes([number]) * 16: dice.randint(1, 9) for number in range(dice.randint(1, 6))}
    topics = list(counts)
    alike = dice.random() < 0.5
    members = {}
    for number in range(dice.randint(1, 8)):
        mine = set(topics) if alike else set(dice.sample(topics, dice.randint(1, len(topics))))
        members[f"m{number}"] = (mine, {})
    return dice, counts, group(counts, members)


@pytest.mark.parametrize("assign", ASSIGNORS.values(), ids=list(ASSIGNORS))
@pytest.mark.parametrize("seed", range(60))
def test_every_partition_is_assigned_to_one_member_that_subscribes_to_it(seed: int, assign: Assignor) -> None:
    dice, counts, spec = random_group(seed)
    for _ in range(4):
        assigned = assign(spec)
        check_complete(spec, assigned)
        assert assign(spec) == assigned
        stay = [id for id in spec.members if len(spec.members) == 1 or dice.random() < 0.7]
        members = {
            id: (set(spec.members[id].topic_ids), assigned.get(id, {}))
            for id in stay or list(spec.members)[:1]
        }
        members[f"new{dice.random()}"] = (set(dice.sample(list(counts), 1)), {})
        spec = group(counts, members)


@pytest.mark.parametrize("seed", range(60))
def test_uniform_gives_members_with_the_same_topics_equal_shares_or_one_partition_more(seed: int) -> None:
    _, _, spec = random_group(seed)
    assigned = ASSIGNORS["uniform"](spec)
    by_topics: dict[frozenset[bytes], list[int]] = {}
    for id, load in loads(assigned).items():
        by_topics.setdefault(spec.members[id].topic_ids, []).append(load)
    for found in by_topics.values():
        assert max(found) - min(found) <= 1


@pytest.mark.parametrize("seed", range(60))
def test_uniform_moves_nothing_where_nothing_has_changed(seed: int) -> None:
    _, counts, spec = random_group(seed)
    assigned = ASSIGNORS["uniform"](spec)
    again = group(
        counts, {id: (set(m.topic_ids), assigned.get(id, {})) for id, m in spec.members.items()}
    )
    assert ASSIGNORS["uniform"](again) == assigned


def test_uniform_moves_only_the_share_of_a_new_member() -> None:
    had: dict[str, Partitions] = {"a": {T: frozenset(range(5))}, "b": {T: frozenset(range(5, 10))}}
    spec = group({T: 10}, {id: ({T}, mine) for id, mine in had.items()} | {"c": ({T}, {})})
    assigned = ASSIGNORS["uniform"](spec)
    assert sorted(loads(assigned).values()) == [3, 3, 4]
    assert kept(had, assigned) == 7


def test_uniform_distributes_the_partitions_of_a_leaving_member_and_moves_no_others() -> None:
    had: dict[str, Partitions] = {id: {T: frozenset({n, n + 3})} for n, id in enumerate("abc")}
    spec = group({T: 6}, {id: ({T}, had[id]) for id in "ab"})
    assigned = ASSIGNORS["uniform"](spec)
    assert loads(assigned) == {"a": 3, "b": 3}
    assert kept(had, assigned) == 4


def test_uniform_balances_overlapping_subscriptions() -> None:
    spec = group(
        {T: 6, U: 6, V: 6},
        {"a": ({T}, {}), "b": ({T, U}, {}), "c": ({U, V}, {}), "d": ({V}, {})},
    )
    found = loads(ASSIGNORS["uniform"](spec))
    assert max(found.values()) - min(found.values()) <= 2
    assert sum(found.values()) == 18


def test_uniform_unassigns_topics_that_no_member_subscribes_to() -> None:
    had = {T: frozenset({0, 1}), U: frozenset({0, 1})}
    spec = group({T: 2, U: 2}, {"a": ({T}, had), "b": ({T}, {})})
    assert loads(ASSIGNORS["uniform"](spec)) == {"a": 1, "b": 1}


def test_range_assigns_consecutive_partitions_by_instance_id_then_member_id() -> None:
    spec = group(
        {T: 7, U: 3},
        {id: ({T, U}, {}) for id in ("x", "a", "s2", "s1")},
        {"s1": "one", "s2": "two"},
    )
    assert ASSIGNORS["range"](spec) == {
        "s1": {T: frozenset({0, 1}), U: frozenset({0})},
        "s2": {T: frozenset({2, 3}), U: frozenset({1})},
        "a": {T: frozenset({4, 5}), U: frozenset({2})},
        "x": {T: frozenset({6})},
    }


def test_range_counts_only_the_subscribers_of_a_topic() -> None:
    spec = group({T: 4, U: 4}, {"a": ({T}, {}), "b": ({T, U}, {})})
    assert ASSIGNORS["range"](spec) == {
        "a": {T: frozenset({0, 1})},
        "b": {T: frozenset({2, 3}), U: frozenset(range(4))},
    }


@pytest.mark.parametrize("assign", ASSIGNORS.values(), ids=list(ASSIGNORS))
def test_a_group_without_subscriptions_gets_no_partitions(assign: Assignor) -> None:
    spec = group({}, {"a": (set(), {}), "b": (set(), {})})
    assert not any(assign(spec).values())
