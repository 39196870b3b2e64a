"""The pytest plugin that notes what tests of rows have shown: ``--conformance-report FILE.json``.

Every run prints the numbers that its tests counted. With the option, only tests of rows run, and one line shows their
progress. Their results go into the file, beside other tests' results of earlier runs. ``python -m
conformance.report.page`` makes the page from it.
"""

from __future__ import annotations

import datetime
import json
import subprocess
import time
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import pytest

from conformance.report import rows
from conformance.tiers import CAMPAIGN

OPTION = "--conformance-report"
LINE_EVERY_S = 30.0
"""Seconds between reports of the progress if a line cannot be overwritten."""


@dataclass
class Trial:
    """The result of one test, with the test's parameters."""

    outcome: str = "passed"
    seconds: float = 0.0
    clients: list[str] = field(default_factory=list)
    counts: list[dict[str, Any]] = field(default_factory=list)
    is_campaign: bool = False
    commit: str = ""
    at: str = ""


def test_of(node_id: str) -> rows.Test:
    """Returns the function of a test's id."""
    path, _, name = node_id.partition("::")
    return rows.Test(path, name.rpartition("::")[2].partition("[")[0])


def in_words(count: Mapping[str, Any]) -> str:
    """Formats a count for people: ``acks=1: 100 acked, 7 lost``."""
    numbers = [f"{value:,} {key.replace('_', ' ')}" for key, value in count.items() if key != "case"]
    case = f"{count['case']}: " if count.get("case") else ""
    return case + ", ".join(numbers)


def commit() -> str:
    """Returns the commit that is checked out, with ``+`` if files were changed since."""
    told = subprocess.run(
        ["git", "describe", "--always", "--dirty=+", "--abbrev=10"],
        cwd=rows.ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    return told.stdout.strip()


def load(path: Path) -> dict[str, Trial]:
    """Returns the trials in a file, by test id."""
    found = json.loads(path.read_text()) if path.exists() else {}
    return {node_id: Trial(**trial) for node_id, trial in found.items()}


def save(path: Path, trials: Mapping[str, Trial]) -> None:
    """Writes the trials of tests that still exist."""
    there = set(rows.tests())
    kept = {node_id: asdict(trials[node_id]) for node_id in sorted(trials) if test_of(node_id) in there}
    path.write_text(json.dumps(kept, indent=1, ensure_ascii=False) + "\n")


class Recorder:
    """Collects the results of this run's tests; lives in the process that reports."""

    def __init__(self, config: pytest.Config) -> None:
        self.config = config
        self.file: Path | None = config.getoption(OPTION)
        self.commit = commit() if self.file else ""
        self.trials: dict[str, Trial] = {}
        self.ended: set[str] = set()
        self.total = 0
        self._began = self._told = time.monotonic()

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        self.total = len(session.items)

    @pytest.hookimpl(optionalhook=True)
    def pytest_xdist_node_collection_finished(self, node: object, ids: list[str]) -> None:
        self.total = len(ids)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if not rows.of_test(test_of(report.nodeid).name):
            return
        trial = self.trials.setdefault(report.nodeid, Trial())
        trial.seconds += report.duration
        if report.outcome != "passed" and trial.outcome == "passed":
            trial.outcome = report.outcome
        if report.when == "teardown":
            self._complete(trial, report.user_properties)
            self._progress(report.nodeid, trial)

    def _complete(self, trial: Trial, told: Iterable[tuple[str, Any]]) -> None:
        for name, value in told:
            if name == "clients":
                trial.clients = list(value)
            elif name == "counts":
                trial.counts.append(dict(value))
            elif name == CAMPAIGN:
                trial.is_campaign = bool(value)

    def _progress(self, node_id: str, trial: Trial) -> None:
        """Writes one line over the previous one if that is possible; a failure's line stays."""
        self.ended.add(node_id)
        if self.file is None:
            return
        reporter: Any = self.config.pluginmanager.get_plugin("terminalreporter")
        name = test_of(node_id).name
        minutes, seconds = divmod(int(time.monotonic() - self._began), 60)
        line = f"{minutes:3}:{seconds:02} {len(self.ended)} of {self.total}: {name}, {trial.seconds:.1f} s"
        if trial.outcome != "passed":
            reporter.write_line(f"{trial.outcome.upper()} {node_id}")
        if reporter.isatty:
            reporter.rewrite(line[:110], erase=True)
        elif time.monotonic() - self._told > LINE_EVERY_S or len(self.ended) == self.total:
            self._told = time.monotonic()
            reporter.write_line(line)

    def pytest_report_teststatus(self, report: pytest.TestReport) -> tuple[str, str, str] | None:
        """Replaces pytest's dots by the line."""
        if self.file is None or report.outcome != "passed" or report.when != "call":
            return None
        return "passed", "", "PASSED"

    def pytest_terminal_summary(self, terminalreporter: Any) -> None:
        """Prints the counted numbers."""
        counted = [
            f"{' '.join(rows.of_test(test_of(node_id).name))} {in_words(count)}"
            for node_id, trial in sorted(self.trials.items())
            for count in trial.counts
        ]
        if counted:
            terminalreporter.section("counted")
            for line in counted:
                terminalreporter.write_line(line)

    def pytest_sessionfinish(self) -> None:
        if self.file is None:
            return
        now = datetime.datetime.now(datetime.UTC).isoformat(timespec="minutes")
        for trial in self.trials.values():
            trial.seconds = round(trial.seconds, 2)
            trial.commit, trial.at = self.commit, now
        cut_short = {node_id for node_id, trial in self.trials.items() if trial.outcome == "passed"} - self.ended
        shown = {node_id: trial for node_id, trial in self.trials.items() if node_id not in cut_short}
        save(self.file, load(self.file) | shown)
