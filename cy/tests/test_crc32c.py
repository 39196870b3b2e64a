"""Every implementation that this CPU has gives the checksums of RFC 3720 and of the definition."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cy.crc32c import IMPLEMENTATIONS, crc32c, crc32c_by

RFC_3720 = [
    (bytes(32), 0x8A9136AA),
    (b"\xff" * 32, 0x62A8AB43),
    (bytes(range(32)), 0x46DD794E),
    (bytes(range(31, -1, -1)), 0x113FDB5C),
    (
        bytes.fromhex(
            "01c00000000000000000000000000000140000000000040000000014000000182800000000000000"
            "0200000000000000"
        ),
        0xD9963A56,
    ),
    (b"123456789", 0xE3069283),
    (b"", 0),
]
RANDOM = random.Random(3720).randbytes(20_000)

every_implementation = pytest.mark.parametrize("implementation", IMPLEMENTATIONS)


def bitwise(data: bytes, value: int = 0) -> int:
    state = value ^ 0xFFFFFFFF
    for byte in data:
        state ^= byte
        for _ in range(8):
            state = state >> 1 ^ (0x82F63B78 if state & 1 else 0)
    return state ^ 0xFFFFFFFF


@every_implementation
@pytest.mark.parametrize(("data", "expected"), RFC_3720)
def test_crc32c_returns_the_values_of_rfc_3720(implementation: str, data: bytes, expected: int) -> None:
    assert crc32c_by(implementation, data) == expected


def test_the_table_implementation_agrees_with_the_definition() -> None:
    for length in (*range(70), 1000):
        assert crc32c_by("table", RANDOM[:length], length) == bitwise(RANDOM[:length], length)


@every_implementation
def test_every_length_up_to_4096_agrees_with_the_table(implementation: str) -> None:
    view = memoryview(RANDOM)
    for length in range(4097):
        expected = crc32c_by("table", view[:length])
        assert crc32c_by(implementation, view[:length]) == expected, length


@every_implementation
def test_the_alignment_of_the_buffer_does_not_matter(implementation: str) -> None:
    view = memoryview(RANDOM)
    for start in range(65):
        for length in (1, 7, 64, 383, 384, 511, 512, 513, 767, 3072, 3073, 9999):
            piece = view[start : start + length]
            assert crc32c_by(implementation, piece, 5) == crc32c_by("table", piece, 5)


@every_implementation
@given(data=st.binary(max_size=3000), repeat=st.integers(1, 9), cut=st.integers(0, 27_000))
def test_a_checksum_continues_an_earlier_one(
    implementation: str, data: bytes, repeat: int, cut: int
) -> None:
    whole = data * repeat
    head, tail = whole[:cut], whole[cut:]
    joined = crc32c_by(implementation, tail, crc32c_by(implementation, head))
    assert joined == crc32c_by("table", whole)


def test_the_fastest_implementation_is_in_use_and_takes_any_buffer() -> None:
    large = RANDOM * 10
    expected = crc32c_by(IMPLEMENTATIONS[-1], large)
    assert crc32c(large) == crc32c(bytearray(large)) == crc32c(memoryview(large)) == expected


def test_unknown_implementations_and_objects_without_a_buffer_are_refused() -> None:
    with pytest.raises(ValueError, match="tuple"):
        crc32c_by("abacus", b"")
    with pytest.raises(TypeError):
        crc32c("text")  # type: ignore[arg-type]
    with pytest.raises(OverflowError):
        crc32c(b"", -1)
