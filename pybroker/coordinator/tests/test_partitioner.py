from __future__ import annotations

import pytest

from pybroker.coordinator.partitioner import java_hash, partition_for


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
def test_the_hash_is_javas(text: str, value: int) -> None:
    assert java_hash(text) == value


def test_the_smallest_hash_has_a_partition() -> None:
    assert partition_for("polygenelubricants", 50) == 0


def test_groups_are_where_kafka_has_them() -> None:
    assert partition_for("g1", 50) == 42
