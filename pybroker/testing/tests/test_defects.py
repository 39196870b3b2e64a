"""Each mended defect, planted again, is found by the test that it names."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from pybroker.testing.defects import VARIABLE, all_defects

ROOT = Path(__file__).parents[3]
FAILED = 1
"""pytest's exit code where tests ran and some failed."""


def marked(name: str) -> Any:
    """The defect, and that its test needs Spark where it does."""
    needs_spark = all_defects()[name].test.startswith("pyclient/spark/")
    return pytest.param(name, marks=pytest.mark.spark) if needs_spark else name


@pytest.mark.timeout(1_200)
@pytest.mark.parametrize("name", [marked(name) for name in sorted(all_defects())])
def test_a_planted_defect_is_found(name: str) -> None:
    test = all_defects()[name].test
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-x", "--defect", name, test]
    clean = {key: value for key, value in os.environ.items() if key not in (VARIABLE, "PYTEST_ADDOPTS")}
    ended = subprocess.run(command, cwd=ROOT, env=clean, capture_output=True, text=True, timeout=1_100)
    assert ended.returncode == FAILED, ended.stdout[-3000:] + ended.stderr[-2000:]
    assert "1 failed" in ended.stdout, ended.stdout[-3000:]
