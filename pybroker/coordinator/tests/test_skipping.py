"""Invalid records never prevent a partition of an internal topic from loading."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from cy.batch import InvalidBatch, iterate
from pybroker.cluster.metadata.image import OFFSETS_TOPIC
from pybroker.coordinator import loading
from pybroker.coordinator.group import records
from pybroker.coordinator.group.consumer import records as consumer_records
from pybroker.coordinator.group.offsets import CommittedOffset
from pybroker.coordinator.group.settings import GroupSettings
from pybroker.coordinator.group.shard import GroupShard
from pybroker.coordinator.shard import Record
from pybroker.coordinator.skipping import MOST_LOGGED, Skipped
from pybroker.coordinator.tests.harness import Node, code
from pybroker.topic_partition import TopicPartition
from pyclient.protocol import errors

LATER = b"\x00\x63"
"""A version of values that does not exist yet."""


def append(node: Node, *written: Record, group: str = "g") -> None:
    partition = TopicPartition(OFFSETS_TOPIC, node.groups.partition_of(group))
    for key, value in written:
        assert value is not None
        node.append_record(partition, key, value)


def restart(node: Node) -> None:
    node.stop()
    node.start()


@pytest.mark.parametrize(
    "record",
    [
        Record(records.group_key("g"), b"\x00\x03?"),
        Record(records.group_key("g"), LATER),
        Record(records.offset_key("g", "t", 1), LATER + b"\xff"),
        Record(b"\x00\x01\x00\x09g", b""),
        Record(b"\x00\x02", b"x"),
        Record(b"", b""),
        Record(consumer_records.group_key("g"), LATER),
        Record(b"\x00\x05\xff", b"\x00\x00"),
        Record(b"\x00\x63later", b"\x00\x00"),
    ],
)
def test_a_record_that_cannot_be_read_is_skipped_and_the_others_count(node: Node, record: Record) -> None:
    node.offsets_topic()
    node.run(node.commit(5))
    append(node, record)
    node.run(node.commit(7, partition=2))
    restart(node)
    assert node.committed() == {("t", 0): 5, ("t", 2): 7}
    assert code(node.run(node.commit(6))) == errors.NONE


@pytest.mark.parametrize("between", [0, 4_000])
def test_an_offset_that_cannot_be_read_leaves_the_one_before(node: Node, between: int) -> None:
    node.offsets_topic()
    node.run(node.commit(4))
    node.run(node.commit(5))
    for offset in range(between):
        node.run(node.commit(offset, partition=1))
    key = records.offset_key("g", "t", 0)
    append(node, Record(key, LATER), Record(key, b""))
    restart(node)
    assert node.committed()["t", 0] == 5


def test_a_group_that_is_written_again_after_an_unreadable_record_is_whole(node: Node) -> None:
    node.offsets_topic()
    append(node, Record(records.offset_key("g", "t", 0), LATER), Record(records.group_key("g"), LATER))
    restart(node)
    assert node.committed() == {}
    joined = node.run(node.join())
    assert joined.error_code == errors.NONE
    assert code(node.run(node.commit(9, "h"))) == errors.NONE
    append(node, records.offset_record("g", "t", 0, CommittedOffset(6, -1, "", 0)))
    restart(node)
    assert node.committed() == {("t", 0): 6}


def test_a_batch_with_unreadable_records_is_skipped(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    node.offsets_topic()
    node.run(node.commit(5))
    append(node, Record(b"poison", b""))
    node.run(node.commit(7, partition=2))
    node.stop()

    def broken(view: memoryview, **options: bool) -> Iterator[object]:
        for record in iterate(view, **options):
            if record.key == b"poison":
                raise InvalidBatch("a record is longer than its batch")
            yield record

    monkeypatch.setattr(loading, "iterate", broken)
    node.start()
    assert node.committed() == {("t", 0): 5, ("t", 2): 7}


def test_many_skipped_records_are_logged_once_and_counted(caplog: pytest.LogCaptureFixture) -> None:
    skipped = Skipped("p")
    for _ in range(1_000):
        assert not skipped.replay(GroupShard(GroupSettings(), str), Record(b"\0\2", b""), None)
    skipped.tell()
    assert len(caplog.records) == MOST_LOGGED + 1
    assert "1000 records" in caplog.records[-1].message
