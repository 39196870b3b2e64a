from __future__ import annotations

import pytest

from pybroker.coordinator.partitioner import java_hash, partition_for
from pybroker.short_cache import LONGEST, cached_if_short


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("", 0),
        ("a", 97),
        ("console-consumer-46965", 161351061),
        ("ä€", 15432),
        ("😀", 1772899),
        ("polygenelubricants", 0x80000000),
    ],
)
def test_the_partitioner_uses_the_hash_of_java(text: str, value: int) -> None:
    assert java_hash(text) == value


def test_the_smallest_hash_has_a_partition() -> None:
    assert partition_for("polygenelubricants", 50) == 0


def test_a_group_has_the_same_offsets_partition_as_in_kafka() -> None:
    assert partition_for("g1", 50) == 42


def test_results_of_long_texts_are_not_cached() -> None:
    """The defect: thousands of names of 32 KB each were cached. A client may choose any names of groups."""
    made: list[tuple[str, int]] = []

    @cached_if_short(2)
    def make(text: str, number: int) -> int:
        made.append((text, number))
        return number

    short, long = "g" * LONGEST, "g" * (LONGEST + 1)
    assert [make(short, 1), make(short, 1), make(long, 1), make(long, 1), make(short, 2)] == [1, 1, 1, 1, 2]
    assert made == [(short, 1), (long, 1), (long, 1), (short, 2)]
