"""Consumed records as Arrow."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cy.batch import Builder
from cy.fetched import Chunk, Fetched
from cy.record_columns import columns
from cy.records import Records
from pyclient.consumer.arrow import record_batch, schema

optional_bytes = st.none() | st.binary(max_size=30)
rows = st.lists(
    st.tuples(
        st.integers(0, 2**41),
        optional_bytes,
        optional_bytes,
        st.lists(st.tuples(st.text(max_size=4), optional_bytes), max_size=3),
    ),
    max_size=20,
)


def chunk_of(topic: str, partition: int, each: list) -> list[Chunk]:
    if not each:
        return []
    builder = Builder()
    for row in each:
        builder.append(*row)
    return [Fetched(topic, partition, 7, builder.build(7)).take(1000)]


@given(rows, rows)
def test_arrow_says_what_the_records_say(first: list, second: list) -> None:
    chunks = chunk_of("tä", 1, first) + chunk_of("u", 2, second)
    batch = record_batch(chunks)
    batch.validate(full=True)
    assert batch.schema == schema()
    told = [
        {
            "topic": record.topic,
            "partition": record.partition,
            "offset": record.offset,
            "key": record.key,
            "value": record.value,
            "headers": [{"key": key, "value": value} for key, value in record.headers],
        }
        for record in Records(chunks)
    ]
    assert batch.drop_columns(["timestamp"]).to_pylist() == told
    stamps = [record.timestamp for record in Records(chunks)]
    assert batch.column("timestamp").cast("int64").to_pylist() == stamps


def test_nulls_cost_no_bitmap_where_there_are_none() -> None:
    parts = columns(chunk_of("t", 0, [(1, b"k", None, [])]))
    assert parts.key.validity is None
    assert parts.value.validity == b"\0"


def test_poll_without_records_is_an_empty_batch() -> None:
    assert record_batch([]).num_rows == 0


def test_chunks_are_wanted() -> None:
    with pytest.raises(TypeError):
        columns(None)
