"""The page of the fault cases has a row for each that a test is named by, and no other."""

from __future__ import annotations

import re
from collections import defaultdict

from conformance.tiers import FOLDERS
from docs.tests.blocks import ROOT

PAGE = ROOT / "docs" / "fault-cases.md"
TEST = re.compile(r"def test_case_(\d+(?:_and_\d+)*)_")
ROW = re.compile(r"\| (\d+) \|(.*)\|(.*)\|(.*)\|")


def cases_in_tests() -> dict[int, set[str]]:
    """The files that have tests of each case."""
    found: defaultdict[int, set[str]] = defaultdict(set)
    for folder in FOLDERS:
        for path in (ROOT / folder).rglob("*.py"):
            for numbers in TEST.findall(path.read_text(encoding="utf-8")):
                for number in numbers.split("_and_"):
                    found[int(number)].add(str(path.relative_to(ROOT)))
    return dict(found)


def test_each_fault_case_has_a_row_with_its_tests_and_each_row_has_tests() -> None:
    rows = ROW.findall(PAGE.read_text(encoding="utf-8"))
    assert {int(number): set(re.findall("`([^`]+[.]py)`", files)) for number, _, _, files in rows} == cases_in_tests()
    assert [int(row[0]) for row in rows] == sorted(cases_in_tests())
    assert all(fault.strip() and promise.strip() for _, fault, promise, _ in rows)
