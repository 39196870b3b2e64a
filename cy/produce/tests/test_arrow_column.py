"""Arrow columns become batches, compared with pyarrow."""

from __future__ import annotations

import pyarrow as pa
import pytest

from cy.batch import iterate
from cy.produce.arrow_column import ArrowColumn
from cy.produce.deliveries import Deliveries
from cy.produce.murmur2 import partition_for_key
from cy.produce.record_queues import RecordQueues

KINDS = [pa.binary(), pa.large_binary(), pa.string(), pa.large_string()]


def make(partitions, **settings):
    queues = RecordQueues(clock=lambda: 0.0, **settings)
    queues.set_partitions("t", partitions)
    queues.attach(lambda: None)
    return queues


def drained(queues, partition):
    found = []
    queue = queues.topic("t").queues[partition]
    for batch in queue.batches():
        queue.remove(batch)
        batch.seal()
        batch.assign()
        found += [(record.key, record.value) for record in iterate(batch.records)]
        batch.complete(0)
        queues.release(batch)
    return [tuple(None if each is None else bytes(each) for each in pair) for pair in found]


@pytest.mark.parametrize("kind", KINDS, ids=str)
def test_slices_with_nulls_are_read_unchanged(kind):
    values = ["a", None, "", "bcd", "e" * 300, None, "f"]
    column = ArrowColumn(pa.array(values, kind).slice(1, 5))
    assert list(column[row] for row in range(len(column))) == [
        None if value is None else value.encode() for value in values[1:6]
    ]


def test_other_types_are_refused():
    with pytest.raises(TypeError, match="cast"):
        ArrowColumn(pa.array([1, 2]))


@pytest.mark.parametrize("kind", KINDS, ids=str)
def test_rows_become_records_in_order_while_memory_lasts(kind):
    values = [None if number % 5 == 0 else str(number) * 10 for number in range(3000)]
    column = ArrowColumn(pa.array(values, kind))
    queues = make(1, buffer_memory=40_000, max_request_size=16_000)
    deliveries, at, found = Deliveries(3000, 1), 0, []
    while at < 3000:
        at = queues.add_many("t", column, None, at, None, 1, deliveries)
        found += drained(queues, 0)
    assert [value for _, value in found] == [value and value.encode() for value in values]
    assert deliveries.result(0) == 3000
    assert queues.used == 0


def test_keys_go_to_the_same_partition_as_in_kafka():
    keys = [None if number % 7 == 0 else b"%d" % (number % 50) for number in range(1000)]
    queues = make(3)
    deliveries = Deliveries(1000, 1)
    columns = ArrowColumn(pa.array([b"v"] * 1000)), ArrowColumn(pa.array(keys, pa.binary()))
    assert queues.add_many("t", *columns, 0, None, 1, deliveries) == 1000
    for number, key in enumerate(keys):
        if key is not None:
            assert deliveries[number].partition == partition_for_key(key, 3)
    for partition in range(3):
        here = [key for key in keys if key is not None and partition_for_key(key, 3) == partition]
        assert [key for key, _ in drained(queues, partition) if key is not None] == here


def test_columns_are_queued_after_earlier_records():
    queues = make(1)
    queues.direct = True
    queues.send("t", b"first")
    queues.add_many("t", ArrowColumn(pa.array([b"second"])), None, 0, None, 1, Deliveries(1, 1))
    queues.send("t", b"third")
    assert [value for _, value in drained(queues, 0)] == [b"first", b"second", b"third"]
