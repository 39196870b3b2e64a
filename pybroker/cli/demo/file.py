"""A user's file as a data set. It is read while its records are sent.

    .csv                a record per row: JSON by the names of the header
    .jsonl  .ndjson     a record per line, which must be JSON

    anything else, -    a record per line, unchanged

``.gz`` and ``.xz`` behind the name are understood.
"""

from __future__ import annotations

import csv
import gzip
import io
import lzma
import re
import sys
import zlib
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import IO, Any

import msgspec

from pybroker.cli.common.verbs import Failure
from pybroker.cli.demo.dataset import Item

OPENERS: dict[str, Callable[..., Any]] = {".gz": gzip.open, ".xz": lzma.open}
JSON_LINES = (".jsonl", ".ndjson")
SAMPLE = 100
"""The worker copies one in so many records."""
MAX_TOPIC_LENGTH = 200


class Sizes:
    """The result of a consumer of a file: how many bytes the records have, and the longest record."""

    def __init__(self) -> None:
        self.count = self.size = self.longest = 0

    def add(self, values: list[bytes]) -> None:
        sizes = list(map(len, values))
        self.count += len(sizes)
        self.size += sum(sizes)
        self.longest = max(self.longest, *sizes) if sizes else self.longest

    def merge(self, other: Sizes) -> None:
        self.count += other.count
        self.size += other.size
        self.longest = max(self.longest, other.longest)

    def sentence(self) -> str:
        mean = self.size / max(1, self.count)
        return f"{self.count:,} records of {mean:,.0f} bytes on average, {self.longest:,} at most"


class File:
    """A file of the user's. ``key``: the field of CSV or JSON that is the records' key."""

    total: int | None = None
    copied = f"one in {SAMPLE}"

    def __init__(self, path: str, key: str | None) -> None:
        self.path, self.key = path, key
        if path != "-" and not Path(path).is_file():
            raise Failure(f"{path}: no such file; without FILE the demo brings its own data")
        self.title = "standard input" if path == "-" else path
        name = Path("stdin" if path == "-" else path.lower())
        self.packing = name.suffix if name.suffix in OPENERS else ""
        name = name.with_suffix("") if self.packing else name
        self.kind = name.suffix
        self.topic = re.sub(r"[^a-z0-9._-]+", "-", name.stem).strip(".-")[:MAX_TOPIC_LENGTH] or "lines"
        if key is not None and self.kind not in (".csv", *JSON_LINES):
            raise Failure(f"--key {key}: {self.title} has no fields; .csv, .jsonl and .ndjson have")

    def tally(self) -> Sizes:
        return Sizes()

    def is_copied(self, value: bytes) -> bool:
        return zlib.crc32(value) % SAMPLE == 0

    def items(self) -> Iterator[Item]:
        try:
            with closing(self._open()) as file:
                yield from self._rows(file) if self.kind == ".csv" else self._lines(file)
        except (OSError, EOFError, UnicodeDecodeError, csv.Error, lzma.LZMAError) as error:
            raise Failure(f"{self.title}: {error}") from error

    def _open(self) -> IO[bytes]:
        if self.path == "-":
            return sys.stdin.buffer
        return OPENERS[self.packing](self.path, "rb") if self.packing else open(self.path, "rb")

    def _lines(self, file: IO[bytes]) -> Iterator[Item]:
        is_json = self.kind in JSON_LINES
        for number, line in enumerate(file, 1):
            value = line.rstrip(b"\r\n")
            if is_json and value.strip():
                yield self._item(self._key_of(self._decoded(number, value), number), value)
            elif not is_json:
                yield self._item(None, value)

    def _rows(self, file: IO[bytes]) -> Iterator[Item]:
        rows = csv.DictReader(io.TextIOWrapper(file, encoding="utf-8-sig", newline=""), restkey="more")
        for row in rows:
            yield self._item(self._key_of(row, rows.line_num), msgspec.json.encode(row))

    def _item(self, key: bytes | None, value: bytes) -> Item:
        return Item(key, value, self.is_copied(value))

    def _decoded(self, number: int, line: bytes) -> Any:
        try:
            return msgspec.json.decode(line)
        except msgspec.DecodeError as error:
            raise Failure(f"{self.title}, line {number}: this is not JSON: {error}") from error

    def _key_of(self, fields: Any, number: int) -> bytes | None:
        if self.key is None:
            return None
        if not isinstance(fields, dict) or self.key not in fields:
            raise Failure(f"{self.title}, line {number}: there is no field {self.key!r}, which --key names")
        found = fields[self.key]
        return None if found is None else str(found).encode()
