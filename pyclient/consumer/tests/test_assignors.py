"""Assignors: Kafka's documented assignments, and what holds for every group."""

from __future__ import annotations

import struct
from collections.abc import Iterable
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pyclient.consumer.assignors import ASSIGNORS
from pyclient.consumer.assignors.spec import Assignment, Member
from pyclient.consumer.assignors.sticky import decode, encode
from pyclient.topic_partition import TopicPartition


def members(**topics: str) -> list[Member]:
    """Returns members from ``members(c1="t0 t1")``: their names and topics."""
    return [Member(name, tuple(names.split())) for name, names in topics.items()]


def shown(assignment: Assignment) -> dict[str, str]:
    return {name: " ".join(map(str, partitions)) for name, partitions in assignment.items()}


def test_range_assigns_each_topic_in_ranges() -> None:
    assigned = ASSIGNORS["range"].assign({"t0": 3, "t1": 3}, members(c0="t0 t1", c1="t0 t1"))
    assert shown(assigned) == {"c0": "t0-0 t0-1 t1-0 t1-1", "c1": "t0-2 t1-2"}


def test_range_puts_static_members_first() -> None:
    group = [Member("a", ("t",)), Member("z", ("t",), "instance")]
    assert shown(ASSIGNORS["range"].assign({"t": 1}, group)) == {"a": "", "z": "t-0"}


def test_round_robin_deals_all_partitions() -> None:
    assigned = ASSIGNORS["roundrobin"].assign({"t0": 3, "t1": 3}, members(c0="t0 t1", c1="t0 t1"))
    assert shown(assigned) == {"c0": "t0-0 t0-2 t1-1", "c1": "t0-1 t1-0 t1-2"}


def test_round_robin_skips_members_that_do_not_subscribe_to_the_topic() -> None:
    assigned = ASSIGNORS["roundrobin"].assign(
        {"t0": 1, "t1": 2, "t2": 3}, members(c0="t0", c1="t0 t1", c2="t0 t1 t2")
    )
    assert shown(assigned) == {"c0": "t0-0", "c1": "t1-0", "c2": "t1-1 t2-0 t2-1 t2-2"}


groups = st.tuples(
    st.dictionaries(st.sampled_from(["a", "b", "c"]), st.integers(1, 7), min_size=1),
    st.lists(st.sets(st.sampled_from(["a", "b", "c"]), min_size=1), min_size=1, max_size=5),
)


def made(reads: list[set[str]], owned: Assignment | None = None, generation: int = -1) -> list[Member]:
    before = owned or {}
    return [
        having(f"m{n}", sorted(topics), before.get(f"m{n}", ()), generation) for n, topics in enumerate(reads)
    ]


def having(name: str, topics: Iterable[str], owned: Iterable[TopicPartition], generation: int) -> Member:
    """Returns a member with owned partitions, encoded as both sticky assignors expect them."""
    had = tuple(owned)
    return Member(name, tuple(topics), owned=had, generation=generation, user_data=encode(had, generation))


def check_whole(counts: dict[str, int], group: list[Member], assigned: Assignment) -> None:
    read = {topic for member in group for topic in member.topics}
    expected = sorted(TopicPartition(t, n) for t, count in counts.items() if t in read for n in range(count))
    assert sorted(tp for partitions in assigned.values() for tp in partitions) == expected
    for member in group:
        assert {tp.topic for tp in assigned[member.id]} <= set(member.topics)


@pytest.mark.parametrize("name", list(ASSIGNORS))
@given(group=groups)
@settings(max_examples=50)
def test_every_partition_is_assigned_to_one_member(name: str, group: tuple[dict[str, int], list[set[str]]]) -> None:
    counts, reads = group
    check_whole(counts, made(reads), ASSIGNORS[name].assign(counts, made(reads)))


@given(groups, st.data())
@settings(max_examples=100)
def test_sticky_is_balanced_and_keeps_what_it_can(
    group: tuple[dict[str, int], list[set[str]]], data: st.DataObject
) -> None:
    counts, reads = group
    assign = ASSIGNORS["sticky"].assign
    before = assign(counts, made(reads))
    assert assign(counts, made(reads, before, 1)) == before
    gone = data.draw(st.integers(0, len(reads) - 1))
    left = [member for member in made(reads, before, 1) if member.id != f"m{gone}"]
    if left:
        after = assign(counts, left)
        check_whole(counts, left, after)
        for member in left:
            for tp in after[member.id]:
                least = min(len(after[other.id]) for other in left if tp.topic in other.topics)
                assert len(after[member.id]) - least < 2


def test_members_keep_all_their_partitions_when_another_leaves() -> None:
    assign = ASSIGNORS["sticky"].assign
    before = assign({"t": 12}, members(a="t", b="t", c="t", d="t"))
    after = assign({"t": 12}, [having(name, "t", before[name], 1) for name in "abc"])
    assert all(set(before[name]) < set(after[name]) for name in "abc")
    assert [len(partitions) for partitions in after.values()] == [4, 4, 4]


def test_the_member_with_the_later_generation_keeps_a_partition_that_two_claim() -> None:
    one = (TopicPartition("t", 0),)
    group = [having("a", "t", one, 4), having("b", "t", one, 5)]
    assert shown(ASSIGNORS["sticky"].assign({"t": 1}, group)) == {"a": "", "b": "t-0"}


def test_cooperative_revokes_first_and_assigns_in_the_next_round() -> None:
    assign = ASSIGNORS["cooperative-sticky"].assign
    all_of_it = tuple(TopicPartition("t", n) for n in range(4))
    first = assign({"t": 4}, [Member("a", ("t",), owned=all_of_it, generation=1), Member("b", ("t",))])
    assert [len(first["a"]), first["b"]] == [2, []]
    second = assign({"t": 4}, [Member("a", ("t",), owned=tuple(first["a"]), generation=2), Member("b", ("t",))])
    assert second["a"] == first["a"]
    assert len(second["b"]) == 2


@given(st.dictionaries(st.text(min_size=1, max_size=5), st.lists(st.integers(0, 99), min_size=1), max_size=3))
def test_user_data_is_decoded_as_it_was_encoded(topics: dict[str, list[int]]) -> None:
    owned = [TopicPartition(topic, number) for topic, numbers in topics.items() for number in numbers]
    assert decode(encode(owned, 6)) == (owned, 6)


@given(st.binary(max_size=30))
def test_foreign_user_data_is_ignored(noise: bytes) -> None:
    try:
        decode(noise)
    except struct.error:
        raise AssertionError("it is caught") from None


def test_assignors_have_kafkas_names() -> None:
    assert list(ASSIGNORS) == ["range", "roundrobin", "sticky", "cooperative-sticky"]
    assert [a.cooperative for a in ASSIGNORS.values()] == [False, False, False, True]
    assert all(a != b for a, b in pairwise(ASSIGNORS))
