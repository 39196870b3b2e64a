"""The pytest plugin that keeps the gate short: ``--cpu-budget SECONDS`` fails a run that takes more CPU time.

It counts CPU time, which a busy machine does not change much. It counts the workers of xdist and all processes that
tests started and waited for.
"""

from __future__ import annotations

import resource
from typing import Any

import pytest

OPTION = "--cpu-budget"
OUTPUT = "cpu_s"
"""The key under which a worker of xdist passes its CPU time to the process that started it."""


def cpu_s() -> float:
    """Returns the CPU seconds of this process and of the children that it has waited for."""
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(each.ru_utime + each.ru_stime for each in used)


class Worker:
    """Reports the CPU time of a worker of xdist at its end."""

    def __init__(self, config: Any) -> None:
        self.output: dict[str, float] = config.workeroutput

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self) -> None:
        self.output[OUTPUT] = cpu_s()


class Budget:
    """Runs in the process that the user started: adds up, reports and judges.

    Args:
        limit_s: CPU seconds that the run may take.
    """

    def __init__(self, limit_s: float) -> None:
        self.limit_s = limit_s
        self.workers_s = 0.0
        self.total_s = 0.0

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: Any) -> None:
        """Adds a worker's time; xdist calls this when the worker has ended."""
        self.workers_s += getattr(node, "workeroutput", {}).get(OUTPUT, 0.0)

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        # The children's time already includes a worker that was waited for; xdist waits after this.
        self.total_s = self.workers_s or cpu_s()
        if self.total_s > self.limit_s and session.exitstatus == pytest.ExitCode.OK:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    def pytest_terminal_summary(self, terminalreporter: Any) -> None:
        line = f"{self.total_s:.0f} s of CPU; the budget is {self.limit_s:.0f} s"
        exceeded = self.total_s > self.limit_s
        terminalreporter.section("budget", red=exceeded, bold=exceeded)
        terminalreporter.write_line(f"{line}: make a test cheaper, or mark it nightly" if exceeded else line)


def register(config: pytest.Config) -> None:
    """Registers what this process needs for ``--cpu-budget``, or nothing without the option."""
    limit_s = config.getoption(OPTION)
    if limit_s is not None:
        config.pluginmanager.register(Worker(config) if hasattr(config, "workeroutput") else Budget(limit_s), "budget")
