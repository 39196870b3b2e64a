"""Which batches a broker accepts from a client, and the errors for the others."""

from __future__ import annotations

import struct
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cy.batch import (
    HEADER_SIZE,
    MAX_RECORD_ERRORS,
    Builder,
    CorruptBatch,
    InvalidBatch,
    iterate,
    validate,
)
from cy.batch.compression import Codec, UnknownCodec, compress
from cy.crc32c import crc32c

every_codec = pytest.mark.parametrize("codec", Codec)


def varint(number: int) -> bytes:
    raw = number << 1 ^ number >> 63
    result = bytearray()
    while raw >= 0x80:
        result.append(raw & 0x7F | 0x80)
        raw >>= 7
    return bytes((*result, raw))


def record(
    offset_delta: int = 0,
    *,
    timestamp_delta: int = 0,
    key: bytes = varint(1) + b"k",
    value: bytes = varint(1) + b"v",
    headers: bytes = varint(0),
    longer: int = 0,
) -> bytes:
    body = b"\0" + varint(timestamp_delta) + varint(offset_delta) + key + value + headers
    return varint(len(body) + longer) + body


def batch_of(records: bytes, count: int = 1, *, codec: Codec = Codec.NONE, **fields: int) -> bytes:
    """Returns a batch of hand-made records, with a correct CRC."""
    builder = Builder(codec=codec)
    builder.append(0, None, None)
    octets = bytearray(builder.build()[:HEADER_SIZE] + compress(codec, records))
    struct.pack_into(">i", octets, 23, fields.get("last_offset_delta", count - 1))
    struct.pack_into(">i", octets, 57, count)
    return sealed(octets)


def sealed(octets: bytearray) -> bytes:
    """Returns the batch with the correct size and CRC."""
    struct.pack_into(">i", octets, 8, len(octets) - 12)
    struct.pack_into(">I", octets, 17, crc32c(octets[21:]))
    return bytes(octets)


def changed(position: int, form: str, value: int, **options: int) -> bytes:
    builder = Builder(**options)
    for n in range(3):
        builder.append(1000 + n, b"k", b"v")
    octets = bytearray(builder.build())
    struct.pack_into(form, octets, position, value)
    return sealed(octets)


@every_codec
def test_hand_made_records_are_accepted(codec: Codec) -> None:
    records = record(0) + record(1, key=varint(-1), value=varint(-1)) + record(2, headers=varint(0))
    batch = validate(batch_of(records, 3, codec=codec))
    assert (batch.count, batch.codec) == (3, codec)


# ---- the batch as such


def test_case_54_a_wrong_checksum_is_corrupt() -> None:
    octets = bytearray(batch_of(record()))
    octets[17] ^= 1
    with pytest.raises(CorruptBatch, match="CRC"):
        validate(octets)


def test_case_54_a_truncated_batch_is_corrupt() -> None:
    octets = batch_of(record())
    for end in range(len(octets)):
        with pytest.raises(CorruptBatch):
            validate(octets[:end])


@pytest.mark.parametrize("tail", [b"\0", bytes(12), batch_of(record())])
def test_case_54_exactly_one_batch_is_allowed(tail: bytes) -> None:
    with pytest.raises(InvalidBatch, match="Exactly one"):
        validate(batch_of(record()) + tail)


def test_case_54_the_old_formats_are_invalid() -> None:
    for magic in (0, 1):
        octets = bytearray(batch_of(record()))
        octets[16] = magic
        with pytest.raises(InvalidBatch, match="magic version 2"):
            validate(octets)


@pytest.mark.parametrize("count", [0, -1, -(2**31), 1, 2, 4, 2**31 - 1])
def test_case_54_the_record_count_must_match_the_offsets(count: int) -> None:
    with pytest.raises(InvalidBatch, match=r"(count|range)"):
        validate(changed(57, ">i", count))


@pytest.mark.parametrize("delta", [-1, 0, 1, 3, 2**31 - 1, -(2**31)])
def test_case_54_the_last_offset_delta_must_match_the_record_count(delta: int) -> None:
    with pytest.raises(InvalidBatch, match="range"):
        validate(changed(23, ">i", delta))


@every_codec
@pytest.mark.parametrize("count", [1, 2, 4, 2**31 - 1])
def test_case_54_count_and_offsets_must_match_the_records(codec: Codec, count: int) -> None:
    with pytest.raises(InvalidBatch):
        validate(batch_of(record(0) + record(1) + record(2), count, codec=codec))


def test_case_54_a_client_may_not_write_control_batches() -> None:
    octets = changed(21, ">h", 0x20)
    with pytest.raises(InvalidBatch, match="control"):
        validate(octets)
    assert validate(octets, allow_control=True).is_control


@pytest.mark.parametrize("attributes", [0x80, 0x100, 0x4000, -0x8000])
def test_unknown_attributes_are_invalid(attributes: int) -> None:
    octets = changed(21, ">h", attributes)
    for allow_control in (False, True):
        with pytest.raises(InvalidBatch, match="attributes"):
            validate(octets, allow_control=allow_control)


def test_a_client_may_not_set_a_delete_horizon() -> None:
    octets = changed(21, ">h", 0x40)
    with pytest.raises(InvalidBatch, match="delete horizon"):
        validate(octets)
    assert validate(octets, allow_control=True).delete_horizon_ms == 1000


def test_a_client_may_not_set_log_append_time() -> None:
    octets = changed(21, ">h", 0x08)
    with pytest.raises(InvalidBatch, match="LogAppendTime") as refusal:
        validate(octets)
    assert refusal.value.timestamp
    assert validate(octets, allow_control=True).is_log_append_time


@pytest.mark.parametrize(
    "options",
    [
        {"producer_id": 5, "producer_epoch": 0, "base_sequence": -1},
        {"producer_id": 5, "producer_epoch": 0, "base_sequence": -7},
        {"producer_id": 5, "producer_epoch": -1, "base_sequence": 0},
        {"producer_id": 0, "producer_epoch": 0, "base_sequence": -1},
    ],
)
def test_case_54_a_producer_id_needs_a_sequence_and_an_epoch(options: dict[str, int]) -> None:
    builder = Builder(**options)
    builder.append(0, None, b"v")
    with pytest.raises(InvalidBatch, match="sequence"):
        validate(builder.build())


def test_a_sequence_without_a_producer_id_is_ignored() -> None:
    builder = Builder(base_sequence=0)
    builder.append(0, None, b"v")
    assert validate(builder.build()).base_sequence == 0


def test_a_transaction_needs_a_producer_id() -> None:
    builder = Builder(transactional=True)
    builder.append(0, None, b"v")
    with pytest.raises(InvalidBatch, match="producer id"):
        validate(builder.build())


@pytest.mark.parametrize("codec", [5, 6, 7])
def test_case_57_an_unknown_codec_is_its_own_error(codec: int) -> None:
    with pytest.raises(UnknownCodec):
        validate(changed(21, ">h", codec))


@pytest.mark.parametrize("codec", [1, 2, 3, 4])
def test_records_that_do_not_decompress_are_invalid(codec: int) -> None:
    with pytest.raises(InvalidBatch, match="decompressed"):
        validate(changed(21, ">h", codec))


def test_the_caller_may_limit_the_decompressed_size() -> None:
    octets = batch_of(record(value=varint(100_000) + bytes(100_000)), codec=Codec.LZ4)
    assert validate(octets, max_output=101_000).count == 1
    with pytest.raises(InvalidBatch, match="more than 50000"):
        validate(octets, max_output=50_000)


@every_codec
def test_the_caller_may_limit_the_size_of_a_record_in_a_compressed_batch(codec: Codec) -> None:
    small, large = record(), record(1, value=varint(1000) + bytes(1000))
    octets = batch_of(small + large, 2, codec=codec)
    body = len(large) - len(varint(1000))
    assert validate(octets, max_record=body).count == 2
    if codec is Codec.NONE:
        assert validate(octets, max_record=1).count == 2
        return
    with pytest.raises(InvalidBatch, match=f"record size: {body} exceeds .* {body - 1}"):
        validate(octets, max_record=body - 1)


# ---- single records

HEADER = varint(1) + b"h" + varint(1) + b"x"

MALFORMED = {
    "no record": b"",
    "empty length": varint(0),
    "negative length": varint(-1),
    "short length": varint(5) + bytes(5),
    "length past the end": varint(2**31 - 1) + bytes(20),
    "endless varint": b"\xff" * 40,
    "varint of six bytes": b"\x80\x80\x80\x80\x80\x00" + bytes(20),
    "overflowing varint": b"\xff\xff\xff\xff\x1f" + bytes(20),
    "length too long": record(longer=1),
    "length too short": record(longer=-1),
    "byte behind": record() + b"\0",
    "record behind": record() + record(1),
    "key of -2": record(key=varint(-2)),
    "key past the record": record(key=varint(100) + b"k"),
    "key past 2 GiB": record(key=varint(2**31 - 1) + b"k"),
    "value of -2": record(value=varint(-2)),
    "value past the record": record(value=varint(100) + b"v"),
    "no headers": record(headers=b"", longer=0),
    "header count of -1": record(headers=varint(-1)),
    "header count of 2^31-1": record(headers=varint(2**31 - 1)),
    "header count past the headers": record(headers=varint(2) + HEADER),
    "header past the count": record(headers=varint(0) + HEADER),
    "header without a key": record(headers=varint(1) + varint(-1) + varint(-1)),
    "header key past the record": record(headers=varint(1) + varint(9) + b"h"),
    "header value of -2": record(headers=varint(1) + varint(1) + b"h" + varint(-2)),
    "header value past the record": record(headers=varint(1) + varint(1) + b"h" + varint(9)),
    "offset delta of 1": record(1),
    "offset delta of -1": record(-1),
    "timestamp of eleven bytes": b"\x40\x00" + b"\xff" * 31,
}


@every_codec
@pytest.mark.parametrize("name", MALFORMED)
def test_case_54_a_malformed_record_is_invalid(name: str, codec: Codec) -> None:
    with pytest.raises(InvalidBatch, match=r"Record [01] of 1") as refusal:
        validate(batch_of(MALFORMED[name], codec=codec))
    assert refusal.value.record_errors == []
    assert not refusal.value.timestamp


@pytest.mark.parametrize("name", [name for name in MALFORMED if "offset" not in name])
def test_iteration_over_a_malformed_record_raises(name: str) -> None:
    with pytest.raises(InvalidBatch):
        list(iterate(batch_of(MALFORMED[name])))


def test_case_54_an_error_names_the_invalid_record() -> None:
    with pytest.raises(InvalidBatch, match="Record 2 of 3: its offset delta"):
        validate(batch_of(record(0) + record(1) + record(3), 3))


@pytest.mark.parametrize("deltas", [(0, 0), (1, 0), (0, 2), (1, 2)])
def test_case_54_offset_deltas_must_be_0_1_2(deltas: tuple[int, int]) -> None:
    with pytest.raises(InvalidBatch, match="offset delta"):
        validate(batch_of(b"".join(record(delta) for delta in deltas), 2))


# ---- rules of the topic


@every_codec
def test_case_55_an_error_names_records_without_a_key_in_a_compacted_topic(codec: Codec) -> None:
    builder = Builder(codec=codec)
    for n in range(6):
        builder.append(n, None if n in (1, 4) else b"", b"v")
    octets = builder.build()
    assert validate(octets).count == 6
    with pytest.raises(InvalidBatch) as refusal:
        validate(octets, require_key=True)
    assert [index for index, _ in refusal.value.record_errors] == [1, 4]
    assert "without key" in refusal.value.record_errors[0][1]
    assert not refusal.value.timestamp


@every_codec
def test_case_55_an_error_names_records_with_a_timestamp_out_of_range(codec: Codec) -> None:
    builder = Builder(codec=codec)
    for timestamp in (500, 99, 100, 1000, 1001, -1):
        builder.append(timestamp, b"k", b"v")
    with pytest.raises(InvalidBatch) as refusal:
        validate(builder.build(), min_timestamp=100, max_timestamp=1000)
    assert refusal.value.timestamp
    assert [index for index, _ in refusal.value.record_errors] == [1, 4]
    assert "1001" in refusal.value.record_errors[1][1]
    assert "[100, 1000]" in refusal.value.record_errors[1][1]


def test_case_55_a_record_has_one_error_and_a_bad_timestamp_decides_the_code() -> None:
    builder = Builder()
    builder.append(5, None, b"v")
    builder.append(5, b"k", b"v")
    with pytest.raises(InvalidBatch) as refusal:
        validate(builder.build(), require_key=True, min_timestamp=100)
    assert [index for index, _ in refusal.value.record_errors] == [0, 1]
    assert "without key" in refusal.value.record_errors[0][1]
    assert refusal.value.timestamp


def test_an_error_names_at_most_a_thousand_records() -> None:
    builder = Builder()
    for _ in range(MAX_RECORD_ERRORS + 500):
        builder.append(0, None, b"v")
    with pytest.raises(InvalidBatch) as refusal:
        validate(builder.build(), require_key=True)
    assert len(refusal.value.record_errors) == MAX_RECORD_ERRORS


def test_large_batches_are_validated_without_the_gil_with_the_same_result() -> None:
    builder = Builder()
    for n in range(3000):
        builder.append(n, b"k", bytes(100))
    octets = builder.build()
    assert len(octets) > 1 << 16
    assert validate(octets).records_max_timestamp == 2999
    with pytest.raises(InvalidBatch) as refusal:
        validate(octets, max_timestamp=2997)
    assert [index for index, _ in refusal.value.record_errors] == [2998, 2999]


def test_timestamps_wrap_as_java_s_do() -> None:
    octets = bytearray(batch_of(record(timestamp_delta=2**62)))
    struct.pack_into(">q", octets, 27, 2**62)
    assert validate(sealed(octets)).records_max_timestamp == -1
    [wrapped] = iterate(sealed(octets))
    assert wrapped.timestamp == -(2**63)


# ---- damage


def attempt(octets: bytes, action: Callable[[bytes], object]) -> object:
    try:
        return action(octets)
    except (CorruptBatch, InvalidBatch, UnknownCodec):
        return None


@every_codec
def test_case_54_every_flipped_bit_is_detected_or_in_a_field_of_the_broker(codec: Codec) -> None:
    builder = Builder(codec=codec, producer_id=1, producer_epoch=2, base_sequence=3)
    for n in range(4):
        builder.append(1000 + n, b"key%d" % n, b"value" * n, [("h", b"x")] * (n % 2))
    octets = builder.build(5, 6)
    for position in range(len(octets)):
        for bit in range(8):
            damaged = bytearray(octets)
            damaged[position] ^= 1 << bit
            harmless = position < 8 or 12 <= position < 16
            accepted = attempt(bytes(damaged), validate) is not None
            assert accepted == harmless, (position, bit)


@every_codec
@given(data=st.data())
def test_damage_under_a_valid_checksum_is_refused_or_harmless(codec: Codec, data: st.DataObject) -> None:
    """The batch is refused, or all the records that its header counts can be read."""
    builder = Builder(codec=codec)
    for n in range(4):
        builder.append(1000 + n, b"key%d" % n, b"value" * n, [("h", b"x")] * (n % 2))
    octets = bytearray(builder.build())
    for _ in range(data.draw(st.integers(1, 5))):
        octets[data.draw(st.integers(21, len(octets) - 1))] = data.draw(st.integers(0, 255))
    batch = attempt(sealed(octets), validate)
    if batch is not None:
        assert len(list(iterate(sealed(octets)))) == batch.count  # type: ignore[attr-defined]


@given(junk=st.binary(max_size=300), count=st.integers(-2, 5))
def test_random_bytes_as_records_are_refused_or_read(junk: bytes, count: int) -> None:
    octets = batch_of(junk, count)
    if attempt(octets, validate) is not None:
        assert len(list(iterate(octets))) == count


@given(junk=st.binary(max_size=300))
def test_random_bytes_as_a_batch_are_refused(junk: bytes) -> None:
    assert attempt(junk, validate) is None
    assert attempt(junk, lambda octets: list(iterate(octets))) in (None, [])
