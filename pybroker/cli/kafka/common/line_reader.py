"""Makes records of lines as kafka-console-producer does: kafka.tools' LineMessageReader and its properties.

    parse.key=false  key.separator=\\t       key<TAB>value
    parse.headers=false  headers.delimiter=\\t  headers.separator=,  headers.key.separator=:
                                             h1:v1,h2:v2<TAB>value, before a key
    null.marker                              a key, header value or value that is this text is null
    ignore.error=false                       true: a line without a separator is a value as it is
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import combinations

from pybroker.cli.common.records.record_documents import Given
from pybroker.cli.common.verbs import Failure
from pybroker.cli.kafka.common.options import is_true

Header = tuple[str, bytes | None]
MARKS = {
    "key.separator": "\t",
    "headers.delimiter": "\t",
    "headers.separator": ",",
    "headers.key.separator": ":",
}
#: Marks that may be the same: the key follows the headers.
MAY_BE_EQUAL = {"key.separator"}


class LineReader:
    """Reads lines by the properties of the script. Raises ValueError for marks that cannot be told apart."""

    def __init__(self, known: Mapping[str, str]) -> None:
        self._key = is_true(known, "parse.key")
        self._headers = is_true(known, "parse.headers")
        self._lenient = is_true(known, "ignore.error")
        marks = {name: known.get(name, default) for name, default in MARKS.items()}
        null = known.get("null.marker")
        self._null = None if null is None else null.encode()
        check(marks, null)
        self._marks = {name: mark.encode() for name, mark in marks.items()}

    def __call__(self, lines: Iterable[bytes]) -> Iterator[Given]:
        """Yields the records of lines without their ends. Raises Failure with the number of the line."""
        for number, line in enumerate(lines, 1):
            yield self.read(number, line)

    def read(self, number: int, line: bytes) -> Given:
        headers, rest = self._cut(self._headers, number, line, "headers.delimiter")
        key, value = self._cut(self._key, number, rest, "key.separator")
        return Given(
            self._nullable(value),
            None if key is None else self._nullable(key),
            [] if headers is None or headers == self._null else self._split(number, headers),
        )

    def _cut(self, wanted: bool, number: int, line: bytes, mark: str) -> tuple[bytes | None, bytes]:
        """Splits a line at a mark."""
        if not wanted:
            return None, line
        before, found, rest = line.partition(self._marks[mark])
        if found:
            return before, rest
        if self._lenient:
            return None, line
        text = line[:80].decode(errors="replace")
        raise Failure(f"line {number}: {mark} {self._marks[mark].decode()!r} is missing: {text!r}")

    def _split(self, number: int, headers: bytes) -> list[Header]:
        return [self._header(number, pair) for pair in headers.split(self._marks["headers.separator"]) if pair]

    def _header(self, number: int, pair: bytes) -> Header:
        name, found, value = pair.partition(self._marks["headers.key.separator"])
        if not found and not self._lenient:
            text = pair.decode(errors="replace")
            raise Failure(f"line {number}: headers.key.separator is not in the header {text!r}")
        return name.decode(errors="replace"), self._nullable(value) if found else None

    def _nullable(self, data: bytes) -> bytes | None:
        return None if self._null is not None and data == self._null else data


def check(marks: Mapping[str, str], null: str | None) -> None:
    """Raises ValueError if two separators are equal, or one is empty or the same as ``null.marker``."""
    for (one, mark), (other, same) in combinations(marks.items(), 2):
        if mark == same and not MAY_BE_EQUAL & {one, other}:
            raise ValueError(f"{one} and {other} must differ: both are {mark!r}")
    for name, mark in marks.items():
        if not mark or mark == null:
            raise ValueError(f"{name} is {'empty' if not mark else 'also null.marker'}")
