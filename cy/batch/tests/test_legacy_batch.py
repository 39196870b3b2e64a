"""Message sets of formats v0 and v1: offsets, timestamps, nesting, damage, conversion."""

from __future__ import annotations

import struct
import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kafka.record.memory_records import MemoryRecordsBuilder

from cy.batch import CorruptBatch, InvalidBatch, check_crc, iterate, read_header, scan, validate
from cy.batch.compression import Codec, compress
from cy.batch.legacy import up_convert

APPEND_TIME = 0x08


def message(
    offset: int,
    key: bytes | None,
    value: bytes | None,
    *,
    magic: int = 1,
    attributes: int = 0,
    timestamp: int = 5,
) -> bytes:
    body = struct.pack(">bB", magic, attributes)
    if magic:
        body += struct.pack(">q", timestamp)
    for field in (key, value):
        body += struct.pack(">i", -1 if field is None else len(field)) + (field or b"")
    return struct.pack(">qiI", offset, 4 + len(body), zlib.crc32(body)) + body


def wrapper(
    offset: int, inner: bytes, *, magic: int = 1, extra: int = 0, timestamp: int = 5
) -> bytes:
    packed = compress(Codec.GZIP, inner)
    return message(
        offset, None, packed, magic=magic, attributes=Codec.GZIP | extra, timestamp=timestamp
    )


def offsets(octets: bytes) -> list[int]:
    return [record.offset for record in iterate(octets)]


def test_inner_offsets_of_v1_are_relative_to_the_last_even_with_gaps() -> None:
    inner = b"".join(message(relative, None, b"v") for relative in (1, 3, 4))
    octets = wrapper(1004, inner)
    assert offsets(octets) == offsets(up_convert(octets)) == [1001, 1003, 1004]


def test_inner_offsets_of_v0_are_absolute() -> None:
    inner = b"".join(message(offset, None, b"v", magic=0) for offset in (70, 71, 75))
    octets = wrapper(75, inner, magic=0)
    assert offsets(octets) == offsets(up_convert(octets)) == [70, 71, 75]


def test_an_unassigned_wrapper_keeps_its_relative_offsets() -> None:
    inner = b"".join(message(relative, None, b"v") for relative in range(3))
    assert offsets(wrapper(0, inner)) == [0, 1, 2]


def test_messages_in_a_wrapper_with_log_append_time_have_its_time() -> None:
    inner = b"".join(message(relative, None, b"v", timestamp=relative) for relative in range(3))
    octets = wrapper(9, inner, extra=APPEND_TIME, timestamp=1234)
    assert [record.timestamp for record in iterate(octets)] == [1234] * 3
    converted = up_convert(octets)
    assert scan(converted)[0].is_log_append_time
    assert [record.timestamp for record in iterate(converted)] == [1234] * 3


def test_v0_has_no_timestamps() -> None:
    octets = message(3, b"k", b"v", magic=0)
    assert [record.timestamp for record in iterate(octets)] == [-1]
    assert scan(up_convert(octets))[0].max_timestamp == -1


def test_headers_of_old_messages_are_read_as_batch_headers() -> None:
    octets = message(42, None, b"v", timestamp=7)
    batch = read_header(octets)
    assert (batch.magic, batch.base_offset, batch.last_offset, batch.next_offset) == (1, 42, 42, 43)
    assert (batch.size, batch.max_timestamp, batch.producer_id) == (len(octets), 7, -1)
    assert (batch.count, batch.partition_leader_epoch, batch.last_sequence) == (-1, -1, -1)
    assert check_crc(octets, 0, batch)
    assert not check_crc(octets[:-1] + b"?", 0, batch)


def test_single_messages_of_the_same_kind_are_converted_into_one_batch() -> None:
    octets = b"".join(
        (
            message(10, b"a", b"1", timestamp=3),
            message(12, b"b", b"2", timestamp=2),
            message(13, b"c", b"3", attributes=APPEND_TIME, timestamp=50),
            message(14, b"d", b"4", attributes=APPEND_TIME, timestamp=50),
            message(15, b"e", b"5", attributes=APPEND_TIME, timestamp=51),
            wrapper(17, message(0, b"f", b"6") + message(1, b"g", b"7")),
            message(18, b"h", b"8", magic=0),
        )
    )
    batches = scan(up_convert(octets), check_crcs=True)
    assert [(b.base_offset, b.last_offset, b.count) for b in batches] == [
        (10, 12, 2),
        (13, 14, 2),
        (15, 15, 1),
        (16, 17, 2),
        (18, 18, 1),
    ]
    before, after = list(iterate(octets)), list(iterate(up_convert(octets)))
    assert [repr(record) for record in before] == [repr(record) for record in after]


def test_a_long_log_becomes_batches_of_about_a_mebibyte() -> None:
    octets = b"".join(message(n, None, bytes(100_000)) for n in range(30))
    batches = scan(up_convert(octets))
    assert [batch.count for batch in batches] == [11, 11, 8]
    assert batches[-1].last_offset == 29


def test_a_truncated_last_message_is_skipped() -> None:
    octets = message(1, None, b"one") + message(2, None, b"two")
    for end in range(len(octets) // 2, len(octets)):
        assert offsets(octets[:end]) == [1]


@pytest.mark.parametrize("magic", [0, 1])
def test_case_54_every_flipped_bit_of_a_message_is_detected_or_changes_its_offset(magic: int) -> None:
    octets = message(1, b"key", b"value", magic=magic)
    original = [repr(record) for record in iterate(octets)]
    for position in range(8, len(octets)):
        for bit in range(8):
            damaged = bytearray(octets)
            damaged[position] ^= 1 << bit
            try:
                records = [repr(record) for record in iterate(damaged)]
            except (CorruptBatch, InvalidBatch):
                continue
            assert records in ([], original)  # nothing: a size that runs past the buffer
            assert records == [] or position < 12


def test_the_inner_checksum_detects_a_flipped_bit_inside_a_wrapper() -> None:
    inner = bytearray(message(0, b"key", b"value"))
    inner[-1] ^= 1
    with pytest.raises(CorruptBatch, match="CRC"):
        list(iterate(wrapper(0, bytes(inner))))


@pytest.mark.parametrize(
    ("octets", "match"),
    [
        (wrapper(1, wrapper(0, message(0, None, b"v"))), "wraps another"),
        (wrapper(1, message(0, None, b"v", magic=0)), "mixes formats"),
        (wrapper(1, b""), "is empty"),
        (message(1, None, None, attributes=1), "has no value"),
        (message(1, None, b"junk", attributes=1), "cannot be decompressed"),
        (message(1, None, b"junk", attributes=2), "cannot be decompressed"),
        (message(1, None, b"junk", attributes=3), "cannot be decompressed"),
    ],
)
def test_impossible_wrappers_are_refused(octets: bytes, match: str) -> None:
    with pytest.raises(InvalidBatch, match=match):
        list(iterate(octets))
    with pytest.raises(InvalidBatch, match=match):
        up_convert(octets)


def test_offsets_that_do_not_grow_cannot_be_converted() -> None:
    with pytest.raises(InvalidBatch, match="does not follow"):
        up_convert(message(5, None, b"v") + message(5, None, b"v"))


def with_field(length: int) -> bytes:
    """Returns a message whose value has an impossible length, with a correct CRC."""
    body = struct.pack(">bBqii", 1, 0, 5, -1, length) + b"abc"
    return struct.pack(">qiI", 0, 4 + len(body), zlib.crc32(body)) + body


@pytest.mark.parametrize("length", [-2, 4, 2**31 - 1, 2])
def test_lengths_that_contradict_the_message_are_refused(length: int) -> None:
    with pytest.raises(CorruptBatch):
        list(iterate(with_field(length)))


@pytest.mark.parametrize("magic", [0, 1])
@pytest.mark.parametrize("codec", [0, 1, 2])
@given(
    records=st.lists(
        st.tuples(st.none() | st.binary(max_size=50), st.none() | st.binary(max_size=300)),
        min_size=1,
        max_size=30,
    )
)
def test_message_sets_of_another_client_survive_conversion(
    magic: int, codec: int, records: list[tuple[bytes | None, bytes | None]]
) -> None:
    builder = MemoryRecordsBuilder(magic=magic, compression_type=codec, batch_size=1 << 20)
    for index, (key, value) in enumerate(records):
        builder.append(timestamp=index if magic else None, key=key, value=value)
    builder.close()
    octets = builder.buffer()
    expected = [
        (index, index if magic else -1, key, value) for index, (key, value) in enumerate(records)
    ]
    for source in (octets, up_convert(octets)):
        assert [(r.offset, r.timestamp, r.key, r.value) for r in iterate(source)] == expected
    assert validate(up_convert(octets)).count == len(records)
