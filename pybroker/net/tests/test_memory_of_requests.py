"""A decoded request needs memory in proportion to its bytes: every API in its first, densest and last version."""

from __future__ import annotations

import tracemalloc
from typing import Any

import pytest

from cy.wire.buffer import DecodeError, TooMuch
from pybroker.handlers import ROWS, Row
from pybroker.net.routes import Routes
from pyclient.protocol.schema import Body, Field, read_bodies

SIZE = 3_000_000
FACTOR = 4
CONSTANT = 16 << 20

ROUTES = Routes(ROWS, lambda *args: None, lambda _: b"")
SMALLEST = {"bool": 1, "int8": 1, "int16": 2, "uint16": 2, "int32": 4, "int64": 8, "float64": 8, "uuid": 16}


def unsigned(value: int) -> bytes:
    """Returns an unsigned varint."""
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes((*out, value))


class Dense:
    """Writes the smallest request of a version, except that one array has as many elements as fit."""

    def __init__(self, api: Any, body: Body, version: int, grown: int) -> None:
        self.flexible = api.is_flexible(version)
        self.body, self.version, self.grown = body, version, grown
        self.arrays = 0

    def message(self, fields: list[Field]) -> bytes:
        data = b"".join(
            self.field(each)
            for each in fields
            if each.tag is None and each.versions.first <= self.version <= each.versions.last
        )
        return data + b"\0" if self.flexible else data

    def field(self, field: Field) -> bytes:
        if not field.array:
            return self.value(field)
        self.arrays += 1
        number = self.arrays
        element = self.value(field)
        count = SIZE // len(element) if number == self.grown else 1 if number < self.grown else 0
        head = unsigned(count + 1) if self.flexible else count.to_bytes(4, "big")
        return head + element * count

    def value(self, field: Field) -> bytes:
        if field.type in SMALLEST:
            return bytes(SMALLEST[field.type])
        if field.type == "string":
            return b"\1" if self.flexible else b"\0\0"
        if field.type in ("bytes", "records"):
            return b"\1" if self.flexible else b"\0\0\0\0"
        return self.message(field.fields or self.body.structs[field.type])


def dense(api: Any, version: int, grown: int) -> tuple[bytes, int]:
    """Returns the request, and how many arrays it has."""
    writer = Dense(api, read_bodies(api.head)["request"], version, grown)
    data = writer.message(writer.body.fields)
    return data, writer.arrays


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.api.name)
def test_a_decoded_request_takes_memory_in_proportion_to_its_size(row: Row) -> None:
    api: Any = row.api
    for version in sorted({api.min_version, max(api.min_version, api.flexible_from), api.max_version}):
        if api.min_version <= version <= api.max_version:
            check(api, version)


def check(api: Any, version: int) -> None:
    """Checks the version once with each array as the long one."""
    route = ROUTES.find(api.key, version)
    assert route is not None
    for grown in range(1, dense(api, version, 0)[1] + 1):
        data, _ = dense(api, version, grown)
        tracemalloc.start()
        try:
            route.decode(version, data, 0, len(data), route.most_units)
        except TooMuch:
            pass
        except DecodeError as error:
            pytest.fail(f"array {grown} of {api}: {error}")
        finally:
            peak = tracemalloc.get_traced_memory()[1]
            tracemalloc.stop()
        assert peak <= FACTOR * len(data) + CONSTANT, f"array {grown} of {api}: {peak} for {len(data)}"
