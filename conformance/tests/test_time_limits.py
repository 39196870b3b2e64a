"""A test's own time limit applies, even if it is longer than the limit for a run that hangs."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.nightly
ROOT = Path(__file__).parents[2]
PATIENCE_S = 2
SLOW = f"""
import time
import pytest

{{marker}}
def test_slow():
    time.sleep({PATIENCE_S + 1})
"""


def run(folder: Path, marker: str) -> subprocess.CompletedProcess[str]:
    """Runs a test with that marker. The test takes longer than the limit for a run that hangs."""
    (folder / "test_slow.py").write_text(SLOW.format(marker=marker))
    settings = [f"faulthandler_timeout={PATIENCE_S}", "faulthandler_exit_on_timeout=true"]
    settings += [f"timeout={PATIENCE_S}"] if "campaign" in marker else []
    words = ["-p", "conftest", "-c", "/dev/null", "--rootdir", folder, *(f"-o{each}" for each in settings)]
    words += ["-m", "campaign"] if "campaign" in marker else []
    command = [sys.executable, "-m", "pytest", "-q", *map(str, words), str(folder / "test_slow.py")]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)


def test_a_test_over_the_default_time_limit_ends_the_run_with_all_stacks(tmp_path: Path) -> None:
    done = run(tmp_path, "")
    assert done.returncode != 0
    assert "Timeout" in done.stderr


@pytest.mark.parametrize("marker", ["timeout(0)", "timeout(60)", "campaign"])
def test_a_test_may_set_a_longer_time_limit(tmp_path: Path, marker: str) -> None:
    done = run(tmp_path, f"@pytest.mark.{marker}")
    assert done.returncode == 0, done.stdout + done.stderr
