"""Runs many histories on all cores of the machine, with a line of progress and a report."""

from __future__ import annotations

import gc
import json
import multiprocessing
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

from proofs.simulator.world import Outcome, run, run_in

CHUNK = 20
PROGRESS_S = 5.0
KEPT_FAILURES = 100


class Report:
    """The results for a range of seeds."""

    def __init__(self, first: int, end: int) -> None:
        self.first = first
        self.end = end
        self.histories = 0
        self.events = 0
        self.acked = 0
        self.virtual_s = 0.0
        self.faults: Counter[str] = Counter()
        self.violations: Counter[str] = Counter()
        self.failures: list[dict[str, Any]] = []
        self._began_s = time.monotonic()

    def add(self, outcome: Outcome) -> None:
        """Adds the outcome of one history."""
        self.histories += 1
        self.events += outcome.events
        self.acked += outcome.acked
        self.virtual_s += outcome.virtual_s
        self.faults.update(outcome.faults)
        if outcome.invariant:
            self.violations[outcome.invariant] += 1
            if len(self.failures) < KEPT_FAILURES:
                self.failures.append({"seed": outcome.seed, "violation": outcome.text})

    def line(self) -> str:
        """Returns the line of progress."""
        elapsed_s = max(0.001, time.monotonic() - self._began_s)
        rate = self.histories / elapsed_s
        left_s = (self.end - self.first - self.histories) / rate if rate else 0.0
        return (
            f"{self.histories:,} of {self.end - self.first:,} histories, {rate:.0f}/s, {left_s / 60:.0f} min left, "
            f"{self.events:,} events, {self.acked:,} acks, {self.faults.total():,} faults, "
            f"{self.violations.total()} violations"
        )

    def as_dict(self) -> dict[str, Any]:
        """Returns the report as a document."""
        return {
            "seeds": f"{self.first}-{self.end}",
            "histories": self.histories,
            "events": self.events,
            "acknowledged_batches": self.acked,
            "virtual_hours": round(self.virtual_s / 3600, 2),
            "faults": dict(sorted(self.faults.items())),
            "seconds": round(time.monotonic() - self._began_s, 1),
            "violations": dict(self.violations),
            "failures": self.failures,
        }

    def write(self, path: Path) -> None:
        """Writes the report as JSON."""
        path.write_text(json.dumps(self.as_dict(), indent=2) + "\n")


def simulate(
    first: int, end: int, processes: int, tell: Callable[[str], object] = print, room: str | None = None
) -> Report:
    """Simulates all seeds in ``[first, end)``. ``room``: like that of ``drawn``."""
    report = Report(first, end)
    told_s = time.monotonic()
    for outcome in outcomes(range(first, end), processes, room):
        report.add(outcome)
        if outcome.invariant:
            tell(f"seed {outcome.seed}: {outcome.text}")
        if time.monotonic() - told_s >= PROGRESS_S:
            told_s = time.monotonic()
            tell(report.line())
    tell(report.line())
    return report


def outcomes(seeds: Iterable[int], processes: int, room: str | None = None) -> Iterator[Outcome]:
    """Yields the outcome of each seed, in any order."""
    work = run if room is None else partial(run_in, room)
    if processes <= 1:
        yield from map(work, seeds)
        return
    with multiprocessing.get_context("spawn").Pool(processes, gc.freeze) as pool:
        yield from pool.imap_unordered(work, seeds, CHUNK)
