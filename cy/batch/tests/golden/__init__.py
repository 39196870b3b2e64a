"""Record batches that other programs wrote (``batches.txt``), with the records in them."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

Fields = tuple[int, int, bytes | None, bytes | None, list[tuple[str, bytes | None]]]
"""Offset, timestamp, key, value, headers."""

START_MS = 1_700_000_000_000
APPEND_MS = 1_700_000_009_999


class Golden(NamedTuple):
    writer: str
    version: str
    codec: str
    kind: str
    octets: bytes

    def __str__(self) -> str:
        return "-".join(self[:4])


def load() -> list[Golden]:
    text = Path(__file__).with_name("batches.txt").read_text()
    rows = [line.split() for line in text.splitlines() if not line.startswith("#")]
    return [Golden(*row[:4], bytes.fromhex(row[4])) for row in rows]


def java_records(golden: Golden) -> list[Fields]:
    return [fields(golden, index, 1000) for index in range(12)]


def client_records(golden: Golden) -> list[Fields]:
    return [fields(golden, index, 0) for index in range(10)]


def fields(golden: Golden, index: int, base_offset: int) -> Fields:
    timestamp = START_MS + index * 7919 % 1000
    if golden.kind == "append":
        timestamp = APPEND_MS
    if golden.version == "v0":
        timestamp = -1
    key = None if index % 3 == 2 else b"k%d" % index
    value = None if index % 5 == 4 else b"value-%d-%s" % (index, b"x" * (3 * index))
    return base_offset + index, timestamp, key, value, headers(golden, index)


def headers(golden: Golden, index: int) -> list[tuple[str, bytes | None]]:
    if golden.version != "v2" or index % 4 != 1:
        return []
    own: list[tuple[str, bytes | None]] = [("h", b"b%d" % index)]
    return own if golden.writer == "kafkapython" else [*own, ("ä", None)]
