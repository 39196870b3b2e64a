"""Replaces every length of every message by one that no honest peer sends. The decoder refuses it without taking
memory.

The messages are written here field by field from the schemas, with one element in each array and all tagged fields, so
that each length has a known place. A connection turns the DecodeError into its end and one line of the log.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import pytest

from cy.wire.buffer import DecodeError
from cy.wire.codec import Codec
from pyclient.protocol import apis
from pyclient.protocol.apis import SCHEMAS
from pyclient.protocol.frames import decode_request_header
from pyclient.protocol.messages import compiler, message_classes
from pyclient.protocol.schema import Body, Field, read_bodies, read_head
from pyclient.protocol.tests.test_fuzz import bounded_memory, tracing

_FIXED = {"bool": 1, "int8": 1, "int16": 2, "uint16": 2, "int32": 4, "uint32": 4, "int64": 8, "float64": 8, "uuid": 16}
_LARGEST = 2**31 - 1
_BUDGET = 20_000
NOT_VARINTS = (b"\xff" * 4 + b"\x10", b"\xff" * 5 + b"\x01", b"\x80" * 9 + b"\x01", b"\xff" * 12)
"""More than 32 bits, more than five bytes, and no end."""


@dataclass(frozen=True)
class Length:
    """A length in a message. ``width``: its number of bytes, 0 for a varint."""

    where: str
    value: int
    width: int
    least: int = 0
    """The least valid number on the wire: one less is hostile, if there is one less."""

    def write(self, number: int) -> bytes:
        return number.to_bytes(self.width, "big", signed=True) if self.width else varint(number)

    def hostile(self, left: int) -> Iterator[bytes]:
        """Yields invalid lengths for a place with ``left`` bytes after it."""
        top = 2 ** (8 * self.width - 1) - 1 if self.width else 2**32 - 1
        bottom = -top - 1 if self.width else 0
        for number in {left + 2, _LARGEST, _LARGEST + 1, _LARGEST + 2, top, bottom, -2, self.least - 1}:
            if bottom <= number <= top and not self.least <= number <= left + 1:
                yield self.write(number)
        if not self.width:
            yield from NOT_VARINTS


Parts = list["bytes | Length"]


def varint(number: int) -> bytes:
    data = bytearray()
    while number > 0x7F:
        data.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes((*data, number))


def whole(parts: Parts) -> bytes:
    return b"".join(part.write(part.value) if isinstance(part, Length) else part for part in parts)


class Lines:
    """Writes a body's fields in one version."""

    def __init__(self, body: Body, version: int, *, is_flexible: bool) -> None:
        self.structs = body.all_structs()
        self.version = version
        self.is_flexible = is_flexible

    def message(self, lines: list[Field], where: str) -> Parts:
        here = [line for line in lines if self.version in line.versions]
        parts = [part for line in here if line.tag is None for part in self._field(line, f"{where}.{line.name}")]
        if self.is_flexible:
            tagged = sorted((line for line in here if line.tag is not None), key=lambda line: line.tag or 0)
            parts.append(Length(f"{where}'s tags", len(tagged), 0))
            for line in tagged:
                value = self._field(line, f"{where}.{line.name}")
                size = len(whole(value))
                parts += [varint(line.tag or 0), Length(f"{where}.{line.name}'s size", size, 0, size), *value]
        return parts

    def _field(self, line: Field, where: str) -> Parts:
        is_nullable = self.version in line.nullable
        if line.array:
            return [self._length(where, 1, 4, is_nullable=is_nullable), *self._one(line, where)]
        if line.is_struct and is_nullable:
            return [b"\1", *self._one(line, where)]
        if line.is_struct or line.type in _FIXED:
            return self._one(line, where)
        return self._one(line, where, is_nullable=is_nullable)

    def _one(self, line: Field, where: str, *, is_nullable: bool = False) -> Parts:
        if line.is_struct:
            return self.message(self.structs[line.type], where)
        if line.type in _FIXED:
            return [b"\1" * _FIXED[line.type]]
        return [self._length(where, 3, 2 if line.type == "string" else 4, is_nullable=is_nullable), b"abc"]

    def _length(self, where: str, value: int, width: int, *, is_nullable: bool) -> Length:
        if self.is_flexible:
            return Length(where, value + 1, 0, 0 if is_nullable else 1)
        return Length(where, value, width, -1 if is_nullable else 0)


def frames(parts: Parts) -> Iterator[tuple[str, bytes]]:
    """Yields each changed field, and the message with that one hostile length."""
    data, begin = whole(parts), 0
    for part in parts:
        end = begin + len(whole([part]))
        if isinstance(part, Length):
            for length in part.hostile(len(data) - end):
                yield f"{part.where} = {length.hex()}", data[:begin] + length + data[end:]
        begin = end


def is_refused(decode: Callable[..., object], *arguments: object) -> bool:
    try:
        decode(*arguments)
    except DecodeError:
        return True
    return False


def check(codec: Codec, version: int, parts: Parts) -> int:
    """Returns how many frames were refused."""
    data = whole(parts)
    assert codec.encode(version, codec.decode(version, data, 0, len(data))) == data
    count = 0
    for what, frame in frames(parts):
        with bounded_memory(len(frame)):
            assert is_refused(codec.decode_within, version, frame, 0, len(frame), _BUDGET), f"v{version} {what}"
        count += 1
    return count


@pytest.mark.parametrize("side", ["request", "response"])
def test_case_48_every_hostile_length_of_every_api_and_version_is_refused(side: str) -> None:
    with tracing():
        for api in apis.ALL:
            codec, body = getattr(api, f"{side}_codec"), read_bodies(api.head)[side]
            for version in range(api.min_version, api.max_version + 1):
                lines = Lines(body, version, is_flexible=api.is_flexible(version))
                assert check(codec, version, lines.message(body.fields, api.name)) or not api.is_flexible(version)


def test_case_48_every_hostile_length_of_a_request_header_is_refused() -> None:
    for api in apis.ALL:
        for version in range(api.min_version, api.max_version + 1):
            parts: Parts = [struct.pack(">hhi", api.key, version, 7), Length("client id", 3, 2, -1), b"abc"]
            if api.is_flexible(version):
                parts += [Length("tags", 1, 0), b"\x05", Length("a tag", 3, 0), b"abc"]
            data = whole(parts)
            assert decode_request_header(data, 0, len(data)).position == len(data)
            for what, frame in frames(parts):
                assert is_refused(decode_request_header, frame, 0, len(frame)), f"{api.name} v{version} {what}"


def test_case_48_every_hostile_length_inside_the_bytes_of_a_request_is_refused() -> None:
    """A group member's subscription and an Envelope's request are bytes that contain a message."""
    with tracing():
        for path in (SCHEMAS / "records").glob("*.api"):
            head = read_head(path)
            body = read_bodies(head)["fields"]
            compile_plan = compiler(body, message_classes(body, head.name, {}), head.flexible.__contains__, strict=True)
            codec = Codec(head.name, -1, head.versions.first, head.versions.last, head.flexible_from, compile_plan)
            for version in range(head.versions.first, head.versions.last + 1):
                lines = Lines(body, version, is_flexible=version in head.flexible)
                check(codec, version, lines.message(body.fields, head.name))
