"""Wire types and plans, byte by byte, without any schema."""

from __future__ import annotations

import gc
import struct
import sys
from pathlib import Path
from typing import Any

import pytest

from cy.wire.buffer import DecodeError, EncodeError, Reader
from cy.wire.codec import Codec
from cy.wire.messages import message_class
from cy.wire.plan import Nullable, Plan
from cy.wire.sendfile import FileSlice
from cy.wire.wire_types import (
    Array,
    Bool,
    Bytes,
    EncodedArray,
    Float64,
    Int8,
    Int16,
    Int32,
    Int64,
    Records,
    String,
    UInt16,
    UInt32,
    Uuid,
    WireType,
)

Box = message_class("Box", {"value": None}, {"__module__": __name__})


def codec(wire_type: WireType, *, flexible: bool = False) -> Codec:
    """Returns a codec of messages with one field of that type."""
    return Codec("box", 1, 0, 0, 0, lambda _: Plan(Box, [("value", wire_type)], [], [], flexible))


def encode(wire_type: WireType, value: Any) -> bytes:
    return codec(wire_type).encode(0, Box(value=value))


def decode(wire_type: WireType, data: bytes) -> Any:
    return codec(wire_type).decode(0, data, 0, len(data)).value


COMPACT, NULLABLE = {"compact": True}, {"nullable": True}
VALUES = (
    (Bool(), True, "01"),
    (Bool(), False, "00"),
    (Int8(), -128, "80"),
    (Int16(), -2, "fffe"),
    (UInt16(), 65535, "ffff"),
    (Int32(), -(2**31), "80000000"),
    (UInt32(), 2**32 - 1, "ffffffff"),
    (Int64(), -(2**63), "8000000000000000"),
    (Float64(), 1.5, "3ff8000000000000"),
    (Uuid(), bytes(range(16)), bytes(range(16)).hex()),
    (String(), "é", "0002 c3a9"),
    (String(), "", "0000"),
    (String(**NULLABLE), None, "ffff"),
    (String(**COMPACT), "a", "02 61"),
    (String(**COMPACT), "x" * 127, "8001" + "78" * 127),
    (String(**COMPACT, **NULLABLE), None, "00"),
    (Bytes(), b"ab", "00000002 6162"),
    (Bytes(**NULLABLE), None, "ffffffff"),
    (Bytes(**COMPACT), b"", "01"),
    (Records(**COMPACT, **NULLABLE), None, "00"),
    (Array(Int16()), [1, 2], "00000002 0001 0002"),
    (Array(Int16(), **NULLABLE), None, "ffffffff"),
    (Array(String(**COMPACT), **COMPACT), ["a", ""], "03 02 61 01"),
    (Nullable(Plan(Box, [("value", Int8())], [], [], False)), None, "ff"),
    (Nullable(Plan(Box, [("value", Int8())], [], [], False)), Box(value=5), "01 05"),
    (Plan(Box, [("value", Int8())], [], [], True), Box(value=5), "05 00"),
)


@pytest.mark.parametrize(("wire_type", "value", "data"), VALUES)
def test_a_value_is_encoded_as_the_expected_bytes(wire_type: WireType, value: Any, data: str) -> None:
    assert encode(wire_type, value) == bytes.fromhex(data)
    assert decode(wire_type, bytes.fromhex(data)) == value
    assert wire_type.min_size <= len(bytes.fromhex(data))


@pytest.mark.parametrize(
    ("wire_type", "value"),
    [
        (Int8(), 128),
        (Int8(), -129),
        (Int16(), 1 << 15),
        (UInt16(), -1),
        (Int32(), 1 << 31),
        (UInt32(), -1),
        (Int64(), 1 << 63),
        (Int32(), "1"),
        (Int32(), 1.0),
        (Float64(), "1"),
        (Uuid(), bytes(15)),
        (Uuid(), None),
        (String(), None),
        (String(), b"a"),
        (String(), "x" * 32768),
        (String(), "\ud800"),
        (Bytes(), "a"),
        (Array(Int8()), None),
        (Array(Int8()), "ab"),
        (Array(Int8()), {1}),
        (Plan(Box, [], [], [], False), None),
    ],
)
def test_a_value_of_another_type_or_range_is_refused(wire_type: WireType, value: Any) -> None:
    with pytest.raises(EncodeError, match=r"Box\.value: "):
        encode(wire_type, value)


def test_any_byte_but_zero_is_decoded_as_true() -> None:
    assert decode(Bool(), b"\xff") is True


def test_a_padded_varint_is_decoded() -> None:
    assert decode(String(**COMPACT), bytes.fromhex("828000 61")) == "a"


@pytest.mark.parametrize("data", ["8080808010", "ffffffff1f", "808080808000", "80", ""])
def test_case_48_a_varint_beyond_32_bits_is_an_error(data: str) -> None:
    with pytest.raises(DecodeError, match="varint"):
        decode(String(**COMPACT), bytes.fromhex(data))


def test_a_tagged_field_is_written_unless_it_has_its_default() -> None:
    tagged = message_class("Tagged", {"late": -1, "early": 0, "plain": 0}, {})
    plan = Plan(
        tagged, [("plain", Int8())], [("late", Int32(), 200), ("early", Int8(), 3)], [], True
    )
    both = Codec("tagged", 1, 0, 0, 0, lambda _: plan)
    assert both.encode(0, tagged(plain=1)) == bytes.fromhex("01 00")
    assert both.encode(0, tagged(plain=1, late=-2, early=7)) == bytes.fromhex(
        "01 02  03 01 07  c801 04 fffffffe"
    )
    mixed = bytes.fromhex("01 03  c801 04 fffffffe  09 02 abcd  03 01 07")
    assert both.decode(0, mixed, 0, len(mixed)) == tagged(plain=1, late=-2, early=7)


def test_a_tagged_field_may_be_large() -> None:
    tagged = message_class("Large", {"value": b""}, {})
    plan = Plan(tagged, [], [("value", Bytes(**COMPACT), 0)], [], True)
    large = Codec("large", 1, 0, 0, 0, lambda _: plan)
    for size in (1, 125, 126, 127, 300, 16_000, 40_000):
        data = large.encode(0, tagged(value=bytearray(size)))
        assert large.decode(0, data, 0, len(data)).value == bytes(size)
    data = large.encode(0, tagged(value=bytes(40_000)))
    assert large.decode(0, data, 0, len(data)).value == bytes(40_000)


def test_a_tagged_field_cannot_be_a_file_slice(tmp_path: Path) -> None:
    tagged = message_class("Large", {"value": None}, {})
    plan = Plan(tagged, [], [("value", Records(**COMPACT), 0)], [], True)
    large = Codec("large", 1, 0, 0, 0, lambda _: plan)
    (tmp_path / "file").write_bytes(b"content")
    with (tmp_path / "file").open("rb") as file, pytest.raises(EncodeError, match="slice of a fi"):
        large.encode(0, tagged(value=FileSlice(file, 0, 7)))


def test_a_message_class_needs_its_fields_as_slots() -> None:
    with pytest.raises(TypeError, match="int is not a message class"):
        Plan(int, [], [], [], False)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="Box has no field other"):
        Plan(Box, [("other", Int8())], [], [], False)


def test_a_default_that_is_a_type_is_instantiated_for_every_message() -> None:
    outer = message_class("Outer", {"boxes": list, "box": Box}, {})
    assert outer().boxes is not outer().boxes
    assert outer().box == Box()
    assert outer().box is not outer().box


def test_a_reader_returns_its_position() -> None:
    reader = Reader(b"abcdef", 2, 5)
    assert (reader.position, reader.remaining) == (2, 3)


def test_encoding_and_decoding_leak_no_memory() -> None:
    struct_of = Plan(Box, [("value", String(**NULLABLE))], [], [], True)
    many = codec(Array(struct_of, **COMPACT), flexible=True)
    data = many.encode(0, Box(value=[Box(value=f"name {i}") for i in range(20)]))

    def work() -> None:
        many.encode(0, many.decode(0, data, 0, len(data)))
        for broken in (data[:-3], data[:40] + b"\xff\xff" + data[42:]):
            with pytest.raises(DecodeError):
                many.decode(0, broken, 0, len(broken))
        with pytest.raises(EncodeError):
            many.encode(0, Box(value=[Box(value="a"), Box(value=5)]))

    def blocks() -> int:
        gc.collect()
        return sys.getallocatedblocks()

    for _ in range(50):
        work()
    before = blocks()
    for _ in range(300):
        work()
    assert blocks() - before < 200


@pytest.mark.parametrize("sizes", [{}, COMPACT])
@pytest.mark.parametrize("count", [0, 1, 200, 5000])
def test_an_encoded_array_can_be_reused_in_several_messages(
    count: int, sizes: dict[str, bool]
) -> None:
    both = codec(Array(Array(Int32(), **sizes), **sizes))
    inner = EncodedArray(Int32())
    for number in range(count):
        inner.append(number)
    data = both.encode(0, Box(value=[list(range(count))] * 2))
    for _ in range(2):
        assert both.encode(0, Box(value=[inner, inner])) == data
    with pytest.raises(EncodeError, match="in a message already"):
        inner.append(0)


def test_the_element_type_of_a_field_is_found_by_its_name() -> None:
    inner = Plan(Box, [("value", Array(Int8()))], [], [], False)
    outer = codec(Array(inner))
    assert isinstance(outer.element(0, "value", "value"), Int8)
    with pytest.raises(EncodeError, match="no field other"):
        outer.element(0, "value", "other")


def test_counts_and_sizes_of_a_frame_are_big_endian() -> None:
    frame = codec(Int8()).encode_request(0, 7, None, Box(value=5))
    assert frame == struct.pack(">ihhihbb", 12, 1, 0, 7, -1, 0, 5)
