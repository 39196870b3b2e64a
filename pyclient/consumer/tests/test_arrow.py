"""Consumed records as Arrow."""

from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cy.batch import Builder
from cy.consume.fetched import Chunk, Fetched
from cy.consume.record_columns import columns
from cy.consume.records import Records
from cy.crc32c import crc32c
from pyclient.consumer.arrow import record_batch, schema

CRC_AT = 17

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
def test_an_arrow_batch_has_the_same_fields_as_the_records(first: list, second: list) -> None:
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


def test_a_column_without_nulls_has_no_validity_bitmap() -> None:
    parts = columns(chunk_of("t", 0, [(1, b"k", None, [])]))
    assert parts.key.validity is None
    assert parts.value.validity == b"\0"


def test_poll_without_records_is_an_empty_batch() -> None:
    assert record_batch([]).num_rows == 0


def test_anything_but_chunks_is_refused() -> None:
    with pytest.raises(TypeError):
        columns(None)


@given(rows, st.sets(st.sampled_from(schema().names)))
def test_columns_that_are_left_out_do_not_change_the_others(each: list, names: set[str]) -> None:
    chunks = chunk_of("t", 3, each)
    whole = record_batch(chunks)
    some = record_batch(chunks, pa.schema([field for field in schema() if field.name in names]))
    some.validate(full=True)
    assert some.schema.names == [name for name in whole.schema.names if name in names]
    if names:
        assert some == whole.select(some.schema.names)


def test_timestamps_have_the_unit_of_the_schema_and_their_type() -> None:
    chunks = chunk_of("t", 0, [(1_700_000_000_123, None, b"v", [])])
    wanted = pa.schema([("timestamp", pa.timestamp("us", "UTC")), ("timestamp_type", pa.int32())])
    batch = record_batch(chunks, wanted)
    assert batch.column("timestamp").cast("int64").to_pylist() == [1_700_000_000_123_000]
    assert batch.column("timestamp_type").to_pylist() == [0]


def test_a_time_too_large_for_microseconds_is_clamped() -> None:
    chunks = chunk_of("t", 0, [(2**62, None, b"v", [])])
    batch = record_batch(chunks, pa.schema([("timestamp", pa.timestamp("us", "UTC"))]))
    assert batch.column("timestamp").cast("int64").to_pylist() == [2**63 - 1]


def with_headers(*rows: list[tuple[bytes, bytes | None]]) -> list[Chunk]:
    """Returns records whose header names are arbitrary bytes, as other clients may send them."""
    names = {f"h{number}": name for number, (name, _) in enumerate(pair for row in rows for pair in row)}
    stand_ins = iter(names)
    builder = Builder()
    for row in rows:
        builder.append(0, None, b"v", [(next(stand_ins), value) for _, value in row])
    batch = builder.build(7)
    for stand_in, name in names.items():
        assert len(stand_in) == len(name)
        batch = batch.replace(stand_in.encode(), name)
    batch = batch[:CRC_AT] + crc32c(batch[CRC_AT + 4 :]).to_bytes(4, "big") + batch[CRC_AT + 4 :]
    return [Fetched("t", 0, 7, batch).take(1000)]


def test_bytes_of_a_header_name_that_are_not_utf_8_are_replaced_as_in_a_record() -> None:
    chunks = with_headers([(b"\xff\xfe", b"1"), (b"ok", None)], [], [(b"\xc3\xa4", b"\xff")])
    batch = record_batch(chunks)
    batch.validate(full=True)
    told = [[(each["key"], each["value"]) for each in row] for row in batch.column("headers").to_pylist()]
    assert told == [record.headers for record in Records(chunks)]
    assert told == [[("\ufffd\ufffd", b"1"), ("ok", None)], [], [("ä", b"\xff")]]


def test_nullable_headers_are_null_for_a_record_without_headers() -> None:
    """Spark's ``kafka`` source does the same."""
    chunks = with_headers([], [(b"x1", None)], *[[]] * 9, [(b"x2", b"2")])
    field = schema().field("headers").with_nullable(True)
    batch = record_batch(chunks, pa.schema([field]))
    batch.validate(full=True)
    found = batch.column("headers").to_pylist()
    assert [row for row in found if row is not None] == [[{"key": "x1", "value": None}], [{"key": "x2", "value": b"2"}]]
    assert [number for number, row in enumerate(found) if row is not None] == [1, 11]
    assert record_batch([], pa.schema([field])).num_rows == 0
