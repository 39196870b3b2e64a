"""Taking records out of a fetch: positions, cut and damaged batches, markers, aborted transactions."""

from __future__ import annotations

import contextlib
import pickle
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cy.batch import Builder, CorruptBatch, InvalidBatch
from cy.batch.compression import Codec, CompressionError
from cy.consume.fetched import Fetched, LegacyBatch
from cy.consume.records import Record, Records
from cy.consume.value_reader import Reader

Row = tuple[int, bytes | None, bytes | None, list[tuple[str, bytes | None]]]
optional_bytes = st.none() | st.binary(max_size=40)
rows = st.lists(
    st.tuples(
        st.integers(0, 2**53),
        optional_bytes,
        optional_bytes,
        st.lists(st.tuples(st.text(max_size=5), optional_bytes), max_size=3),
    ),
    min_size=1,
    max_size=12,
)


def batch(base: int, values: list[bytes], **options: int) -> bytes:
    builder = Builder(**options)
    for value in values:
        builder.append(1000, None, value)
    return builder.build(base, leader_epoch=7)


def marker(offset: int, producer_id: int, kind: int) -> bytes:
    builder = Builder(producer_id=producer_id, producer_epoch=0, transactional=True, control=True)
    builder.append(0, struct.pack(">hh", 0, kind), struct.pack(">hi", 0, 0))
    return builder.build(offset)


def drain(fetched: Fetched, limit: int = 3) -> list[Record]:
    records: list[Record] = []
    while not fetched.is_done:
        chunk = fetched.take(limit)
        if chunk is not None:
            assert chunk.count <= limit
            records += Records([chunk])
    return records


def values_of(fetched: Fetched) -> list[bytes]:
    return [record.value for record in drain(fetched)]


@given(st.lists(st.tuples(rows, st.sampled_from(Codec)), min_size=1, max_size=4), st.integers(1, 9))
def test_every_record_is_returned_once_as_written(batches: list[tuple[list[Row], Codec]], limit: int) -> None:
    data, wanted, offset = b"", [], 100
    for each, codec in batches:
        builder = Builder(codec=codec)
        for row in each:
            builder.append(*row)
            wanted.append((offset, *row))
            offset += 1
        data += builder.build(offset - len(each))
    fetched = Fetched("t", 3, 100, data)
    records = drain(fetched, limit)
    assert [(r.offset, r.timestamp, r.key, r.value, r.headers) for r in records] == wanted
    assert fetched.next_offset == fetched.end_offset == offset
    assert {(r.topic, r.partition) for r in records} == {("t", 3)}


@pytest.mark.parametrize("codec", [Codec.NONE, Codec.ZSTD])
def test_records_before_the_position_are_skipped(codec: Codec) -> None:
    data = batch(0, [b"a", b"b"], codec=codec) + batch(2, [b"c", b"d", b"e"], codec=codec)
    assert values_of(Fetched("t", 0, 3, data)) == [b"d", b"e"]


def test_a_truncated_last_batch_is_left_for_the_next_fetch() -> None:
    data = batch(0, [b"a"]) + batch(1, [b"b"])[:-1]
    fetched = Fetched("t", 0, 0, data)
    assert (fetched.end_offset, fetched.last_epoch) == (1, 7)
    assert values_of(fetched) == [b"a"]
    assert fetched.next_offset == 1


def test_the_position_advances_past_compacted_offsets() -> None:
    builder = Builder()
    builder.append(0, None, b"a", offset_delta=0)
    builder.append(0, None, b"b", offset_delta=9)
    data = builder.build(10)
    fetched = Fetched("t", 0, 10, data)
    assert [record.offset for record in drain(fetched)] == [10, 19]
    assert fetched.next_offset == 20


def test_a_damaged_batch_is_refused_after_the_records_before_it() -> None:
    bad = bytearray(batch(1, [b"bbbb"]))
    bad[-3] ^= 1
    fetched = Fetched("t", 0, 0, batch(0, [b"a"]) + bytes(bad))
    chunk = fetched.take(10)
    assert chunk is not None
    assert chunk.count == 1
    for _ in range(2):
        with pytest.raises(CorruptBatch, match="t-0, offset 1"):
            fetched.take(10)
    assert fetched.next_offset == 1


def test_damage_is_not_checked_without_check_crcs() -> None:
    bad = bytearray(batch(0, [b"bbbb"]))
    bad[-3] ^= 1
    assert len(drain(Fetched("t", 0, 0, bytes(bad), check_crcs=False))) == 1


def test_a_batch_that_does_not_decompress_is_refused_after_the_records_before_it() -> None:
    good, bad = batch(0, [b"a", b"b"]), bytearray(batch(2, [b"c" * 100] * 3, codec=Codec.GZIP))
    bad[61:] = bytes(len(bad) - 61)
    fetched = Fetched("t", 0, 0, good + bytes(bad), check_crcs=False)
    chunk = fetched.take(100)
    assert chunk is not None
    assert [record.value for record in Records([chunk])] == [b"a", b"b"]
    for _ in range(2):
        with pytest.raises(InvalidBatch, match="cannot be decompressed"):
            fetched.take(100)
    assert fetched.next_offset == 2


def test_record_that_does_not_parse_is_refused() -> None:
    bad = bytearray(batch(0, [b"a"]))
    bad[61] = 0x7F
    with pytest.raises(InvalidBatch, match="runs past"):
        Fetched("t", 0, 0, bytes(bad), check_crcs=False).take(1)


def test_the_error_names_a_batch_of_an_old_format() -> None:
    fetched = Fetched("t", 0, 0, b"\0" * 11 + b"\x20" + b"\0" * 40)
    assert not fetched.is_readable
    with pytest.raises(LegacyBatch):
        fetched.take(1)


def test_an_empty_fetch_returns_no_record() -> None:
    fetched = Fetched("t", 0, 5, b"")
    assert fetched.take(1) is None
    assert (fetched.is_done, fetched.next_offset, fetched.end_offset) == (True, 5, 5)


def test_aborted_records_are_filtered_until_the_marker() -> None:
    txn = {"producer_epoch": 0, "base_sequence": 0, "transactional": True}
    data = (
        batch(0, [b"plain"])
        + batch(1, [b"gone"], producer_id=4, **txn)
        + batch(2, [b"other"], producer_id=5, **txn)
        + batch(3, [b"gone too"], producer_id=4, **txn)
        + marker(4, 4, 0)
        + batch(5, [b"kept"], producer_id=4, **txn)
        + marker(6, 4, 1)
    )
    fetched = Fetched("t", 0, 0, data, aborted=[(4, 1)])
    assert values_of(fetched) == [b"plain", b"other", b"kept"]
    assert fetched.next_offset == 7
    everything = Fetched("t", 0, 0, data)
    assert len(drain(everything)) == 5


def test_the_log_append_time_is_the_brokers_time() -> None:
    builder = Builder(log_append_time=True)
    builder.append(5, None, b"v")
    builder.append(9, None, b"v")
    first, second = drain(Fetched("t", 0, 0, builder.build()))
    assert (first.timestamp, first.timestamp_type) == (9, 1)
    assert second.timestamp == 9


def test_records_behave_like_a_list() -> None:
    fetched = Fetched("t", 0, 0, batch(0, [b"%d" % n for n in range(7)]))
    chunks = [fetched.take(3), fetched.take(3), fetched.take(3)]
    records = Records([chunk for chunk in chunks if chunk is not None])
    assert len(records) == 7
    assert records[6].value == records[-1].value == b"6"
    assert [r.value for r in records[2:5]] == [b"2", b"3", b"4"]
    assert records.values() == [r.value for r in records]
    assert records.by_partition()["t", 0] == records
    assert not Records()
    with pytest.raises(IndexError):
        records[7]


def test_rest_returns_the_next_offsets_of_an_unfinished_iteration() -> None:
    fetches = [Fetched("t", 0, 0, batch(0, [b"a", b"b"])), Fetched("t", 1, 4, batch(4, [b"c"]))]
    records = Records([fetched.take(9) for fetched in fetches])
    reading = iter(records)
    assert reading.rest() == {("t", 0): 0, ("t", 1): 4}
    next(reading)
    assert reading.rest() == {("t", 0): 1, ("t", 1): 4}
    reading.stop()
    assert (reading.rest(), list(reading)) == ({}, [])


def test_a_record_is_pickled_with_all_fields() -> None:
    builder = Builder()
    builder.append(5, b"k", b"v", [("h", None)])
    (record,) = drain(Fetched("t", 2, 8, builder.build(8)))
    copy = pickle.loads(pickle.dumps(record))
    assert copy == record
    assert (copy.topic, copy.partition, copy.offset, copy.headers) == ("t", 2, 8, [("h", None)])


def test_a_deserializer_is_called_once_and_only_on_access() -> None:
    calls = []

    def read(topic: str, data: bytes) -> str:
        calls.append(data)
        return f"{topic}:{data.decode()}"

    reader = Reader(read, True, TypeError)
    (record,) = drain(Fetched("t", 0, 0, batch(0, [b"v"]), value_reader=reader, key_reader=reader))
    assert calls == []
    assert (record.value, record.value, record.key) == ("t:v", "t:v", None)
    assert calls == [b"v"]


@given(st.binary(max_size=200), st.integers(0, 200))
def test_random_bytes_are_refused_or_read(noise: bytes, at: int) -> None:
    data = batch(0, [b"a", b"b"]) + batch(2, [b"c"], codec=Codec.LZ4)
    data = data[:at] + noise + data[at + len(noise) :]
    with contextlib.suppress(CorruptBatch, InvalidBatch, LegacyBatch, CompressionError):
        drain(Fetched("t", 0, 0, data, check_crcs=False))
