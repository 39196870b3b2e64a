"""The map for loops without the GIL holds the same items as a dict."""

from __future__ import annotations

import random

from cy.int64_map import Int64Map

#: Multiples of 2^48: the low bits of their products are all alike.
HOSTILE = [key << 48 for key in range(-20_000, 20_000)]


def test_an_int64_map_holds_the_same_items_as_a_dict() -> None:
    chance = random.Random(1)
    ours, theirs = Int64Map(), dict[int, int]()
    for _ in range(50_000):
        key = chance.randrange(-500, 500)
        if chance.random() < 0.4:
            assert ours.discard(key) == (theirs.pop(key, None) is not None)
        else:
            ours.set(key, theirs.setdefault(key, chance.randrange(1 << 40)))
        assert len(ours) == len(theirs)
    assert {key: ours.get(key) for key in theirs} == theirs
    assert ours.get(1_000) is None
    assert ours.get(1_000, -1) == -1


def test_an_int64_map_accepts_the_smallest_and_largest_int64() -> None:
    ours = Int64Map([(-(1 << 63), 1), ((1 << 63) - 1, 2), (0, 3)])
    assert [ours.get(key) for key in (-(1 << 63), (1 << 63) - 1, 0)] == [1, 2, 3]


def test_many_keys_that_differ_in_their_highest_bits_only_are_all_found() -> None:
    ours = Int64Map((key, place) for place, key in enumerate(HOSTILE))
    assert all(ours.get(key) == place for place, key in enumerate(HOSTILE))
