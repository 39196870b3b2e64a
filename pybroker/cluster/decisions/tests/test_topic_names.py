"""Which topic names collide, and the cost of finding out."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from pybroker.cluster.decisions.topic_names import Collisions
from pyclient.protocol import errors

MANY = 20
SOME = [f"other_{n}" for n in range(1000)]


class Names(set[str]):
    """Names that may be looked up, but not iterated."""

    def __iter__(self) -> Iterator[str]:
        raise AssertionError("all names are gone through")


@pytest.mark.parametrize("name", ["plain", "a.b", "a_b_c", "__x__", "......"])
def test_the_time_to_check_a_topic_name_does_not_grow_with_the_number_of_topics(name: str) -> None:
    Collisions(Names(SOME)).check(name)


def test_all_topic_names_are_scanned_if_that_is_cheaper_than_look_ups() -> None:
    for name, new in ((".......", 1), ("a.b", 1000), ("." * 249, 1)):
        with pytest.raises(AssertionError, match="gone through"):
            Collisions(Names(SOME), new).check(name)


@pytest.mark.parametrize(
    ("name", "other"),
    [("a_b", "a.b"), (".", "_"), ("a_b.c_d", "a_b_c.d"), ("x" + "._" * MANY, "x" + "__" * MANY)],
)
def test_similar_names_collide(name: str, other: str) -> None:
    for one, two in ((name, other), (other, name)):
        for existing in ([one], [one, *SOME]):
            with pytest.raises(errors.InvalidTopicException, match="collides with existing topic"):
                Collisions(existing).check(two)
        collisions = Collisions([])
        collisions.add(one)
        with pytest.raises(errors.InvalidTopicException):
            collisions.check(two)


@pytest.mark.parametrize("other", ["ab", "a.c", "b.b", "a-b", "a.b.", ".a.b", "a.bb"])
def test_other_names_do_not_collide(other: str) -> None:
    Collisions([other]).check("a.b")
    Collisions([other, *SOME]).check("a.b")
    Collisions([other + "." * MANY]).check("a.b" + "_" * MANY)
