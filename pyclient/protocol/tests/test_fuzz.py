"""Random bytes: the decoder returns a message or raises DecodeError, never anything else.

What it accepts is stable: encoded and decoded again it is the same message. The long form runs for
``PYBROKER_TEST_MUTATIONS`` messages (20 million, some minutes). The test also checks the memory: that of a decoded
frame is in proportion to the frame's size, whatever lengths it declares.
"""

from __future__ import annotations

import os
import random
import tracemalloc
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from itertools import islice

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cy.wire.buffer import DecodeError
from cy.wire.codec import Codec
from pyclient.protocol import apis
from pyclient.protocol.frames import decode_request_header
from pyclient.protocol.schema import read_bodies
from pyclient.protocol.tests.random_messages import Source

SEED = int(os.environ.get("PYBROKER_TEST_SEED", "2011"))
CODECS = [codec for api in apis.ALL for codec in (api.request_codec, api.response_codec)]
#: A byte of the wire makes at most so many in memory: two bytes can be an object with its fields.
AMPLIFICATION = 200


def check(codec: Codec, version: int, data: bytes) -> bool:
    """Returns whether the bytes are a message."""
    try:
        message = codec.decode(version, data, 0, len(data))
    except DecodeError:
        return False
    again = codec.encode(version, message)
    assert codec.encode(version, codec.decode(version, again, 0, len(again))) == again
    return True


@st.composite
def codec_and_version(draw: st.DrawFn) -> tuple[Codec, int]:
    codec = draw(st.sampled_from(CODECS))
    return codec, draw(st.integers(codec.min_version, codec.max_version))


@settings(max_examples=400, deadline=None)
@given(codec_and_version(), st.binary(max_size=200))
def test_case_47_random_bytes_decode_to_a_message_or_raise_an_error(
    subject: tuple[Codec, int], data: bytes
) -> None:
    check(*subject, data)


@settings(max_examples=400, deadline=None)
@given(st.binary(max_size=40))
def test_case_47_random_bytes_decode_to_a_header_or_raise_an_error(data: bytes) -> None:
    try:
        header = decode_request_header(data, 0, len(data))
    except DecodeError:
        return
    assert 10 <= header.position <= len(data)


class Mutations:
    """Makes valid messages of every API and version, and changes each in a few places."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.sources = [
            (codec, version, Source(seed, body, getattr(api, side.title()), version))
            for api in apis.ALL
            for side, body in read_bodies(api.head).items()
            for codec in (getattr(api, f"{side}_codec"),)
            for version in range(api.min_version, api.max_version + 1)
        ]

    def __iter__(self) -> Iterator[tuple[Codec, int, bytes]]:
        while True:
            codec, version, source = self.random.choice(self.sources)
            data = codec.encode(version, source.next()[0])
            for _ in range(8):
                yield codec, version, self.mutate(data)

    def mutate(self, data: bytes) -> bytes:
        changed = bytearray(data)
        for _ in range(self.random.choice((1, 1, 2, 4))):
            at = self.random.randrange(len(changed) + 1)
            self.random.choice((self.replace, self.insert, self.remove, self.flip))(changed, at)
        return bytes(changed)

    def piece(self) -> bytes:
        """Returns random bytes, which are often a length."""
        edges = (b"\0", b"\1", b"\x7f", b"\x80", b"\xff", b"\xff" * 4, b"\x7f\xff\xff\xff")
        return self.random.choice((*edges, b"\xff\xff\xff\xff\x0f", self.random.randbytes(3)))

    def replace(self, data: bytearray, at: int) -> None:
        piece = self.piece()
        data[at : at + len(piece)] = piece

    def insert(self, data: bytearray, at: int) -> None:
        data[at:at] = self.piece()

    def remove(self, data: bytearray, at: int) -> None:
        del data[at : at + self.random.choice((1, 2, 4, 1000))]

    def flip(self, data: bytearray, at: int) -> None:
        if at < len(data):
            data[at] ^= 1 << self.random.randrange(8)


def run(total: int, seed: int = SEED, *, watch_memory: bool = False) -> int:
    """Mutates ``total`` messages. Returns how many of them still decode."""
    accepted = 0
    for codec, version, data in islice(Mutations(seed), total):
        try:
            with bounded_memory(len(data)) if watch_memory else nullcontext():
                accepted += check(codec, version, data)
        except Exception as error:
            error.add_note(f"seed {seed}: {codec.name} version {version}: {data.hex()}")
            raise
    return accepted


@contextmanager
def bounded_memory(size: int) -> Iterator[None]:
    """Checks that the block takes memory only in proportion to ``size``."""
    tracemalloc.reset_peak()
    before = tracemalloc.get_traced_memory()[0]
    yield
    assert tracemalloc.get_traced_memory()[1] - before < 65_536 + AMPLIFICATION * size


@contextmanager
def tracing() -> Iterator[None]:
    tracemalloc.start()
    try:
        yield
    finally:
        tracemalloc.stop()


def test_mutated_messages_decode_or_raise_an_error() -> None:
    assert 0 < run(20_000) < 20_000


def test_case_46_memory_is_in_proportion_to_the_bytes_that_arrived() -> None:
    with tracing():
        run(3_000, watch_memory=True)


@pytest.mark.campaign
@pytest.mark.timeout(7200)
def test_millions_of_mutated_messages_decode_or_raise_an_error() -> None:
    total = int(os.environ.get("PYBROKER_TEST_MUTATIONS", "20000000"))
    print(f"{run(total, SEED + 1)} of {total} mutated messages are messages")
    with tracing():
        run(total // 20, SEED + 2, watch_memory=True)
