"""Checks that the test that each planted defect names finds it, with a message that says what is wrong."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from proofs.defects import Defect, all_defects
from proofs.defects.suites import THOUSANDS, TRIALS
from proofs.forked import run_tests

pytestmark = pytest.mark.nightly

ROOT = Path(__file__).parents[2]
FAILED = 1
"""pytest's exit code if tests ran and some failed."""
PATIENCE_S = 3_300
"""Exceeds the limits of the tests themselves."""
OUTDATED = re.compile(r"proofs/defects/\w+\.py:\d+: (TypeError|AttributeError)")
"""The patch itself failed, because the code that it replaces has changed."""
SHORT = "acks_before_replication"
"""Only this trial's defect runs nightly; the others run in campaigns."""


def marks(defect: Defect) -> list[pytest.MarkDecorator]:
    """Returns the marks of the test that finds the defect."""
    takes_minutes = defect.test.startswith((TRIALS, THOUSANDS)) and defect.name != SHORT
    return [pytest.mark.campaign] * takes_minutes


def planted(defect: Defect) -> Any:
    """Returns the defect's name, with its test's parameter if several tests find it."""
    return pytest.param(defect, id="-".join(filter(None, (defect.name, defect.parameter))), marks=marks(defect))


@pytest.mark.timeout(PATIENCE_S + 200)
@pytest.mark.parametrize("defect", [planted(defect) for defect in all_defects()])
def test_a_planted_defect_is_found(defect: Defect) -> None:
    command = ["-p", "no:cacheprovider", "-x", "-m", "campaign or not campaign", "--defect", defect.name, defect.test]
    ended = run_tests(command, ROOT, PATIENCE_S)
    assert ended.code == FAILED, ended.output[-5000:]
    assert "1 failed" in ended.output, ended.output[-3000:]
    assert not OUTDATED.search(ended.output), ended.output[-3000:]
    assert re.search(defect.says, ended.output), ended.output[-3000:]
