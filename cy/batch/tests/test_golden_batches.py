"""Batches that Kafka's Java classes and four clients wrote are read right, and accepted."""

from __future__ import annotations

import pytest

from cy.batch import (
    HEADER_SIZE,
    Builder,
    InvalidBatch,
    Record,
    assign,
    iterate,
    recompress,
    scan,
    set_log_append_time,
    validate,
)
from cy.batch.compression import Codec
from cy.batch.legacy import up_convert
from cy.batch.tests import golden
from cy.batch.tests.golden import APPEND_MS, Fields, Golden

ALL = golden.load()
RECORDS = [
    row
    for row in ALL
    if row.writer != "kcat" and row.kind != "control" and str(row) != "java-v2-none-transactional"
]
V2 = [row for row in RECORDS if row.version == "v2"]
LEGACY = [row for row in RECORDS if row.version != "v2"]


def expected(row: Golden) -> list[Fields]:
    return golden.java_records(row) if row.writer == "java" else golden.client_records(row)


def fields(record: Record) -> Fields:
    return record.offset, record.timestamp, record.key, record.value, record.headers


@pytest.mark.parametrize("row", RECORDS, ids=str)
def test_records_of_other_programs_are_read(row: Golden) -> None:
    assert [fields(record) for record in iterate(row.octets)] == expected(row)


@pytest.mark.parametrize("row", [row for row in ALL if row.writer == "kcat"], ids=str)
def test_lines_of_kcat_are_read(row: Golden) -> None:
    records = [(record.key, record.value) for record in iterate(row.octets)]
    assert records == [(b"k%d" % n, b"value-%d" % n) for n in range(10)]


@pytest.mark.parametrize("row", [row for row in ALL if row.version == "v2"], ids=str)
def test_batches_of_other_programs_are_accepted(row: Golden) -> None:
    by_client = row.kind not in ("append", "control")
    batch = validate(row.octets, allow_control=not by_client)
    assert batch.size == len(row.octets)
    assert batch.codec == Codec[row.codec.upper()]
    if by_client:
        assert batch.records_max_timestamp == batch.max_timestamp
    assert scan(row.octets, check_crcs=True)[0].end == len(row.octets)


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("java-v2-none-create", {}),
        ("confluent-v2-none-create", {}),
        ("aiokafka-v2-none-create", {"base_sequence": 0}),
        (
            "confluent-v2-none-transactional",
            {"producer_id": 1, "producer_epoch": 0, "base_sequence": 0, "transactional": True},
        ),
    ],
)
def test_our_batch_is_byte_for_byte_equal_to_that_of_others(name: str, options: dict[str, int]) -> None:
    row = next(row for row in ALL if str(row) == name)
    builder = Builder(**options)
    for _, timestamp, key, value, headers in expected(row):
        builder.append(timestamp, key, value, headers)
    header = scan(row.octets)[0]
    assert builder.build(header.base_offset, header.partition_leader_epoch) == row.octets


def test_setting_log_append_time_gives_the_batch_that_java_writes() -> None:
    rows = {str(row): row.octets for row in ALL}
    batch = bytearray(rows["java-v2-none-create"])
    set_log_append_time(batch, APPEND_MS)
    assert batch == rows["java-v2-none-append"]


def test_a_transactional_batch_of_java_is_read_and_rebuilt() -> None:
    octets = next(row.octets for row in ALL if str(row) == "java-v2-none-transactional")
    batch = validate(octets)
    assert batch.is_transactional
    assert not batch.is_control
    assert (batch.producer_id, batch.producer_epoch, batch.base_sequence) == (4242, 3, 17)
    assert (batch.base_offset, batch.partition_leader_epoch, batch.last_sequence) == (5, 9, 18)
    builder = Builder(producer_id=4242, producer_epoch=3, base_sequence=17, transactional=True)
    builder.append(123, b"a", b"b")
    builder.append(125, b"c", b"d")
    assert builder.build(5, 9) == octets


def test_a_marker_of_java_is_rebuilt_and_no_client_may_write_it() -> None:
    octets = next(row.octets for row in ALL if row.kind == "control")
    batch = validate(octets, allow_control=True)
    assert batch.is_control
    assert batch.is_transactional
    assert (batch.base_sequence, batch.last_sequence) == (-1, -1)
    [record] = iterate(octets)
    assert (record.key, record.value) == (b"\0\0\0\1", bytes(5) + b"\x0b")
    builder = Builder(producer_id=4242, producer_epoch=3, transactional=True, control=True)
    builder.append(record.timestamp, record.key, record.value)
    assert builder.build(7, 4) == octets
    with pytest.raises(InvalidBatch, match="control"):
        validate(octets)


@pytest.mark.parametrize("codec", Codec)
@pytest.mark.parametrize("row", V2, ids=str)
def test_recompression_changes_only_the_codec(row: Golden, codec: Codec) -> None:
    before = scan(row.octets)[0]
    octets = recompress(row.octets, codec)
    after = validate(octets, allow_control=True)
    assert after.codec == codec
    assert after.size == len(octets)
    assert [fields(record) for record in iterate(octets)] == expected(row)
    for name in ("base_offset", "partition_leader_epoch", "base_timestamp", "max_timestamp"):
        assert getattr(after, name) == getattr(before, name)
    assert after.is_log_append_time == before.is_log_append_time
    assert after.producer_id == before.producer_id


@pytest.mark.parametrize("row", LEGACY, ids=str)
def test_converted_messages_keep_offsets_times_and_codec(row: Golden) -> None:
    converted = up_convert(row.octets)
    [batch] = scan(converted, check_crcs=True)
    validate(converted, allow_control=True)
    assert batch.codec == Codec[row.codec.upper()]
    assert batch.is_log_append_time == (row.kind == "append")
    assert (batch.base_offset, batch.last_offset) == (1000, 1011)
    assert [fields(record) for record in iterate(converted)] == expected(row)


@pytest.mark.parametrize("row", ALL, ids=str)
def test_the_checksum_does_not_cover_base_offset_and_leader_epoch(row: Golden) -> None:
    if row.version != "v2":
        return
    octets = bytearray(row.octets)
    assign(octets, 2**62, 77)
    [batch] = scan(octets, check_crcs=True)
    assert (batch.base_offset, batch.partition_leader_epoch) == (2**62, 77)
    assert octets[16:] == row.octets[16:]
    assert len(octets) > HEADER_SIZE
