"""``pybroker bench``: produce, consume, e2e."""

from __future__ import annotations

import contextlib
import secrets
import sys
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

import click

from cy.counted import counted
from pybroker.cli.common.cluster_options import Cluster, on_cluster
from pybroker.cli.common.completing import TOPIC
from pybroker.cli.common.output import show, with_output
from pybroker.cli.common.places import EARLIEST, LATEST, Spot, offsets_at, partitions_of
from pybroker.cli.common.verbs import Failure, Suggesting, complain, sentence

if TYPE_CHECKING:
    from pybroker.cli.bench.measures import Measured
    from pyclient import Admin, Consumer

PRODUCING = """
pybroker bench produce                                  a million records of 100 bytes
pybroker bench produce --rate 5000 -n 50000 -X linger.ms=0
pybroker bench produce --many -z lz4 -X batch.size=131072
"""
SIZE = click.option("-s", "--size", type=click.IntRange(0), default=100, metavar="N", help="Bytes of a value [100].")
RATE = click.option(
    "--rate", type=click.FloatRange(0, min_open=True), metavar="N", help="Records a second [all it can]."
)
KEEP = click.option("--keep", is_flag=True, help="Do not delete the temporary topic.")
PARTITIONS = click.option(
    "-p", "--partitions", type=click.IntRange(1), default=1, metavar="N", help="Of the temporary topic [1]."
)
ON_TOPIC = click.argument("topic", required=False, shell_complete=TOPIC)


@click.group(cls=Suggesting)
def bench() -> None:
    """Measures how fast this client and the cluster are. -X sets client settings: -X linger.ms=20.

    Without TOPIC, it creates a topic and deletes it at the end.
    """


@bench.command("produce", examples=PRODUCING)
@ON_TOPIC
@click.option("-n", "--count", type=click.IntRange(1), default=1_000_000, metavar="N", help="Records [1000000].")
@SIZE
@RATE
@click.option("-z", "--compression", metavar="CODEC", help="gzip, snappy, lz4, zstd.")
@click.option("--many", is_flag=True, help="By send_many instead of send.")
@PARTITIONS
@KEEP
@on_cluster
@with_output
def produce_records(
    cluster: Cluster,
    output: str,
    topic: str | None,
    count: int,
    size: int,
    rate: float | None,
    compression: str | None,
    many: bool,
    partitions: int,
    keep: bool,
) -> None:
    """Sends records; shows rates, and the time from send to acknowledgement."""
    from pybroker.cli.bench import runs

    if many and rate is not None:
        raise click.UsageError("--rate cannot be used with --many")
    values = runs.payloads(size)
    with (
        chosen_topic(cluster, topic, partitions, keep) as name,
        cluster.producer(compression_type=compression) as producer,
        progress("produce", count) as tell,
    ):
        producer.partitions_for(name)
        if many:
            found = runs.produce_many(producer, name, values, count, tell)
        else:
            found, deliveries = runs.produce(producer, name, values, count, rate, tell)
            if deliveries.error is not None:
                failed = counted(deliveries.failed, "record was", "records were")
                raise Failure(f"{failed} refused: {sentence(deliveries.error)}")
    report(output, found)


@bench.command("consume")
@ON_TOPIC
@click.option("-n", "--count", type=click.IntRange(1), help="Records [all there are; without TOPIC 1000000].")
@SIZE
@PARTITIONS
@KEEP
@on_cluster
@with_output
def consume_records(
    cluster: Cluster, output: str, topic: str | None, count: int | None, size: int, partitions: int, keep: bool
) -> None:
    """Reads records from the beginning; shows rates. Without TOPIC it first writes what it reads."""
    from pybroker.cli.bench import runs

    with chosen_topic(cluster, topic, partitions, keep) as name:
        if topic is None:
            with cluster.producer() as producer, progress("prepare", count or 1_000_000) as tell:
                runs.produce_many(producer, name, runs.payloads(size), count or 1_000_000, tell)
        with cluster.consumer(fetch_max_wait_ms=100) as consumer:
            there = assign_all(cluster, consumer, name, EARLIEST)
            wanted = there if count is None else min(count, there)
            if not wanted:
                raise Failure(f"topic {name} has no records: `pybroker bench produce {name}` writes some")
            with progress("consume", wanted) as tell:
                found = runs.consume(consumer, wanted, 30, tell)
    report(output, found)


@bench.command("e2e")
@ON_TOPIC
@click.option("-n", "--count", type=click.IntRange(1), default=5000, metavar="N", help="Records [5000].")
@SIZE
@RATE
@KEEP
@on_cluster
@with_output
def end_to_end(
    cluster: Cluster, output: str, topic: str | None, count: int, size: int, rate: float | None, keep: bool
) -> None:
    """One record at a time, from the producer to the consumer; shows the times of both halves."""
    from pybroker.cli.bench import runs

    with (
        chosen_topic(cluster, topic, 1, keep) as name,
        cluster.producer(linger_ms=0) as producer,
        cluster.consumer() as consumer,
        progress("e2e", count) as tell,
    ):
        assign_all(cluster, consumer, name, LATEST)
        value = runs.payloads(size)[0]
        runs.there_and_back(producer, consumer, name, value, min(count, 100), None, lambda n: None)  # warm up
        found = runs.there_and_back(producer, consumer, name, value, count, rate, tell)
    report(output, *found)


def assign_all(cluster: Cluster, consumer: Consumer, topic: str, where: str) -> int:
    """Assigns all partitions from an offset on. Returns the number of records up to their ends."""
    with cluster.admin() as admin:
        partitions = partitions_of(admin, [topic])
        starts, ends = offsets_at(admin, partitions, Spot(where)), offsets_at(admin, partitions, Spot(LATEST))
    consumer.assign(partitions)
    for tp, offset in starts.items():
        consumer.seek(tp, offset)
    return sum(ends[tp] - starts[tp] for tp in partitions)


@contextlib.contextmanager
def chosen_topic(cluster: Cluster, topic: str | None, partitions: int, keep: bool) -> Iterator[str]:
    """Yields the named topic, or creates one and deletes it afterwards."""
    if topic is not None:
        yield topic
        return
    name = f"bench-{secrets.token_hex(4)}"
    with cluster.admin() as admin:
        admin.create_topics(name, num_partitions=partitions)
    try:
        yield name
    finally:
        with cluster.admin() as admin:
            dispose(admin, name, keep)


def dispose(admin: Admin, name: str, keep: bool) -> None:
    if keep:
        complain(f"topic {name} is kept: `pybroker topic delete {name}`")
    else:
        admin.delete_topics(name, check=False)


@contextlib.contextmanager
def progress(what: str, total: int) -> Iterator[Callable[[int], object]]:
    """Shows a bar on a terminal's stderr; yields the function that reports progress."""
    if not sys.stderr.isatty():
        yield lambda count: None
        return
    from rich.console import Console
    from rich.progress import MofNCompleteColumn, Progress

    columns = (*Progress.get_default_columns(), MofNCompleteColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(what, total=total)
        yield lambda count: bar.update(task, completed=count)


def report(output: str, *found: Measured) -> None:
    from pybroker.cli.bench.measures import COLUMNS

    rows = [each.row() for each in found]
    used = [at for at in range(len(COLUMNS)) if any(row[at] is not None for row in rows)]
    show(output, [COLUMNS[at] for at in used], [[row[at] for at in used] for row in rows])
