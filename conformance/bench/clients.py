"""Clients against the null broker: our SDK and its peers, each load in a process of its own, one after the other.

In each round every pair runs back to back, so that a noisy neighbour meets both; the table has medians, and the medians
of the ratios of the rounds. Wall time needs a quiet machine (client and broker want a core each), CPU per million
records less so. The same loads may run against a broker of ``conformance.brokers``, whose topic is filled first.
"""

from __future__ import annotations

import contextlib
import json
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from conformance.bench import report
from conformance.bench.null_broker import NullBroker, batch_of
from conformance.bench.plot import BLUE, ORANGE, Bar, draw
from conformance.bench.workers import TOPIC
from conformance.brokers import KINDS, Broker
from conformance.wire_client import Wire

PARTITIONS = 4
SIZE = 100
#: Records of the batch that is served: some 55 KB.
BATCH_RECORDS = 500
#: Records of partition 0 of a broker that is not the null broker: what a consumer may read at most.
FILLED = 2_000_000
TIMEOUT_S = 30
NULL = "null"
MILLION = 1_000_000
LATENCY = "p50_us"
SPEED = "records_s"
CPU = "cpu_s_per_million"
OURS = "ours"
PAGE = "clients"
"""How the marks in docs/benchmarks.md, the plot and the raw figures are called."""


class WorkerError(RuntimeError):
    """A worker failed; the text is the end of what it said."""


@dataclass(frozen=True, slots=True)
class Load:
    """A case of a worker with the records it takes: about a second's."""

    worker: str
    case: str
    records: int


@dataclass(frozen=True, slots=True)
class Pair:
    """A row of the table: their case and ours, and the goal as a ratio of speeds (of latencies: theirs to ours)."""

    title: str
    theirs: Load
    ours: Load
    goal: float | None = None


def _pair(title: str, theirs: tuple[str, str, int], ours: tuple[str, int], goal: float | None = None) -> Pair:
    return Pair(title, Load(*theirs), Load(OURS, *ours), goal)


PAIRS = (
    _pair("`send` / `produce`", ("confluent", "produce", 600_000), ("produce", 2_000_000), 4),
    _pair("`send` with a callback", ("confluent", "produce_callback", 400_000), ("produce_callback", 1_000_000), 2),
    _pair("`send_many` of a list / `produce`", ("confluent", "produce", 600_000), ("produce_many", 5_000_000), 10),
    _pair("`send_many` of Arrow / `produce`", ("confluent", "produce", 600_000), ("produce_arrow", 5_000_000), 10),
    _pair("`send_many` / `produce_batch`", ("confluent", "produce_many", 800_000), ("produce_many", 5_000_000)),
    _pair("`poll`, values read / `consume`, tuned", ("confluent", "consume", 2_000_000), ("consume", 3_000_000), 4),
    _pair("`for record in` / `poll`", ("confluent", "consume_one_by_one", 600_000), ("consume_one_by_one", 2_000_000)),
    _pair("`poll_arrow` / `consume`, tuned", ("confluent", "consume", 2_000_000), ("consume_arrow", 10_000_000), 5),
    _pair("`poll_arrow` / its default", ("confluent", "consume_default", 300_000), ("consume_arrow", 10_000_000), 10),
    _pair("one at a time, acked", ("confluent", "latency", 4_000), ("latency", 4_000), 1),
    _pair("asyncio: `send` / aiokafka", ("aio_kafka", "aio_send", 60_000), ("aio_send", 1_000_000), 20),
    _pair("asyncio: `poll` / `getmany`", ("aio_kafka", "aio_getmany", 400_000), ("aio_getmany", 3_000_000), 10),
    _pair("asyncio: one at a time, acked", ("aio_kafka", "aio_latency", 3_000), ("aio_latency", 3_000), 1),
    _pair("`send` / kafka-python", ("kafka_python", "produce", 20_000), ("produce", 2_000_000)),
    _pair("`poll` / kafka-python", ("kafka_python", "consume", 60_000), ("consume", 3_000_000)),
)


@dataclass(frozen=True, slots=True)
class Sample:
    """What a load cost in one round: a figure by its name. ``skipped``: why there is none."""

    load: Load
    figures: Mapping[str, float]
    skipped: str = ""


Samples = dict[Load, list[Sample]]


def run(load: Load, bootstrap: str) -> Sample:
    """Puts one load on the broker.

    Raises:
        WorkerError: the worker failed or did not end in time.
    """
    command = [sys.executable, "-m", f"conformance.bench.workers.{load.worker}", bootstrap]
    try:
        done = subprocess.run(
            [*command, load.case, str(load.records)], capture_output=True, text=True, timeout=TIMEOUT_S, check=False
        )
    except subprocess.TimeoutExpired as late:
        raise WorkerError(f"{load.worker} {load.case} took more than {TIMEOUT_S} s") from late
    if done.returncode:
        raise WorkerError(f"{load.worker} {load.case}: {done.stderr[-2000:]}")
    found = json.loads(done.stdout.splitlines()[-1])
    if "skipped" in found:
        return Sample(load, {}, found["skipped"])
    if LATENCY in found:
        return Sample(load, found)
    cpu = found["cpu_s"] * MILLION / load.records
    return Sample(load, {SPEED: load.records / found["seconds"], CPU: cpu})


@contextlib.contextmanager
def served(kind: str, say: Callable[[str], None]) -> Iterator[str]:
    """The address of a broker of the kind, ``null`` or of ``conformance.brokers``, whose topic can be read."""
    if kind == NULL:
        with NullBroker(batch_of(SIZE, BATCH_RECORDS), PARTITIONS) as null:
            yield null.bootstrap
            if logged := null.logged():
                say(logged)
        return
    with tempfile.TemporaryDirectory(prefix="bench-clients-") as folder, KINDS[kind](Path(folder, "data")) as broker:
        fill(broker)
        yield broker.bootstrap


def fill(broker: Broker) -> None:
    """Writes the batch of the null broker into partition 0 until it has enough records."""
    rows = [{"index": 0, "records": batch_of(SIZE, BATCH_RECORDS)}]
    topics = [{"name": TOPIC, "partition_data": rows}]
    with Wire(broker.address, 60) as wire:
        wire.create_topic(TOPIC, PARTITIONS, {})
        for _ in range(FILLED // BATCH_RECORDS):
            reply = wire.ask("Produce", 9, acks=1, timeout_ms=30_000, topic_data=topics)
            if error := reply.responses[0].partition_responses[0].error_code:
                raise WorkerError(f"the broker refused a batch with error {error}")


def measure(
    rounds: int, share: float, only: Collection[str], say: Callable[[str], None], kind: str = NULL
) -> Samples:
    """All loads of the pairs chosen, ``share`` of their records each, ``rounds`` times; a load of two pairs runs once.

    ``only``: cases by name, theirs or ours; none: all.
    """
    samples: Samples = {}
    with served(kind, say) as bootstrap:
        for number in range(1, rounds + 1):
            for load in _loads(only):
                sample = _tried(_sized(load, share, kind), bootstrap)
                samples.setdefault(load, []).append(sample)
                told = "  ".join(f"{name} {value:.4g}" for name, value in sample.figures.items())
                say(f"round {number} {load.worker} {load.case}: {told or 'skipped: ' + sample.skipped}")
    return samples


def _sized(load: Load, share: float, kind: str) -> Load:
    """A consumer reads what there is: its warm-up, the load, and what it has in hand at the end."""
    records = max(1_000, int(load.records * share))
    return replace(load, records=records if kind == NULL else min(records, FILLED // 2))


def _tried(load: Load, bootstrap: str) -> Sample:
    """A failure of one load does not end the others; the table tells it."""
    try:
        return run(load, bootstrap)
    except WorkerError as error:
        return Sample(load, {}, str(error))


def _loads(only: Collection[str]) -> Iterable[Load]:
    """Each load once, ours right behind the first of theirs that it is compared with."""
    found = [
        load
        for pair in PAIRS
        if not only or {pair.theirs.case, pair.ours.case} & set(only)
        for load in (pair.theirs, pair.ours)
    ]
    return dict.fromkeys(found)


def median(samples: Iterable[Sample], name: str) -> float | None:
    values = [sample.figures[name] for sample in samples if name in sample.figures]
    return statistics.median(values) if values else None


def _ratio(name: str, above: Sequence[Sample], below: Sequence[Sample]) -> float | None:
    """The median of the rounds' ratios."""
    ratios = [
        one.figures[name] / other.figures[name]
        for one, other in zip(above, below, strict=True)
        if name in one.figures and other.figures.get(name)
    ]
    return statistics.median(ratios) if ratios else None


def gains(pair: Pair, samples: Samples) -> tuple[float | None, float | None]:
    """How many times faster ours is, and how many times less CPU it takes."""
    theirs, ours = samples[pair.theirs], samples[pair.ours]
    speed = _ratio(LATENCY, theirs, ours) if median(theirs, LATENCY) else _ratio(SPEED, ours, theirs)
    return speed, _ratio(CPU, theirs, ours)


def _cell(value: float | None, unit: float = 1, suffix: str = "") -> str:
    return "–" if value is None else f"{value / unit:.3g}{suffix}"


def _factor(value: float | None) -> str:
    return "–" if value is None else f"{value:.2f}"


def row(pair: Pair, samples: Samples) -> str:
    theirs, ours = samples[pair.theirs], samples[pair.ours]
    name, unit, suffix = (LATENCY, 1, " µs") if median(theirs, LATENCY) else (SPEED, MILLION, " M/s")
    speed, thrift = gains(pair, samples)
    cells = f"{_cell(median(theirs, name), unit, suffix)} | {_cell(median(ours, name), unit, suffix)}"
    goal = "" if pair.goal is None else f"≥ {pair.goal:g}"
    cpu = f"{_cell(median(theirs, CPU))} | {_cell(median(ours, CPU))} | {_factor(thrift)}"
    return f"| {pair.title} | {cells} | {_factor(speed)} | {goal} | {cpu} |"


def table(samples: Samples) -> str:
    """A Markdown table of the pairs that were measured, and under it what was skipped and why."""
    lines = [
        "| Case (ours / theirs), 100 B | Theirs | Ours | Ratio | Goal | Their CPU s/M | Ours | Ratio |",
        "|---|---|---|---|---|---|---|---|",
    ]
    lines += [row(pair, samples) for pair in _measured(samples)]
    skipped = {
        f"- {load.worker} `{load.case}` was not measured: {some[-1].skipped.strip().splitlines()[-1]}"
        for load, some in samples.items()
        if some[-1].skipped
    }
    return "\n".join([*lines, *(["", *sorted(skipped)] if skipped else [])])


def _measured(samples: Samples) -> list[Pair]:
    return [pair for pair in PAIRS if pair.theirs in samples and pair.ours in samples]


def plot(samples: Samples, path: Path) -> None:
    """Two bars a pair, speed and CPU, and the goal of the first."""
    bars = []
    for pair in _measured(samples):
        title = pair.title.replace("`", "")
        speed, thrift = gains(pair, samples)
        bars += [Bar(title, speed, BLUE, pair.goal)] if speed else []
        bars += [Bar(title, thrift, ORANGE)] if thrift else []
    draw(bars, "times better than theirs (right is better; blue: speed, orange: CPU, red: the goal of speed)", path)


def write(samples: Samples, docs: Path, origin: str) -> None:
    """Renews the part of docs/benchmarks.md between its marks, the plot, and the raw figures."""
    plot(samples, docs / "img" / f"{PAGE}.png")
    report.renew(docs / "benchmarks.md", PAGE, f"{origin}\n\n{table(samples)}\n\n![plot](img/{PAGE}.png)")
    raw = json.dumps([asdict(sample) for some in samples.values() for sample in some], indent=0)
    (docs / f"{PAGE}.json").write_text(raw + "\n")
