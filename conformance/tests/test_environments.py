"""Each test of a campaign belongs to one verb of ``conformance/campaign.py``; otherwise nobody runs it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from conformance.campaign import CAMPAIGNS, ROOT, Program, Suite
from conformance.tiers import FOLDERS

MARKED = re.compile(r"\bmark\.campaign\b")
TESTS_OF_MARKS = {Path("conformance/tests/test_environments.py"), Path("conformance/tests/test_gate.py")}
"""These files mention the mark without using it."""


def marked() -> set[Path]:
    """Finds the files with tests that are marked ``campaign``."""
    files = (path for folder in FOLDERS for path in (ROOT / folder).rglob("test_*.py"))
    return {path.relative_to(ROOT) for path in files if MARKED.search(path.read_text())} - TESTS_OF_MARKS


def suites() -> Iterator[tuple[str, Suite]]:
    """Yields each verb with its tests."""
    for name, campaign in CAMPAIGNS.items():
        for command in campaign.commands:
            if isinstance(command, Suite):
                yield name, command


def holds(suite: Suite, file: Path) -> bool:
    """Returns whether the suite contains the file's tests."""
    within = {str(path) for path in (file, *file.parents)}
    return bool(within & {*suite.paths}) and not within & {*suite.ignored}


def test_each_campaign_test_belongs_to_exactly_one_campaign() -> None:
    homes = {str(file): [name for name, suite in suites() if holds(suite, file)] for file in marked()}
    assert len(homes) > 10
    assert not {file: names for file, names in homes.items() if len(names) != 1}


def test_the_paths_of_each_campaign_exist_and_have_campaign_tests() -> None:
    files = marked()
    for name, suite in suites():
        for path in (*suite.paths, *suite.ignored):
            assert (ROOT / path).exists(), f"{name}: {path}"
            assert any(Path(path) in (file, *file.parents) for file in files), f"{name}: {path}"


def test_the_programs_of_campaigns_exist() -> None:
    for name, campaign in CAMPAIGNS.items():
        for command in campaign.commands:
            if isinstance(command, Program):
                place = ROOT / command.module.replace(".", "/")
                assert place.with_suffix(".py").exists() or (place / "__main__.py").exists(), f"{name}: {place}"
