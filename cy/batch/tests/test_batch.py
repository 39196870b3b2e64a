"""Building, viewing, changing and iterating over record batches."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kafka.record import MemoryRecords

from cy.batch import (
    HEADER_SIZE,
    LOG_OVERHEAD,
    Batch,
    Builder,
    CorruptBatch,
    InvalidBatch,
    Record,
    assign,
    check_crc,
    iterate,
    read_header,
    recompress,
    scan,
    set_log_append_time,
    set_max_timestamp,
    validate,
)
from cy.batch.compression import Codec, UnknownCodec
from cy.crc32c import crc32c

optional_bytes = st.none() | st.binary(max_size=200)
records = st.lists(
    st.tuples(
        st.integers(-1, 2**53),
        optional_bytes,
        optional_bytes,
        st.lists(st.tuples(st.text(max_size=10), optional_bytes), max_size=4),
    ),
    min_size=1,
    max_size=40,
)
Row = tuple[int, bytes | None, bytes | None, list[tuple[str, bytes | None]]]


def build(rows: list[Row], base_offset: int = 0, **options: int) -> bytes:
    builder = Builder(**options)
    for row in rows:
        builder.append(*row)
    return builder.build(base_offset)


def simple(count: int = 3, **options: int) -> bytes:
    return build([(1000 + n, b"k%d" % n, b"v%d" % n, []) for n in range(count)], **options)


def rows_of(octets: bytes) -> list[Row]:
    return [(r.timestamp, r.key, r.value, r.headers) for r in iterate(octets)]


# ---- round trips


@pytest.mark.parametrize("codec", Codec)
@given(rows=records, base_offset=st.integers(0, 2**62))
def test_built_batches_are_accepted_and_read_back(
    codec: Codec, rows: list[Row], base_offset: int
) -> None:
    octets = build(rows, base_offset, codec=codec)
    batch = validate(octets)
    assert rows_of(octets) == rows
    assert [r.offset for r in iterate(octets)] == list(range(base_offset, base_offset + len(rows)))
    assert (batch.base_offset, batch.count, batch.size) == (base_offset, len(rows), len(octets))
    assert batch.max_timestamp == batch.records_max_timestamp == max(row[0] for row in rows)
    assert (batch.next_offset, batch.codec) == (base_offset + len(rows), codec)


@given(rows=records)
def test_another_client_reads_built_batches(rows: list[Row]) -> None:
    witness = MemoryRecords(build(rows, 7, codec=Codec.GZIP)).next_batch()
    assert witness.validate_crc()
    assert [(r.timestamp, r.key, r.value, list(r.headers)) for r in witness] == rows


@given(rows=records, deltas=st.data())
def test_offsets_may_have_gaps_as_compaction_leaves_them(
    rows: list[Row], deltas: st.DataObject
) -> None:
    gaps = sorted(
        deltas.draw(
            st.sets(st.integers(0, 2**31 - 1), min_size=len(rows), max_size=len(rows))
        )
    )
    builder = Builder()
    for delta, row in zip(gaps, rows, strict=True):
        builder.append(*row, offset_delta=delta)
    octets = builder.build(100)
    assert [record.offset for record in iterate(octets)] == [100 + gap for gap in gaps]
    assert scan(octets)[0].last_offset == 100 + gaps[-1]


def test_the_builder_knows_the_size_of_the_batch_before_it_builds() -> None:
    builder = Builder()
    assert builder.size == HEADER_SIZE
    for n in range(100):
        builder.append(n, b"key", bytes(n * 10), [("h", b"v")])
        assert builder.size == len(builder.build())
        assert builder.count == n + 1


def test_keys_values_and_header_values_may_be_any_buffers() -> None:
    builder = Builder()
    builder.append(1, memoryview(b"k"), bytearray(b"v"), (("h", memoryview(b"x")),))
    assert rows_of(builder.build()) == [(1, b"k", b"v", [("h", b"x")])]


def test_a_batch_without_records_is_not_built() -> None:
    with pytest.raises(ValueError, match="without records"):
        Builder().build()


@pytest.mark.parametrize("delta", [-1, 0, 2**31])
def test_offset_deltas_must_ascend_and_fit_in_int32(delta: int) -> None:
    builder = Builder()
    builder.append(1, None, None)
    with pytest.raises(ValueError, match="does not follow"):
        builder.append(1, None, None, offset_delta=delta)
    assert builder.count == 1


def test_a_refused_record_leaves_the_builder_unchanged() -> None:
    builder = Builder()
    builder.append(1, None, b"v")
    before = builder.build()
    header_rows = ([("h",)], [(5, b"")], [("h", "text")])
    for bad in ((1, "k", b"v"), (1, b"k", 5), *((1, b"k", b"v", row) for row in header_rows)):
        with pytest.raises((TypeError, ValueError, AttributeError)):
            builder.append(*bad)  # type: ignore[arg-type]
    assert builder.build() == before


def test_unknown_codecs_are_refused() -> None:
    with pytest.raises(UnknownCodec):
        simple(codec=5)
    with pytest.raises(UnknownCodec):
        recompress(simple(), 6)


# ---- header


def test_a_view_of_a_batch_has_every_header_field() -> None:
    builder = Builder(
        codec=Codec.LZ4, producer_id=2**40, producer_epoch=7, base_sequence=2**31 - 2, control=True
    )
    for n in range(4):
        builder.append(50 - n, None, b"v")
    octets = builder.build(2**40, 12)
    batch = read_header(b"junk" + octets, 4)
    assert isinstance(batch, Batch)
    assert (batch.position, batch.end, batch.size) == (4, 4 + len(octets), len(octets))
    assert (batch.base_offset, batch.last_offset, batch.next_offset) == (
        2**40,
        2**40 + 3,
        2**40 + 4,
    )
    assert (batch.magic, batch.partition_leader_epoch) == (2, 12)
    assert batch.crc == crc32c(octets[21:])
    assert (batch.codec, batch.attributes) == (3, 0x23)
    assert (batch.is_control, batch.is_transactional, batch.is_log_append_time) == (
        True,
        False,
        False,
    )
    assert (batch.base_timestamp, batch.max_timestamp) == (50, 50)
    assert (batch.producer_id, batch.producer_epoch, batch.base_sequence) == (
        2**40,
        7,
        2**31 - 2,
    )
    assert (batch.count, batch.last_offset_delta) == (4, 3)
    assert batch.last_sequence == 1  # 2^31-2, 2^31-1, 0, 1
    assert batch.delete_horizon_ms is None
    assert f"{2**40}-{2**40 + 3}" in repr(batch)


def test_a_delete_horizon_replaces_the_base_timestamp() -> None:
    octets = bytearray(simple())
    struct.pack_into(">hiq", octets, 21, 0x40, 2, 987)
    assert read_header(octets).delete_horizon_ms == 987


def test_an_incomplete_batch_has_a_header_but_no_checksum() -> None:
    octets = simple()
    batch = read_header(octets[:HEADER_SIZE])
    assert batch.size == len(octets)
    assert not check_crc(octets[:-1], 0, batch)
    assert check_crc(octets, 0, batch)
    assert not check_crc(octets, 1, batch)
    assert not check_crc(octets, -1, batch)


@pytest.mark.parametrize("size", [0, 12, 17, 60])
def test_case_54_too_few_bytes_are_no_header(size: int) -> None:
    with pytest.raises(CorruptBatch):
        read_header(simple()[:size])


@pytest.mark.parametrize("position", [-1, 1000])
def test_a_position_outside_of_the_buffer_is_refused(position: int) -> None:
    with pytest.raises(CorruptBatch, match="outside"):
        read_header(simple(), position)


@pytest.mark.parametrize("length", [-1, 0, 48, -(2**31)])
def test_case_54_impossible_sizes_are_corrupt(length: int) -> None:
    octets = bytearray(simple())
    struct.pack_into(">i", octets, 8, length)
    with pytest.raises(CorruptBatch, match="size"):
        read_header(octets)


@pytest.mark.parametrize("magic", [-1, 3, 127, -128])
def test_case_54_impossible_magic_is_corrupt(magic: int) -> None:
    octets = bytearray(simple())
    struct.pack_into(">b", octets, 16, magic)
    with pytest.raises(CorruptBatch, match="magic"):
        read_header(octets)


def test_the_largest_batch_size_does_not_overflow() -> None:
    octets = bytearray(simple())
    struct.pack_into(">i", octets, 8, 2**31 - 1)
    batch = read_header(octets)
    assert batch.size == 2**31 - 1 + LOG_OVERHEAD
    assert not check_crc(octets, 0, batch)
    assert scan(octets) == []


# ---- walk


def test_scan_stops_before_the_first_truncated_or_corrupt_batch() -> None:
    one, two = simple(2), simple(5, codec=Codec.ZSTD)
    octets = one + two + one
    assert [batch.end for batch in scan(octets)] == [
        len(one),
        len(one) + len(two),
        len(octets),
    ]
    assert [batch.position for batch in scan(octets, len(one))] == [len(one), len(one) + len(two)]
    assert len(scan(octets, 0, len(one) + len(two))) == 2
    for cut in (1, 11, 12, 60, 61, len(one) - 1):
        assert len(scan(octets[:-cut], check_crcs=True)) == 2
    damaged = bytearray(octets)
    damaged[len(one) + 70] ^= 1
    assert len(scan(damaged)) == 3
    assert len(scan(damaged, check_crcs=True)) == 1
    assert scan(b"") == scan(bytes(100)) == scan(octets, len(octets)) == []


def test_iteration_covers_batches_of_every_format_and_skips_a_truncated_one() -> None:
    one, two = simple(2), simple(3, codec=Codec.SNAPPY)
    assert len(list(iterate(one + two + one))) == 7
    for cut in (1, 40, len(one) - 1):
        assert len(list(iterate(one + two + one[:-cut]))) == 5
    assert list(iterate(b"")) == []


def test_case_8_iteration_raises_for_a_wrong_checksum() -> None:
    damaged = bytearray(simple())
    damaged[-1] ^= 1
    with pytest.raises(CorruptBatch, match="CRC"):
        list(iterate(damaged))
    damaged[-1] ^= 1
    damaged[18] ^= 1
    assert len(list(iterate(damaged, check_crcs=False))) == 3


def test_iteration_limits_the_decompressed_size_too() -> None:
    octets = build([(0, None, bytes(1000), [])] * 100, codec=Codec.GZIP)
    assert len(list(iterate(octets, max_output=110_000))) == 100
    with pytest.raises(InvalidBatch, match="decompressed"):
        list(iterate(octets, max_output=100_000))


def test_a_batch_that_compaction_emptied_has_no_records() -> None:
    octets = bytearray(simple()[:HEADER_SIZE])
    struct.pack_into(">i", octets, 8, HEADER_SIZE - LOG_OVERHEAD)
    struct.pack_into(">i", octets, 57, 0)
    struct.pack_into(">I", octets, 17, crc32c(octets[21:]))
    assert list(iterate(octets)) == []
    assert scan(octets, check_crcs=True)[0].last_offset == 2


def test_records_do_not_reference_the_buffer() -> None:
    octets = bytearray(simple(1))
    [record] = iterate(octets)
    assert isinstance(record, Record)
    octets[:] = bytes(len(octets))
    octets.clear()
    assert (record.key, record.value, record.headers) == (b"k0", b"v0", [])
    assert "k0" in repr(record)


# ---- changes in place


def test_assign_changes_only_fields_outside_the_checksum() -> None:
    octets = bytearray(simple())
    assign(octets, 12345, 6)
    batch = validate(octets)
    assert (batch.base_offset, batch.last_offset) == (12345, 12347)
    assert batch.partition_leader_epoch == 6
    assert octets[16:] == simple()[16:]


def test_log_append_time_is_the_time_of_every_record() -> None:
    octets = bytearray(simple() + b"next")
    set_log_append_time(memoryview(octets), 77)
    [batch] = scan(octets, check_crcs=True)
    assert batch.is_log_append_time
    assert (batch.max_timestamp, batch.base_timestamp) == (77, 1000)
    assert [record.timestamp for record in iterate(octets)] == [77, 77, 77]
    assert octets.endswith(b"next")


def test_a_wrong_maximum_timestamp_is_detected_and_corrected() -> None:
    octets = bytearray(simple())
    set_max_timestamp(octets, 2**60)
    batch = validate(octets)
    assert (batch.max_timestamp, batch.records_max_timestamp) == (2**60, 1002)
    set_max_timestamp(octets, batch.records_max_timestamp)
    assert octets == simple()


@pytest.mark.parametrize(
    "change",
    [
        lambda octets: assign(octets, 1, 2),
        lambda octets: set_log_append_time(octets, 1),
        lambda octets: set_max_timestamp(octets, 1),
    ],
)
def test_changes_require_a_whole_batch_in_a_writable_buffer(change) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises((BufferError, TypeError)):
        change(simple())
    for octets in (bytearray(), bytearray(simple()[:-1]), bytearray(100)):
        before = bytes(octets)
        with pytest.raises(CorruptBatch):
            change(octets)
        assert octets == before


def test_recompression_requires_a_whole_batch() -> None:
    with pytest.raises(CorruptBatch):
        recompress(simple()[:-1], Codec.GZIP)
