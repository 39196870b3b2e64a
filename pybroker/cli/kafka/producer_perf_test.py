"""``pybroker kafka-producer-perf-test``: takes the options of kafka-producer-perf-test.sh."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from cy.counted import counted
from pybroker.cli.bench.command import progress
from pybroker.cli.common.cluster_options import Cluster, configured, properties
from pybroker.cli.common.completing import TOPIC
from pybroker.cli.common.output import write
from pybroker.cli.common.verbs import Failure, Verb, sentence
from pybroker.cli.kafka.common.options import on_kafka

if TYPE_CHECKING:
    from pybroker.cli.bench.measures import Measured


@click.command("kafka-producer-perf-test", cls=Verb)
@click.argument("more_props", nargs=-1, metavar="[key=value]…")
@click.option("--topic", required=True, metavar="TOPIC", help="The topic to write to.", shell_complete=TOPIC)
@click.option("--num-records", required=True, type=click.IntRange(1), metavar="N", help="How many.")
@click.option("--throughput", type=float, default=-1.0, metavar="N", help="Records a second; -1: all it can.")
@click.option("--record-size", type=click.IntRange(0), metavar="BYTES", help="Bytes of a value.")
@click.option("--payload-file", metavar="FILE", help="Values: its parts, repeatedly.")
@click.option("--payload-delimiter", default="\n", metavar="TEXT", help=r"The separator of the file's parts [\n].")
@click.option("--payload-monotonic", is_flag=True, help="Values: 0, 1, 2 …")
@click.option("--producer-props", multiple=True, metavar="key=value …", help="Settings of the producer.")
@click.option("--print-metrics", is_flag=True, hidden=True)
@click.option("--reporting-interval", type=int, hidden=True)
@click.option("--warmup-records", type=int, hidden=True)
@on_kafka(config="--producer.config")
def producer_perf_test(
    cluster: Cluster,
    more_props: tuple[str, ...],
    topic: str,
    num_records: int,
    throughput: float,
    record_size: int | None,
    payload_file: str | None,
    payload_delimiter: str,
    payload_monotonic: bool,
    producer_props: tuple[str, ...],
    print_metrics: bool,
    reporting_interval: int | None,
    warmup_records: int | None,
) -> None:
    """kafka-producer-perf-test.sh: sends records and prints rate and latencies."""
    from pybroker.cli.bench import runs

    if [record_size is not None, payload_file is not None, payload_monotonic].count(True) != 1:
        raise click.UsageError("use exactly one of --record-size, --payload-file and --payload-monotonic")
    settings = properties(None, (*producer_props, *more_props), "--producer-props")
    where = configured(cluster, {**cluster.settings, **settings})
    if payload_file is not None:
        values = parts(payload_file, payload_delimiter)
    elif payload_monotonic:
        values = [b"%d" % number for number in range(num_records)]
    else:
        values = runs.payloads(record_size or 0)
    with where.producer() as producer, progress("produce", num_records) as tell:
        producer.partitions_for(topic)
        rate = throughput if throughput > 0 else None
        measured, deliveries = runs.produce(producer, topic, values, num_records, rate, tell)
    write(summary(measured))
    if deliveries.error is not None:
        failed = counted(deliveries.failed, "record was", "records were")
        raise Failure(f"{failed} refused: {sentence(deliveries.error, f'topic {topic}')}")


def parts(path: str, delimiter: str) -> list[bytes]:
    """Returns the values of a file. Raises Failure."""
    try:
        text = Path(path).read_bytes()
    except OSError as error:
        raise Failure(f"{path}: {error.strerror}") from error
    mark = delimiter.replace("\\n", "\n").encode()
    values = text.removesuffix(mark).split(mark)
    if not text:
        raise Failure(f"{path}: empty, so there is nothing to send")
    return values


def summary(measured: Measured) -> str:
    """Formats the summary line as kafka-producer-perf-test.sh does."""
    times = measured.latencies
    average, greatest = (1000 * (each or 0.0) for each in (times.average, times.greatest))
    shares = (round(1000 * (times.quantile(share) or 0.0)) for share in (0.5, 0.95, 0.99, 0.999))
    return (
        f"{measured.records} records sent, {measured.records_per_s:f} records/sec ({measured.mb_per_s:.2f} MB/sec), "
        f"{average:.2f} ms avg latency, {greatest:.2f} ms max latency, "
        "{} ms 50th, {} ms 95th, {} ms 99th, {} ms 99.9th.\n".format(*shares)
    )
