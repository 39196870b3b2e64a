"""Lists the suite's rows and measures them: each size on a fresh broker, one kind of broker after the other."""

from __future__ import annotations

import resource
import shutil
import tempfile
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from pathlib import Path

from confluent_kafka import KafkaException

from conformance.bench.cases import LoadError
from conformance.bench.pairs import WorkerError
from conformance.bench.scale import administration, groups, lifetime, records
from conformance.bench.scale.spent import Rows, Sample, wait_until_calm
from conformance.bench.scale.wide import Wide
from harness.servers.brokers import KINDS, BrokerError

SIZES = (100, 1_000, 5_000, 20_000)
SMALL = (100, 1_000)
#: Kafka opens these besides a file per partition: libraries, connections, other topics.
OTHER_FILES = 2_500
FAILURES = (LoadError, WorkerError, BrokerError, OSError, AssertionError, KafkaException)

Case = Callable[[Wide], Rows]

#: The cases run in this order; the first one always runs.
CASES: tuple[Case, ...] = (
    administration.create,
    administration.metadata,
    records.produce,
    records.produce_ours,
    records.list_offsets,
    records.fetch,
    groups.offsets,
    groups.consumer_group,
    administration.log_dirs,
    administration.singles,
    lifetime.idle,
    lifetime.restarts,
    administration.delete,
)


def measure(
    sizes: Sequence[int],
    rounds: int,
    kinds: Collection[str],
    only: Collection[str],
    say: Callable[[str], None],
    settings: Mapping[str, str],
) -> list[Sample]:
    """Measures all sizes of all kinds ``rounds`` times. ``only``: cases by the names of their functions; none: all."""
    found = []
    for number in range(1, rounds + 1):
        for partitions in sizes:
            for kind in kinds:
                if reason := hindrance(kind, partitions):
                    found.append(Sample(kind, number, partitions, "everything", {}, skipped=reason))
                    continue
                for sample in _measured(kind, number, partitions, only, settings):
                    say(_told(sample))
                    found.append(sample)
    return found


def hindrance(kind: str, partitions: int) -> str:
    """Returns why this machine cannot run so many partitions, or "": Kafka keeps a file of each one open."""
    limit = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    if kind == "kafka" and limit != resource.RLIM_INFINITY and partitions + OTHER_FILES > limit:
        return f"a process may open {limit:,} files"
    return ""


def _measured(
    kind: str, number: int, partitions: int, only: Collection[str], settings: Mapping[str, str]
) -> Iterator[Sample]:
    """Measures one broker. A failed case does not end the others, unless the topics are missing."""
    folder = Path(tempfile.mkdtemp(prefix=f"bench-scale-{kind}-"))
    first = CASES[0]
    try:
        with KINDS[kind](folder / "data", **settings) as broker:
            wide = Wide(broker, partitions)
            for case in CASES:
                if case is not first and only and case.__name__ not in only:
                    continue
                wait_until_calm(broker)
                try:
                    for row, one in case(wide):
                        yield Sample(kind, number, partitions, row, one.figures, one.items, one.calls)
                except FAILURES as error:
                    yield Sample(kind, number, partitions, case.__name__, {}, skipped=_reason(error))
                    if case is first or not broker.alive:
                        return
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _reason(error: BaseException) -> str:
    """Returns the first line."""
    return (str(error).strip().splitlines() or [type(error).__name__])[0]


def _told(sample: Sample) -> str:
    told = "  ".join(f"{name} {value:.4g}" for name, value in sample.figures.items())
    head = f"round {sample.round} {sample.broker} {sample.partitions}: {sample.row}"
    return f"{head}: {told or 'skipped: ' + sample.skipped}"
