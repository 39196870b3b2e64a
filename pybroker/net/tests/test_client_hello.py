"""The ClientHello of a TLS client, as far as the broker reads it."""

from __future__ import annotations

import random
import ssl
import struct
from collections.abc import Sequence

import pytest

from pybroker.net.tls.client_hello import HelloReader

FFDHE8192, X25519, GREASE = 0x0104, 0x001D, 0x0A0A
_KEY = bytes(1024)


def hello(groups: Sequence[int], shares: Sequence[int] = (), record: int = 1 << 14) -> bytes:
    """Returns a ClientHello with these groups and key shares, in records of so many bytes."""
    listed = b"".join(struct.pack(">H", group) for group in groups)
    keys = b"".join(struct.pack(">HH", group, len(_KEY)) + _KEY for group in shares)
    extensions = struct.pack(">HHH", 10, len(listed) + 2, len(listed)) + listed
    extensions += struct.pack(">HHH", 51, len(keys) + 2, len(keys)) + keys
    body = b"\x03\x03" + bytes(32) + b"\x20" + bytes(32) + b"\0\2\x13\1" + b"\1\0"
    body += struct.pack(">H", len(extensions)) + extensions
    message = b"\1" + len(body).to_bytes(3, "big") + body
    pieces = [message[at : at + record] for at in range(0, len(message), record)]
    return b"".join(b"\x16\3\1" + struct.pack(">H", len(piece)) + piece for piece in pieces)


def read(data: bytes, step: int = 1 << 14) -> tuple[bool, bool]:
    """Returns whether enough of the hello was read, and whether it asks for a finite field."""
    reader = HelloReader()
    is_decided = False
    for at in range(0, len(data), step):
        assert not is_decided
        is_decided = reader.add(memoryview(data)[at : at + step])
    assert reader.received == data
    return is_decided, reader.asks_for_finite_field()


@pytest.mark.parametrize("record", [1, 100, 1 << 14])
@pytest.mark.parametrize("step", [1, 1 << 14])
@pytest.mark.parametrize(
    ("groups", "shares", "is_slow"),
    [
        ([FFDHE8192], [FFDHE8192], True),
        ([X25519, FFDHE8192], [FFDHE8192], True),
        ([X25519, FFDHE8192], [X25519, FFDHE8192], True),
        ([FFDHE8192], [], True),
        ([GREASE, FFDHE8192], [GREASE], True),
        ([FFDHE8192, X25519], [], False),
        ([X25519, FFDHE8192], [X25519], False),
        ([X25519], [X25519], False),
        ([], [], False),
    ],
)
def test_a_finite_field_group_is_detected_however_the_client_hello_is_split(
    groups: Sequence[int], shares: Sequence[int], is_slow: bool, step: int, record: int
) -> None:
    assert read(hello(groups, shares, record), step) == (True, is_slow)


def test_the_client_hello_of_python_is_accepted() -> None:
    outgoing = ssl.MemoryBIO()
    begun = ssl.create_default_context().wrap_bio(ssl.MemoryBIO(), outgoing, server_hostname="localhost")
    with pytest.raises(ssl.SSLWantReadError):
        begun.do_handshake()
    assert read(outgoing.read()) == (True, False)


def test_a_tls_record_of_another_type_does_not_hide_a_finite_field_group() -> None:
    data = hello([FFDHE8192], [FFDHE8192], 500)
    cut = 5 + 500
    assert read(data[:cut] + b"\x14\3\3\0\1\1" + data[cut:]) == (True, True)


def test_a_first_message_that_is_not_a_client_hello_is_left_to_openssl() -> None:
    assert read(b"\x16\3\1\xff\xff") == (True, False)
    assert read(b"\x16\3\1\0\4\2\0\0\0") == (True, False)


def test_a_damaged_client_hello_raises_no_exception() -> None:
    chance = random.Random(5)
    whole = hello([X25519, FFDHE8192], [X25519, FFDHE8192])
    for _ in range(2000):
        data = bytearray(whole)
        for _ in range(chance.randint(1, 8)):
            data[chance.randrange(100 if chance.random() < 0.5 else len(data))] = chance.randrange(256)
        reader = HelloReader()
        reader.add(memoryview(data)[: chance.randint(1, len(data))])
        reader.asks_for_finite_field()
