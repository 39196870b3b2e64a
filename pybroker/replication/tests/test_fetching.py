"""When a fetch is answered, and how its limits are shared out (KIP-74)."""

from __future__ import annotations

from pybroker.replication.fetch_partition import FetchPartition
from pybroker.replication.fetching import Fetch
from pybroker.replication.tests.harness import NOW, Node, batch, values

SIZE = len(batch(b"x" * 100))


def fetch(
    node: Node,
    *offsets: int,
    min_bytes: int = 1,
    max_bytes: int = 1 << 20,
    partition_bytes: int = 1 << 20,
) -> Fetch:
    """Returns a fetch from the partitions 0… of topic t at these offsets."""
    wanted = [FetchPartition("t", bytes(16), index, offset, partition_bytes) for index, offset in enumerate(offsets)]
    return Fetch(wanted, node.replicas.resolve, min_bytes=min_bytes, max_bytes=max_bytes)


def fill(node: Node, index: int, count: int = 1) -> None:
    for _ in range(count):
        node.append(b"x" * 100, index=index)


def sizes(each: Fetch) -> list[int]:
    return [read.size for read in each.reads]


def test_first_partition_with_records_gives_a_batch_of_any_size(node: Node) -> None:
    node.create(partitions=3)
    fill(node, 1, 2)
    fill(node, 2)
    each = fetch(node, 0, 0, 0, max_bytes=12, partition_bytes=12)
    assert each.read_all()
    assert sizes(each) == [0, SIZE, 0]


def test_later_partitions_get_what_is_left_in_order(node: Node) -> None:
    node.create(partitions=3)
    for index in range(3):
        fill(node, index, 2)
    each = fetch(node, 0, 0, 0, max_bytes=3 * SIZE + 10)
    each.read_all()
    assert sizes(each) == [2 * SIZE, SIZE, 0]
    each = fetch(node, 0, 0, 0, partition_bytes=SIZE)
    each.read_all()
    assert sizes(each) == [SIZE, SIZE, SIZE]


def test_fetch_of_nothing_is_answered_at_once(node: Node) -> None:
    assert fetch(node).read_all()


def test_error_is_answered_at_once_and_others_are_read(node: Node) -> None:
    node.create(partitions=2)
    fill(node, 1)
    each = fetch(node, 5, 0, 0, min_bytes=1 << 20)
    assert each.read_all()
    assert [read.error.name if read.error else None for read in each.reads] == [
        "OFFSET_OUT_OF_RANGE",
        None,
        "UNKNOWN_TOPIC_OR_PARTITION",
    ]
    assert each.size == SIZE
    assert each.reads[0].high_watermark == -1


def test_min_bytes_counts_all_partitions(node: Node) -> None:
    node.create(partitions=2)
    each = fetch(node, 0, 0, min_bytes=2 * SIZE)
    assert not each.read_all()
    fill(node, 1)
    assert not each.read_again(1)
    fill(node, 0)
    assert each.read_again(0)
    assert sizes(each) == [SIZE, SIZE]
    assert values(each.reads[0].records) == [b"x" * 100]


def test_min_bytes_never_asks_for_more_than_max_bytes(node: Node) -> None:
    node.create()
    fill(node, 0)
    assert fetch(node, 0, min_bytes=1 << 20, max_bytes=SIZE).read_all()


def test_min_bytes_of_zero_is_answered_at_once(node: Node) -> None:
    node.create()
    assert fetch(node, 0, min_bytes=0).read_all()


def test_reading_again_counts_a_partition_once(node: Node) -> None:
    node.create()
    fill(node, 0)
    each = fetch(node, 0, min_bytes=3 * SIZE)
    assert not each.read_all()
    for _ in range(5):
        assert not each.read_again(0)
    assert each.size == SIZE


def test_partition_that_disappears_answers_the_fetch(node: Node) -> None:
    node.create()
    each = fetch(node, 0)
    assert not each.read_all()
    node.delete()
    assert each.read_again(0)
    assert each.reads[0].error is not None


def test_a_fetch_ignores_the_timestamps_of_records(node: Node) -> None:
    partition = node.create()
    partition.append(batch(b"old", timestamp=1), 1, NOW)
    each = fetch(node, 0)
    assert each.read_all()
