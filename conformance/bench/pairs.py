"""Measures loads in pairs, theirs and ours, each in its own process, and shows their cost as a table and a plot.

In each round a pair runs back to back, so that other load on the machine affects both. Tables show medians, and medians
of the rounds' ratios. A load's process prints its cost as JSON in its last line (``conformance.bench.workers``).
"""

from __future__ import annotations

import json
import statistics
import subprocess
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from conformance.bench import report
from conformance.bench.plot import BLUE, ORANGE, Bar, draw

MILLION = 1_000_000
LATENCY = "p50_us"
LEAST = "least_us"
SPEED = "records_s"
CPU = "cpu_s_per_million"


class WorkerError(RuntimeError):
    """A worker failed; the text is the end of its output."""


@dataclass(frozen=True, slots=True)
class Load:
    """A case of a worker, with the number of records."""

    worker: str
    case: str
    records: int


@dataclass(frozen=True, slots=True)
class Pair:
    """A row of the table: their case, our case, and the goal as a ratio of speeds (of latencies: theirs to ours)."""

    title: str
    theirs: Load
    ours: Load
    goal: float | None = None
    figure: str = SPEED


@dataclass(frozen=True, slots=True)
class Page:
    """A part of docs/benchmarks.md. ``name`` is in its marks and in the names of its plot and raw figures. ``head`` is
    the head of the table's first column."""

    name: str
    head: str
    pairs: Sequence[Pair]

    def loads(self, only: Collection[str]) -> list[Load]:
        """Returns each load once. In its pair, our load comes right after theirs. ``only`` names cases, theirs or ours;
        if it is empty, all are returned.
        """
        found = [
            load
            for pair in self.pairs
            if not only or {pair.theirs.case, pair.ours.case} & set(only)
            for load in (pair.theirs, pair.ours)
        ]
        return list(dict.fromkeys(found))


@dataclass(frozen=True, slots=True)
class Sample:
    """A load's cost in one round: its figures by their names. ``skipped``: the reason if there are none."""

    load: Load
    figures: Mapping[str, float]
    skipped: str = ""


Samples = dict[Load, list[Sample]]


def run(load: Load, command: Sequence[str], timeout_s: float, env: Mapping[str, str] | None = None) -> Sample:
    """Runs a load's command, which prints its cost.

    Raises:
        WorkerError: it failed or did not end in time.
    """
    name = f"{load.worker} {load.case}"
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=timeout_s, check=False, env=env)
    except subprocess.TimeoutExpired as late:
        raise WorkerError(f"{name} took more than {timeout_s:g} s") from late
    if done.returncode:
        raise WorkerError(f"{name}: {done.stderr[-2000:]}")
    found = json.loads(done.stdout.splitlines()[-1])
    if "skipped" in found:
        return Sample(load, {}, found["skipped"])
    if LATENCY in found:
        return Sample(load, found)
    cpu = found["cpu_s"] * MILLION / load.records
    return Sample(load, {SPEED: load.records / found["seconds"], CPU: cpu})


def measure(
    loads: Collection[Load], rounds: int, put: Callable[[Load], Sample], say: Callable[[str], None]
) -> Samples:
    """Measures all loads ``rounds`` times; ``put`` runs one of them on the broker."""
    samples: Samples = {}
    for number in range(1, rounds + 1):
        for load in loads:
            sample = _tried(load, put)
            samples.setdefault(load, []).append(sample)
            told = "  ".join(f"{name} {value:.4g}" for name, value in sample.figures.items())
            say(f"round {number} {load.worker} {load.case}: {told or 'skipped: ' + sample.skipped}")
    return samples


def _tried(load: Load, put: Callable[[Load], Sample]) -> Sample:
    """Runs a load; its failure does not end the others, and the table reports it."""
    try:
        return put(load)
    except WorkerError as error:
        return Sample(load, {}, str(error))


def median(samples: Iterable[Sample], name: str) -> float | None:
    values = [sample.figures[name] for sample in samples if name in sample.figures]
    return statistics.median(values) if values else None


def _ratio(name: str, above: Sequence[Sample], below: Sequence[Sample]) -> float | None:
    """Returns the median of the rounds' ratios."""
    ratios = [
        one.figures[name] / other.figures[name]
        for one, other in zip(above, below, strict=True)
        if name in one.figures and other.figures.get(name)
    ]
    return statistics.median(ratios) if ratios else None


def gains(pair: Pair, samples: Samples) -> tuple[float | None, float | None]:
    """Returns how many times faster ours is, and how many times less CPU it takes."""
    theirs, ours = samples[pair.theirs], samples[pair.ours]
    is_speed = pair.figure == SPEED
    speed = _ratio(SPEED, ours, theirs) if is_speed else _ratio(pair.figure, theirs, ours)
    return speed, _ratio(CPU, theirs, ours)


def _cell(value: float | None, unit: float = 1, suffix: str = "") -> str:
    return "–" if value is None else report.number(value / unit) + suffix


def _main_cell(value: float | None, name: str) -> str:
    if name == SPEED:
        return _cell(value, MILLION, " M/s")
    return _cell(value, 1000, " ms") if value is not None and value >= 1000 else _cell(value, 1, " µs")


def _factor(value: float | None) -> str:
    return "–" if value is None else f"{value:.2f}"


def row(pair: Pair, samples: Samples) -> str:
    theirs, ours = samples[pair.theirs], samples[pair.ours]
    speed, thrift = gains(pair, samples)
    cells = " | ".join(_main_cell(median(some, pair.figure), pair.figure) for some in (theirs, ours))
    goal = "" if pair.goal is None else f"≥ {pair.goal:g}"
    cpu = f"{_cell(median(theirs, CPU))} | {_cell(median(ours, CPU))} | {_factor(thrift)}"
    return f"| {pair.title} | {cells} | {_factor(speed)} | {goal} | {cpu} |"


def table(page: Page, samples: Samples) -> str:
    """Returns a Markdown table of the measured pairs, followed by the skipped loads with their reasons."""
    lines = [
        f"| {page.head} | Theirs | Ours | Ratio | Goal | Their CPU s/M | Ours | Ratio |",
        "|---|---|---|---|---|---|---|---|",
    ]
    lines += [row(pair, samples) for pair in _measured(page, samples)]
    skipped = {_skipped(load, some) for load, some in samples.items() if any(sample.skipped for sample in some)}
    return "\n".join([*lines, *(["", *sorted(skipped)] if skipped else [])])


def _skipped(load: Load, samples: Sequence[Sample]) -> str:
    """Returns the number of rounds in which a load was skipped, and the reason of the last one, as a sentence."""
    reasons = [sample.skipped for sample in samples if sample.skipped]
    rounds = f"in {len(reasons)} of {len(samples)} rounds"
    return f"- {load.worker} `{load.case}` was not measured {rounds}: {reasons[-1].strip().splitlines()[-1]}"


def _measured(page: Page, samples: Samples) -> list[Pair]:
    return [pair for pair in page.pairs if pair.theirs in samples and pair.ours in samples]


def plot(page: Page, samples: Samples, path: Path) -> None:
    """Draws two bars per pair, for speed and CPU, and the goal of the first."""
    bars = []
    for pair in _measured(page, samples):
        title = pair.title.replace("`", "")
        speed, thrift = gains(pair, samples)
        bars += [Bar(title, speed, BLUE, pair.goal)] if speed else []
        bars += [Bar(title, thrift, ORANGE)] if thrift else []
    draw(bars, "times better than theirs (right is better; blue: speed, orange: CPU, red: the goal of speed)", path)


def write(page: Page, samples: Samples, docs: Path, origin: str) -> None:
    """Rewrites the part of docs/benchmarks.md between its marks, the plot, and the raw figures."""
    plot(page, samples, docs / "img" / f"{page.name}.png")
    text = f"{origin}\n\n{table(page, samples)}\n\n![plot](img/{page.name}.png)"
    report.renew(docs / "benchmarks.md", page.name, text)
    raw = json.dumps([asdict(sample) for some in samples.values() for sample in some], indent=0)
    (docs / f"{page.name}.json").write_text(raw + "\n")
