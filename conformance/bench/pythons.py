"""Measures the same broker and the same client on several Pythons, in one run: ``tox -e py311,py312,py313,py314
--notest``, then ``python -m conformance.bench.pythons --write``, which renews docs/benchmarks.md.

Each round takes the Pythons in turn, so that other load on the machine affects all of them. The table shows the best of
the rounds, because noise only makes a run slower. librdkafka puts the load on the broker, on this Python in every case.
Our client's figures are CPU time (``conformance.bench.client``), and the figures of ``pybroker demo`` on that Python.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

import click

from conformance.bench import cases, report
from harness.servers.brokers import OurBroker

ROOT = Path(__file__).resolve().parents[2]
TELLS = """
import sys, sysconfig
built = sysconfig.get_config_var("CONFIG_ARGS") or ""
print(sys.version.split()[0] + ("" if "--enable-optimizations" in built else " (no PGO)"))
"""
BROKER_CASES: tuple[cases.Case, ...] = (cases.start_to_first_ack, cases.produce_small, cases.transfer)


class Figure(NamedTuple):
    """A row of the table; the best of its values is the greatest or the least."""

    name: str
    title: str
    best: Callable[[Sequence[float]], float]


FIGURES = (
    Figure("first_ack_s", "broker: start to first ack, s", min),
    Figure("produce_cpu_s_per_gb", "broker: produce 1 KB, CPU s/GB", min),
    Figure("fetch_cpu_s_per_gb", "broker: fetch 1 KB, CPU s/GB", min),
    Figure("small_cpu_us", "broker: one 100 B record a request, CPU µs", min),
    Figure("small_requests_s", "broker: one 100 B record a request, /s", max),
    Figure("send_cpu_us", "client: `send`, CPU µs a record", min),
    Figure("send_many_cpu_us", "client: `send_many`, CPU µs a record", min),
    Figure("read_cpu_us", "client: `poll`, CPU µs a record", min),
    Figure("sent_per_s", "demo: produced by `send`, consumed meanwhile, records/s", max),
    Figure("read_again_per_s", "demo: client reads without application code, records/s", max),
    Figure("sent_again_per_s", "demo: client sends without application code, records/s", max),
    Figure("acked_p50_ms", "demo: one record acknowledged, p50 ms", min),
    Figure("end_to_end_p50_ms", "demo: end to end at 1,000/s, p50 ms", min),
)


class BrokerOn(OurBroker):
    """Runs our broker on another Python than this one."""

    def __init__(self, python: Path, data_dir: Path) -> None:
        super().__init__(data_dir)
        self.python = python

    def _command(self) -> list[str]:
        return [str(self.python), *super()._command()[1:]]


def installed() -> list[Path]:
    """Finds the interpreter of each Python among tox's environments."""
    return sorted(path for path in ROOT.glob(".tox/py3*/bin/python") if path.exists())


def round_of(python: Path, load: cases.Scale) -> cases.Figures:
    """Measures all figures of one Python once."""
    return of_broker(python, load) | of_demo(python)


def of_broker(python: Path, load: cases.Scale) -> cases.Figures:
    """Puts librdkafka's load, and our client's own, on a broker of that Python."""
    folder = Path(tempfile.mkdtemp(prefix="bench-pythons-"))
    figures: cases.Figures = {}
    try:
        with BrokerOn(python, folder / "data") as broker:
            for case in BROKER_CASES:
                figures |= case(broker, load)
            figures |= of_client(python, broker.bootstrap, load.produce_records)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    return figures


def of_client(python: Path, bootstrap: str, records: int) -> cases.Figures:
    """Measures our client's CPU time on that Python."""
    command: list[str | Path] = [python, "-m", "conformance.bench.client", bootstrap, str(records)]
    told: cases.Figures = json.loads(subprocess.run(command, stdout=subprocess.PIPE, cwd=ROOT, check=True).stdout)
    return told


def of_demo(python: Path) -> cases.Figures:
    """Returns the figures that ``pybroker demo`` prints."""
    done = subprocess.run(
        [python, "-m", "pybroker", "demo", "-o", "json"], stdout=subprocess.PIPE, timeout=600, check=True
    )
    told = json.loads(done.stdout)
    figures = {name: told[name] for name in ("sent_per_s", "read_again_per_s", "sent_again_per_s")}
    return figures | {f"{name}_p50_ms": told[f"{name}_ms"]["p50"] for name in ("acked", "end_to_end")}


def name_of(python: Path) -> str:
    """Returns the interpreter's version, and says if it was built without profile-guided optimisation."""
    return subprocess.run([python, "-c", TELLS], capture_output=True, text=True, check=True).stdout.strip()


def table(found: dict[str, list[cases.Figures]]) -> str:
    """Returns a Markdown table with a column per Python."""
    lines = [f"| Figure | {' | '.join(found)} |", "|---" * (len(found) + 1) + "|"]
    for figure in FIGURES:
        best = [figure.best([one[figure.name] for one in rounds]) for rounds in found.values()]
        lines.append(f"| {figure.title} | {' | '.join(map(report.number, best))} |")
    return "\n".join(lines)


@click.command()
@click.argument("pythons", nargs=-1, type=click.Path(exists=True, path_type=Path))
@click.option("--rounds", default=3, show_default=True)
@click.option("--quick", is_flag=True, help="a quarter of the load")
@click.option("--write", "writes", is_flag=True, help="renew docs/benchmarks.md")
def main(pythons: tuple[Path, ...], rounds: int, quick: bool, writes: bool) -> None:
    """Measures interpreters that have pybroker: PYTHONS, else those of tox's environments py311 to py314."""
    names = {path: name_of(path) for path in pythons or installed()}
    found: dict[str, list[cases.Figures]] = {name: [] for name in names.values()}
    for number in range(rounds):
        for path, name in names.items():
            click.echo(f"round {number + 1}: {name}", err=True)
            found[name].append(round_of(path, cases.QUICK if quick else cases.FULL))
    text = table(found)
    click.echo(text)
    if writes:
        command = f"python -m conformance.bench.pythons --rounds {rounds}{' --quick' if quick else ''} --write"
        origin = f"Measured by `{command}` on {report.machine()}; the best of {rounds} rounds."
        report.renew(ROOT / "docs" / "benchmarks.md", "pythons", f"{origin}\n\n{text}")


if __name__ == "__main__":
    main()
