"""``format("pybroker")`` and ``format("kafka")`` on one broker of ours, in the connector's version of Spark.

Each load runs in a JVM of its own (``worker``), one after the other. The conformance suite runs the connector with the
same jars. The interpreter has the connector's PySpark and our source's dependencies.
"""

from __future__ import annotations

import configparser
import os
import tempfile
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Final

from conformance.bench import pairs
from conformance.bench.filling import fill
from conformance.bench.null_broker import batch_of
from conformance.bench.pairs import LATENCY, LEAST, MILLION, SPEED, Load, Page, Pair, Sample, Samples
from conformance.spark import connector
from conformance.spark.session import REPOSITORY
from harness import peers
from harness.servers.brokers import OurBroker

OURS, THEIRS = "pybroker", "kafka"
PARTITIONS: Final = 4
#: The bytes of a batch in the log.
BATCH_BYTES: Final = 50_000
TIMEOUT_S: Final = 600.0
TRIGGERS: Final = 20


def _pair(
    title: str, case: str, records: int, goal: float | None = None, ours: str = "", figure: str = SPEED
) -> Pair:
    return Pair(title, Load(THEIRS, case, records), Load(OURS, ours or case, records), goal, figure)


PAIRS: Final = (
    _pair("batch: read 4 M rows of 100 B", "read_100", 4 * MILLION, 1.5),
    _pair("batch: read 1 M rows of 1 KB", "read_1000", MILLION, 1.5),
    _pair("stream: a micro-batch of 1 M rows", "stream", MILLION, 1.5),
    _pair("write 4 M rows, at least once", "write", 4 * MILLION, 1),
    _pair("write 4 M rows, ours exactly once", "write", 4 * MILLION, 0.7, "write_exactly_once"),
    _pair("stream: from a record to its row, median", "trigger", TRIGGERS, figure=LATENCY),
    _pair("stream: from a record to its row, shortest", "trigger", TRIGGERS, figure=LEAST),
)
PAGE: Final = Page("spark", f"`pybroker` / `kafka`, Spark {connector.VERSION}", PAIRS)
SIZES: Final = {100: 4 * MILLION, 1000: MILLION}


def python() -> Path:
    """Installs the interpreter once (some 700 MB) and returns it.

    Raises:
        PeerError: it could not be installed.
    """
    config = configparser.ConfigParser()
    config.read(REPOSITORY / "setup.cfg")
    needed = [config["options"]["install_requires"], config["options.extras_require"]["spark"]]
    others = [line for text in needed for line in text.split("\n") if line and not line.startswith("pyspark")]
    return peers.environment(f"pyspark-{connector.VERSION}-source", [f"pyspark=={connector.VERSION}", *others])


@contextmanager
def served(share: float) -> Iterator[str]:
    """Serves a topic for each size, ``rows-SIZE``, and returns the broker's address."""
    with tempfile.TemporaryDirectory(prefix="bench-spark-") as name, OurBroker(Path(name) / "data") as broker:
        for size, rows in SIZES.items():
            count = BATCH_BYTES // size
            batches = int(rows * share) // count
            fill(broker, f"rows-{size}", PARTITIONS, batch_of(size, count), batches)
        yield broker.bootstrap


def run(load: Load, bootstrap: str) -> Sample:
    """Puts one load on the broker; raises WorkerError if the load fails."""
    command = [str(python()), "-m", "conformance.bench.spark.worker", bootstrap]
    env = {**os.environ, "PYTHONPATH": str(REPOSITORY)}
    if load.worker == THEIRS:
        env["PYSPARK_SUBMIT_ARGS"] = f"--jars {','.join(map(str, connector.jars()))} pyspark-shell"
    return pairs.run(load, [*command, f"{load.worker} {load.case}", str(load.records)], TIMEOUT_S, env)


def measure(rounds: int, share: float, only: Collection[str], say: Callable[[str], None]) -> Samples:
    """Measures all loads of the chosen pairs ``rounds`` times, each with ``share`` of its records."""
    with served(share) as bootstrap:
        return pairs.measure(PAGE.loads(only), rounds, lambda load: run(_sized(load, share), bootstrap), say)


def _sized(load: Load, share: float) -> Load:
    return load if load.case == "trigger" else replace(load, records=int(load.records * share))
