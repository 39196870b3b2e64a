"""The first table of docs/benchmarks.md, made of the raw figures of the suites.

``python -m conformance.bench.summary`` renews it, and so does each suite together with its own part of the page.
"""

from __future__ import annotations

import json
import re
import statistics
from pathlib import Path
from typing import Final, NamedTuple

from conformance.bench import clients, pairs, report
from conformance.bench.pairs import Load, Pair, Sample
from conformance.bench.spark import suite as spark

DOCS: Final = Path(__file__).resolve().parents[2] / "docs"
NAME: Final = "summary"
OURS, KAFKA = "ours", "kafka"
COLD, WARM = "cold", "warm"


class Line(NamedTuple):
    """A line of the table: a suite's figure in one state, and the page's section with the rest."""

    title: str
    suite: str
    figure: str
    state: str
    unit: str
    section: str = ""


LINES: Final = (
    Line("start to first acknowledged record", "benchmarks", "first_ack_s", COLD, "s", "one broker"),
    Line("memory when idle", "benchmarks", "idle_rss_mb", COLD, "MB"),
    Line("produce 1 KB records with acks=all, warm", "benchmarks", "produce_mb_s", WARM, "MB/s"),
    Line("… broker CPU", "benchmarks", "produce_cpu_s_per_gb", WARM, "s/GB"),
    Line("fetch 1 KB records, warm", "benchmarks", "fetch_mb_s", WARM, "MB/s"),
    Line("… broker CPU", "benchmarks", "fetch_cpu_s_per_gb", WARM, "s/GB"),
    Line("record to consumer at 1,000 records/s, warm: p99", "benchmarks", "e2e_p99_ms", WARM, "ms"),
    Line("transactions of 16 producers, cold", "coordinators", "transactions_s", COLD, "/s", "coordinators"),
    Line("3 brokers: leader killed to next ack, median", "cluster", "failover_p50_ms", COLD, "ms", "several brokers"),
    Line("compaction of 1 KB records", "compaction", "compact_1k_mb_s", COLD, "MB/s", "compaction"),
)


def amount(value: float, unit: str) -> str:
    """Formats a value with two digits, or with all digits before the point, and a space before a unit that is a word.
    """
    if unit == "ms" and value >= 1000:
        value, unit = value / 1000, "s"
    digits = f"{value:,.0f}" if value >= 100 else f"{value:.2g}"
    return digits + unit if unit.startswith("/") else f"{digits} {unit}"


def median(docs: Path, line: Line, broker: str) -> str:
    """Formats a broker's figure in words."""
    raw = json.loads((docs / f"{line.suite}.json").read_text(encoding="utf-8"))
    wanted = (line.figure, line.state, broker)
    found = [one["value"] for one in raw if (one["name"], one["phase"], one["broker"]) == wanted]
    return amount(statistics.median(found), line.unit)


def gain(docs: Path, suite: str, pair: Pair) -> float:
    """Returns how many times faster our client or connector is than theirs."""
    samples: pairs.Samples = {}
    for raw in json.loads((docs / f"{suite}.json").read_text(encoding="utf-8")):
        load = Load(**raw["load"])
        samples.setdefault(load, []).append(Sample(load, raw["figures"], raw["skipped"]))
    speed, _ = pairs.gains(pair, samples)
    assert speed is not None
    return speed


def missed(page: str) -> list[str]:
    """Counts the rows that miss their goal, section by section, with a link to each."""
    found = []
    for section in re.split(r"^## ", page, flags=re.MULTILINE)[1:]:
        rows = re.findall(r": missed \|$", section, re.MULTILINE)
        requests = re.findall(r": missed by (.+)\.$", section, re.MULTILINE)
        heading = section.partition("\n")[0]
        if count := len(rows) + sum(len(line.split("; ")) for line in requests):
            anchor = re.sub(r"[^\w -]", "", heading).lower().replace(" ", "-")
            found.append(f"{count} row{'s' if count > 1 else ''} of [{heading}](#{anchor})")
    return found


def rendered(docs: Path) -> str:
    """Returns the table, followed by short lines about the other suites."""
    lines = ["| | pybroker | Apache Kafka | More |", "|---|---|---|---|"]
    for line in LINES:
        more = f"[{line.section}](#{line.section.replace(' ', '-')})" if line.section else ""
        lines.append(f"| {line.title} | {median(docs, line, OURS)} | {median(docs, line, KAFKA)} | {more} |")
    titles = {pair.title: pair for pair in clients.PAIRS}
    sends = gain(docs, "clients", titles["`send` / `produce`"])
    reads = gain(docs, "clients", titles["`poll`, values read / `consume`, tuned"])
    rows = gain(docs, "spark", spark.PAIRS[0])
    page = (docs / "benchmarks.md").read_text(encoding="utf-8")
    goals = missed(page)
    return "\n".join(
        [
            *lines,
            "",
            f"- The Python client sends {sends:.1f} times as many records per second as confluent-kafka, and reads"
            f" {reads:.1f} times as many ([clients](#clients)).",
            f'- `format("pybroker")` reads {rows:.1f} times as many rows per second into Spark as'
            ' `format("kafka")` does ([Spark](#spark)).',
            f"- {'Goals missed: ' + ', '.join(goals) if goals else 'Every goal is reached'}.",
        ]
    )


def start(docs: Path) -> str:
    """Returns README's two sentences about start and memory."""
    ack, memory = ([median(docs, line, broker) for broker in (OURS, KAFKA)] for line in LINES[:2])
    return (
        f"it acknowledges its first record {ack[0]} after the start and needs {memory[0]} when idle. "
        f"Kafka needs {ack[1]} and {memory[1]} on the same machine"
    )


def renew(docs: Path = DOCS) -> None:
    """Renews the table on the page."""
    report.renew(docs / "benchmarks.md", NAME, rendered(docs))


if __name__ == "__main__":
    renew()
