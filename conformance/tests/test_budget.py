"""A run that takes more CPU time than ``--cpu-budget`` says fails, though its tests pass."""

from __future__ import annotations

from pathlib import Path

import pytest

from conformance.budget import Budget

pytest_plugins = "pytester"

PLUGIN = """
from conformance import budget

def pytest_addoption(parser):
    parser.addoption(budget.OPTION, type=float)

def pytest_configure(config):
    budget.register(config)
"""
ROOT = Path(__file__).parents[2]


@pytest.fixture
def suite(pytester: pytest.Pytester) -> pytest.Pytester:
    """Writes a suite of one passing test."""
    pytester.syspathinsert(ROOT)
    pytester.makeconftest(PLUGIN)
    pytester.makepyfile("def test_one():\n    assert sum(range(100_000))")
    return pytester


@pytest.mark.nightly
@pytest.mark.parametrize("workers", [(), ("-n", "2")], ids=["alone", "workers"])
def test_a_run_above_its_budget_fails(suite: pytest.Pytester, workers: tuple[str, ...]) -> None:
    done = suite.runpytest_subprocess(*workers, "--cpu-budget", "0.001")
    assert done.ret == pytest.ExitCode.TESTS_FAILED
    done.assert_outcomes(passed=1)
    done.stdout.fnmatch_lines(["*make a test cheaper*"])


@pytest.mark.nightly
def test_a_run_within_its_budget_passes(suite: pytest.Pytester) -> None:
    done = suite.runpytest_subprocess("-n", "2", "--cpu-budget", "1000")
    assert done.ret == pytest.ExitCode.OK
    done.stdout.no_fnmatch_line("* 0 s of CPU*")


def test_a_budget_counts_every_worker() -> None:
    class Node:
        workeroutput = {"cpu_s": 2.5}

    budget = Budget(limit_s=4)
    for _ in range(2):
        budget.pytest_testnodedown(Node())
    assert budget.workers_s == 5
