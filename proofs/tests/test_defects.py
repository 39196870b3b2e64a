"""Each planted defect is found by the test that it names, which says what is wrong."""

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
"""pytest's exit code where tests ran and some failed."""
PATIENCE_S = 3_300
"""Above the limits that the tests themselves have."""
OUTDATED = re.compile(r"proofs/defects/\w+\.py:\d+: (TypeError|AttributeError)")
"""The patch itself failed: the code that it replaces has changed."""
SHORT = "acks_before_replication"
"""The one defect of the trials that runs nightly; the others are campaigns."""


def marks(defect: Defect) -> list[pytest.MarkDecorator]:
    """What its test takes."""
    takes_minutes = defect.test.startswith((TRIALS, THOUSANDS)) and defect.name != SHORT
    return [pytest.mark.campaign] * takes_minutes


def planted(defect: Defect) -> Any:
    """Its name, and its test's parameter where one name has several tests."""
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
