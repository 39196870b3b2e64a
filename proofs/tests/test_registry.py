"""Checks that the registry of planted defects fits the code. The nightly ``test_defects`` shows that each defect is
found.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from proofs.defects import Defect, all_defects

ROOT = Path(__file__).parents[2]
FUNCTION = re.compile(r"::(\w+)(?:\[.*\])?$")


def missing(defect: Defect) -> Iterator[str]:
    """Yields the attributes that the defect replaces and that do not exist."""
    for owner, attribute, value in defect.patches():
        if not (isinstance(value, property) or hasattr(owner, attribute)):
            yield f"{defect.name}: {owner} has no {attribute}"


def test_each_attribute_that_a_defect_replaces_exists() -> None:
    assert [each for defect in all_defects() for each in missing(defect)] == []


def test_the_test_that_finds_a_defect_exists() -> None:
    for defect in all_defects():
        path, _, _ = defect.test.partition("::")
        found = FUNCTION.search(defect.test)
        assert found is None or f"def {found[1]}(" in (ROOT / path).read_text(encoding="utf-8"), defect.test
