"""The rows that the suite shows (``rows.json``: id and sentence), and the tests that show them, by their names.

``test_s57_s60_a_crash_…`` shows two rows.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
#: Tests of rows are in these folders.
FOLDERS = ("conformance",)
IDS = re.compile(r"test((?:_s\d{2,3})+)_")
DEFINED = re.compile(r"^(?:async )?def (test_s\d\w+)\(", re.MULTILINE)


class Test(NamedTuple):
    """A test function, and where it stands."""

    #: The path relative to the checkout.
    path: str
    name: str


def sentences() -> dict[str, str]:
    """Returns each row's requirement, in order."""
    found: dict[str, str] = json.loads((HERE / "rows.json").read_text())
    return found


def of_test(name: str) -> list[str]:
    """Returns the rows that a test of this name shows."""
    match = IDS.match(name)
    return [part.upper() for part in match[1].split("_")[1:]] if match else []


def tests() -> Iterator[Test]:
    """Yields every test that shows a row."""
    for folder in FOLDERS:
        for path in sorted((ROOT / folder).rglob("test_*.py")):
            for name in DEFINED.findall(path.read_text()):
                if of_test(name):
                    yield Test(path.relative_to(ROOT).as_posix(), name)


def by_row(found: Iterable[Test]) -> dict[str, list[Test]]:
    """Returns each row's tests."""
    rows: dict[str, list[Test]] = {row: [] for row in sentences()}
    for test in found:
        for row in of_test(test.name):
            rows[row].append(test)
    return rows
