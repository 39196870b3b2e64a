"""The benchmark: our broker and a real Kafka, one after the other, several times, under the same librdkafka load.

``python -m conformance.bench`` prints the table. With ``--write`` it also rewrites docs/benchmarks.md between its
markers, the raw figures (docs/benchmarks.json) and the plot. Brokers alternate, so that other load on the machine
affects both.
"""

from __future__ import annotations

import compileall
import json
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import click

from conformance.bench import (
    breadth,
    cases,
    clients,
    cluster,
    compaction,
    coordinators,
    pairs,
    report,
    scale,
    summary,
    tls,
)
from conformance.bench.spark import suite as spark
from harness.servers.brokers import KINDS, Broker
from harness.servers.encrypted import ENCRYPTED

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
#: The packages that a broker and a client import.
PRODUCT = ("pybroker", "pyclient", "cy")


@dataclass(frozen=True, slots=True)
class Suite:
    """Benchmark cases that belong together.

    ``page``: the marks in docs/benchmarks.md around the figures. ``file``: the name of the raw figures and of the plot.
    ``kinds``: the kinds of brokers to measure, one broker each unless the suite has more.
    """

    cold: tuple[cases.Case, ...]
    warm: tuple[cases.Case, ...]
    warm_up: Callable[[Any, float], None]
    page: str
    file: str
    kinds: Mapping[str, Callable[..., Any]] = field(default_factory=lambda: KINDS)


SETTINGS = {"group_initial_rebalance_delay_ms": "0", "log_retention_check_interval_ms": "300000"}


def say(text: str) -> None:
    """Prints progress to stderr, a line each."""
    click.echo(f"{time.strftime('%H:%M:%S')} {text}", err=True)


def compile_as_pip_does() -> None:
    """Writes the byte code of the product, because ``pip install`` does so too.

    A source tree without byte code costs each start of a broker about 0.4 s, for instance where
    PYTHONDONTWRITEBYTECODE is set.
    """
    for package in PRODUCT:
        compileall.compile_dir(ROOT / package, quiet=1)


def measure(
    suite: Suite, kind: str, number: int, load: cases.Scale, warm_up_s: float, only: set[str]
) -> list[report.Measurement]:
    """Runs one round on one broker: cold cases when it is fresh, load until it is warm, then warm cases."""
    folder = Path(tempfile.mkdtemp(prefix=f"bench-{kind}-"))
    found: list[report.Measurement] = []
    try:
        with suite.kinds[kind](folder / "data", **SETTINGS) as broker:
            found += run(broker, "cold", number, _chosen(suite.cold, only), load)
            warm = _chosen(suite.warm, only)
            if warm_up_s > 0 and warm:
                say(f"warming {kind} for {warm_up_s:g} s")
                suite.warm_up(broker, warm_up_s)
                found += run(broker, "warm", number, warm, load)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    return found


def _chosen(some: Iterable[cases.Case], only: set[str]) -> list[cases.Case]:
    return [case for case in some if not only or case.__name__ in only]


def run(
    broker: Any, phase: str, number: int, chosen: Iterable[cases.Case], load: cases.Scale
) -> list[report.Measurement]:
    found = []
    for case in chosen:
        figures = case(broker, load)
        told = "  ".join(f"{name} {report.number(value)}" for name, value in figures.items())
        say(f"round {number} {broker.name} {phase}: {told}")
        found += [
            report.Measurement(broker.name, phase, number, name, value) for name, value in figures.items()
        ]
    return found


def warm_up(broker: Broker, seconds: float) -> None:
    """Runs load of every kind until the time is over, because a JVM compiles what it runs often."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        cases.produce_small(broker, cases.FULL)
        cases.transfer(broker, cases.QUICK)


SUITES = {
    "records": Suite(cases.COLD, cases.WARM, warm_up, "measured", "benchmarks"),
    "coordinators": Suite(
        coordinators.REQUESTS,
        (*coordinators.REQUESTS, *coordinators.LARGE),
        coordinators.warm_up,
        "coordinators",
        "coordinators",
    ),
    "compaction": Suite(compaction.CASES, compaction.CASES, compaction.warm_up, "compaction", "compaction"),
    "tls": Suite(tls.CASES, tls.CASES, tls.warm_up, "tls", "tls", ENCRYPTED),
    "cluster": Suite(cluster.COLD, cluster.WARM, cluster.warm_up, "cluster", "cluster", cluster.KINDS),
}
#: These suites measure clients instead of brokers.
CLIENTS, TLS_CLIENTS, SPARK = "clients", "tls-clients", "spark"
#: This suite measures brokers of several sizes.
SCALE = "scale"
ALL = sorted([*SUITES, CLIENTS, TLS_CLIENTS, SPARK, SCALE])


def write(suite: Suite, measurements: list[report.Measurement]) -> None:
    """Renews a measured part of docs/benchmarks.md, its raw figures and its plot."""
    found = report.rows(measurements)
    report.plot(found, DOCS / "img" / f"{suite.file}.png")
    raw = json.dumps([asdict(one) for one in measurements], indent=0)
    (DOCS / f"{suite.file}.json").write_text(raw + "\n")
    plot = f"![plot](img/{suite.file}.png)"
    report.renew(DOCS / "benchmarks.md", suite.page, f"{origin()}\n\n{report.table(found)}\n\n{plot}")
    summary.renew(DOCS)


@click.command()
@click.option("--suite", "chosen", default="records", show_default=True, type=click.Choice(ALL))
@click.option("--rounds", default=3, show_default=True, help="how often each broker is measured")
@click.option("--quick", is_flag=True, help="a tenth of the load, one round, cold only")
@click.option("--warm-up", default=90.0, show_default=True, help="seconds of load before the warm figures; 0: none")
@click.option("--only", multiple=True, help="a case by name, such as produce_small; may be repeated")
@click.option("--broker", "kinds", multiple=True, type=click.Choice(sorted(KINDS)), help="only this one")
@click.option("--size", "sizes", multiple=True, type=int, help="partitions (suite scale); may be repeated")
@click.option("--breadth", "broad", is_flag=True, help="10,000 partitions and 15,000 connections instead")
@click.option("--write", "writes", is_flag=True, help="renew docs/benchmarks.md, its figures and its plot")
def main(
    chosen: str,
    rounds: int,
    quick: bool,
    warm_up: float,
    only: tuple[str, ...],
    kinds: tuple[str, ...],
    sizes: tuple[int, ...],
    broad: bool,
    writes: bool,
) -> None:
    """Measures our broker against a real Kafka in one run (``--suite clients``: our SDK against other clients,
    ``--suite spark``: our data source against Spark's, ``--suite scale``: how costs grow with the partitions)."""
    compile_as_pip_does()
    if broad:
        for kind in kinds or ("ours",):
            show_breadth(kind)
        return
    load, share = (cases.QUICK, 0.1) if quick else (cases.FULL, 1.0)
    rounds, warm_up = (1, 0.0) if quick else (rounds, warm_up)
    if chosen == CLIENTS:
        for kind in kinds or (clients.NULL,):
            show(clients.PAGE, clients.measure(rounds, share, only, say, kind), writes and kind == clients.NULL)
        return
    if chosen == TLS_CLIENTS:
        show(clients.BY_TLS, clients.measure_tls(rounds, share, only, say), writes)
        return
    if chosen == SPARK:
        show(spark.PAGE, spark.measure(rounds, share, only, say), writes)
        return
    if chosen == SCALE:
        sizes = sizes or (scale.SMALL if quick else scale.SIZES)
        show_growth(scale.measure(sizes, rounds, kinds or ("ours", "kafka"), set(only), say, SETTINGS), writes)
        return
    measurements: list[report.Measurement] = []
    for number in range(1, rounds + 1):
        for kind in kinds or ("ours", "kafka"):
            measurements += measure(SUITES[chosen], kind, number, load, warm_up, set(only))
    click.echo(report.table(report.rows(measurements)))
    if writes:
        write(SUITES[chosen], measurements)


def origin() -> str:
    """Returns which command measured the figures, on which machine."""
    return f"Measured by `{' '.join(['python -m conformance.bench', *sys.argv[1:]])}` on {report.machine()}."


def show(page: pairs.Page, samples: pairs.Samples, writes: bool) -> None:
    """Prints the table of our SDK and the other clients. With ``writes``, also renews it."""
    click.echo(pairs.table(page, samples))
    if writes:
        pairs.write(page, samples, DOCS, origin())
        summary.renew(DOCS)


def show_growth(samples: list[scale.Sample], writes: bool) -> None:
    """Prints the table of the suite ``scale``. With ``writes``, also renews it."""
    click.echo(scale.table(samples))
    if writes:
        scale.write(samples, DOCS, origin())
        summary.renew(DOCS)


def show_breadth(kind: str) -> None:
    for case in (breadth.many_partitions, breadth.idle_connections):
        folder = Path(tempfile.mkdtemp(prefix=f"bench-{kind}-"))
        try:
            with KINDS[kind](folder / "data", **SETTINGS) as broker:
                figures = case(broker)
            click.echo(f"{kind} {case.__name__}: " + "  ".join(f"{k} {v:.4g}" for k, v in figures.items()))
        finally:
            shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main()
