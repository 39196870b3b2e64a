"""Reads the accepted differences from the table of docs/differences.md.

A row names the API (and versions, as ``EndTxn 0-4``), the field, what Kafka says and what we say; ``*`` stands for
anything. A difference is accepted if one row covers it. A row that covers nothing in a long run is out of date.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path

from conformance.differential.compare import Difference

PAGE = Path(__file__).resolve().parents[2] / "docs" / "differences.md"
START, END = "<!-- differential: start -->", "<!-- differential: end -->"
API = re.compile(r"(\w+|\*)(?: (\d+)(?:-(\d+))?)?")


@dataclass(frozen=True, slots=True)
class Accepted:
    """A row of the table of accepted differences."""

    number: str
    api: str
    versions: tuple[int, int]
    path: str
    kafka: str
    ours: str
    reason: str

    def covers(self, one: Difference) -> bool:
        """Returns whether the row covers ``one``, with ours on the left and Kafka on the right."""
        return (
            self.api in ("*", one.api)
            and self.versions[0] <= one.version <= self.versions[1]
            and _matches(one.path, self.path)
            and _matches(one.left, self.ours)
            and _matches(one.right, self.kafka)
        )


def _matches(text: str, pattern: str) -> bool:
    return fnmatchcase(text.replace("[", "("), pattern.replace("[", "("))


def rows(page: str) -> list[Accepted]:
    """Returns the rows between the page's marks.

    Raises:
        ValueError: a row lacks a column or a reason, or names no API.
    """
    table = page.partition(START)[2].partition(END)[0]
    return [_row(line) for line in table.splitlines() if re.match(r"\| *\d", line)]


def _row(line: str) -> Accepted:
    cells = [cell.strip().strip("`").replace("\\|", "|") for cell in re.split(r"(?<!\\)\|", line)[1:-1]]
    if len(cells) != 6 or not all(cells):
        raise ValueError(f"a row has six filled columns: {line}")
    number, api, path, kafka, ours, reason = cells
    match = API.fullmatch(api)
    if match is None:
        raise ValueError(f"no API: {api}")
    least = int(match[2] or 0)
    greatest = int(match[3] or match[2] or 99)
    return Accepted(number, match[1], (least, greatest), path, kafka, ours, reason)


def load() -> list[Accepted]:
    return rows(PAGE.read_text())


def unexplained(found: Iterable[Difference], table: Iterable[Accepted]) -> list[Difference]:
    """Returns the differences that no row covers."""
    known = list(table)
    return [one for one in found if not any(row.covers(one) for row in known)]
