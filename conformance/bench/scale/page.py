"""Writes the suite's part of docs/benchmarks.md: a table of the largest size with exponents, and a plot of all sizes.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

from conformance.bench import report
from conformance.bench.plot import BLUE, ORANGE, Curve, Panel, curves
from conformance.bench.scale.growth import Points, clear, exponent, values
from conformance.bench.scale.spent import CPU, MEMORY, SECONDS, Sample

NAME = "scale"
#: Ten times the partitions may take at most 12.6 times the time.
GOAL = 1.1
OURS, KAFKA = "ours", "kafka"
TIMED = (SECONDS, CPU)


@dataclass(frozen=True, slots=True)
class Row:
    """The name and the figures of a row."""

    name: str
    title: str
    figures: Sequence[str] = TIMED


ROWS: Final = (
    Row("create", "creation, 1,000 a topic"),
    Row("metadata", "Metadata"),
    Row("produce", "a record to each: librdkafka"),
    Row("produce_ours", "a record to each: pyclient"),
    Row("list_offsets", "ListOffsets"),
    Row("fetch_full", "Fetch: a session begins"),
    Row("fetch_empty", "Fetch: a session finds nothing"),
    Row("offset_commit", "OffsetCommit, at most 5,000"),
    Row("offset_fetch", "OffsetFetch, at most 5,000"),
    Row("consumer_group", "100 members get their shares, at most 5,000"),
    Row("log_dirs", "DescribeLogDirs"),
    Row("create_singles", "creation of topics of one, at most 1,000"),
    Row("describe_configs", "DescribeConfigs of all topics"),
    Row("delete_singles", "deletion of topics of one"),
    Row("idle", "idle for 10 s", (CPU,)),
    Row("memory", "memory beyond that of an empty broker", (MEMORY,)),
    Row("stop", "stop"),
    Row("start", "start after a stop"),
    Row("start_after_kill", "start after kill -9"),
    Row("delete", "deletion of all topics"),
)
UNITS: Final = {SECONDS: "s", CPU: "s", MEMORY: "KiB a partition"}


def table(samples: Sequence[Sample]) -> str:
    """Returns a Markdown table, followed by the skipped rows with their reasons."""
    lines = [
        "| What | Partitions | pybroker | Kafka | Ratio | pybroker grows | Kafka grows | Goal |",
        "|---|--:|--:|--:|--:|--:|--:|---|",
        *(line for row in ROWS for line in _lines(row, samples)),
    ]
    skipped = dict.fromkeys(
        f"- {one.row} of {_name(one.broker)} with {one.partitions:,} partitions was not measured: {one.skipped}"
        for one in samples
        if one.skipped
    )
    return "\n".join([*lines, *(["", *skipped] if skipped else [])])


def _name(broker: str) -> str:
    return "pybroker" if broker == OURS else "Kafka"


def _lines(row: Row, samples: Sequence[Sample]) -> Iterator[str]:
    """Returns a line for each figure."""
    for figure in row.figures:
        ours, kafka = (dict(values(samples, broker, row.name, figure)) for broker in (OURS, KAFKA))
        sizes = set(ours) & set(kafka) or set(ours) | set(kafka)
        if not sizes:
            continue
        size = max(sizes)
        one, other = ours.get(size), kafka.get(size)
        ratio = f"{one / other:.2f}" if one and other else "–"
        growth, theirs = (clear(samples, broker, row.name, figure) for broker in (OURS, KAFKA))
        title = "… broker CPU" if figure == CPU and SECONDS in row.figures else row.title
        cells = f"{_cell(one, figure, size)} | {_cell(other, figure, size)} | {ratio}"
        goal = "" if figure == SECONDS else _verdict(growth)  # Wall time is too noisy here.
        yield f"| {title}, {UNITS[figure]} | {size:,} | {cells} | {_power(growth)} | {_power(theirs)} | {goal} |"


def _cell(value: float | None, figure: str, size: int) -> str:
    if value is None:
        return "–"
    return report.number(value / size if figure == MEMORY else value)


def _power(points: Points) -> str:
    """Returns the exponent; with more than two sizes, that of the last step, where a fixed cost hides least."""
    growth, last = exponent(points), exponent(points[-2:])
    if growth is None or last is None:
        return "–"
    return f"n^{growth:.2f}" + (f", last n^{last:.2f}" if len(points) > 2 else "")


def _verdict(points: Points) -> str:
    """Judges by the larger of both exponents."""
    found = [one for one in (exponent(points), exponent(points[-2:])) if one is not None]
    return f"≤ n^{GOAL:g}: {'reached' if max(found) <= GOAL else 'missed'}" if found else ""


def plot(samples: Sequence[Sample], path: Path) -> None:
    """Draws a panel per row with all sizes."""
    panels = []
    for row in ROWS:
        lines = [
            Curve(values(samples, broker, row.name, figure), colour, figure == CPU)
            for broker, colour in ((OURS, BLUE), (KAFKA, ORANGE))
            for figure in row.figures
        ]
        drawn = [one for one in lines if one.points]
        panels += [Panel(row.title + (", KiB" if MEMORY in row.figures else ""), drawn)] if drawn else []
    legend = "seconds (broken line: broker CPU) over partitions; blue: pybroker, orange: Kafka, grey: proportional"
    curves(panels, legend, path)


def write(samples: Sequence[Sample], docs: Path, origin: str) -> None:
    """Rewrites the part of docs/benchmarks.md between its marks, the plot, and the raw figures."""
    plot(samples, docs / "img" / f"{NAME}.png")
    report.renew(docs / "benchmarks.md", NAME, f"{origin}\n\n{table(samples)}\n\n![plot](img/{NAME}.png)")
    (docs / f"{NAME}.json").write_text(json.dumps([asdict(one) for one in samples], indent=0) + "\n")
