"""``pybroker kafka-consumer-perf-test``: takes the options of kafka-consumer-perf-test.sh."""

from __future__ import annotations

import random
import time

import click

from cy.counted import counted
from pybroker.cli.bench.command import progress
from pybroker.cli.common.cluster_options import Cluster
from pybroker.cli.common.completing import GROUP, TOPIC
from pybroker.cli.common.output import write
from pybroker.cli.common.places import EARLIEST, LATEST
from pybroker.cli.common.verbs import Verb, complain
from pybroker.cli.kafka.common.options import on_kafka

HEADER = (
    "start.time, end.time, data.consumed.in.MB, MB.sec, data.consumed.in.nMsg, nMsg.sec, "
    "rebalance.time.ms, fetch.time.ms, fetch.MB.sec, fetch.nMsg.sec\n"
)
MB = 1 << 20


@click.command("kafka-consumer-perf-test", cls=Verb)
@click.option("--topic", required=True, metavar="TOPIC", help="The topic to read.", shell_complete=TOPIC)
@click.option("--num-records", "--messages", "count", required=True, type=click.IntRange(1), help="How many.")
@click.option("--group", metavar="GROUP", help="The consumer group [a new one].", shell_complete=GROUP)
@click.option("--timeout", type=click.IntRange(0), default=10_000, metavar="MS", help="Stop without records [10000].")
@click.option("--fetch-size", metavar="BYTES", help="max.partition.fetch.bytes.")
@click.option("--socket-buffer-size", metavar="BYTES", help="receive.buffer.bytes.")
@click.option("--from-latest", is_flag=True, help="Begin at the end if the group has no offset.")
@click.option("--hide-header", is_flag=True, help="Without the line of names.")
@click.option("--show-detailed-stats", is_flag=True, hidden=True)
@click.option("--reporting-interval", type=int, hidden=True)
@click.option("--print-metrics", is_flag=True, hidden=True)
@click.option("--threads", type=int, hidden=True)
@on_kafka(config="--consumer.config", bootstrap="--broker-list")
def consumer_perf_test(
    cluster: Cluster,
    topic: str,
    count: int,
    group: str | None,
    timeout: int,
    fetch_size: str | None,
    socket_buffer_size: str | None,
    from_latest: bool,
    hide_header: bool,
    show_detailed_stats: bool,
    reporting_interval: int | None,
    print_metrics: bool,
    threads: int | None,
) -> None:
    """kafka-consumer-perf-test.sh: reads records as a member of a group and prints the rates."""
    from pybroker.cli.bench import runs

    if not hide_header:
        write(HEADER)
    with (
        cluster.consumer(
            group_id=group or f"perf-consumer-{random.randrange(100_000)}",
            auto_offset_reset=LATEST if from_latest else EARLIEST,
            max_partition_fetch_bytes=fetch_size,
            receive_buffer_bytes=socket_buffer_size,
        ) as consumer,
        progress("consume", count) as tell,
    ):
        begun = time.time()
        consumer.subscribe([topic])
        found = runs.consume(consumer, count, timeout / 1000, tell)
        ended = time.time()
    waited = max(0.0, ended - begun - found.seconds)
    write(line(begun, ended, found.bytes / MB, found.records, waited, found.seconds))
    if found.records < count:
        complain(f"only {found.records} of {counted(count, 'record')} within {timeout} ms: --timeout waits longer")


def line(begun: float, ended: float, megabytes: float, records: int, waited_s: float, fetched_s: float) -> str:
    """Formats a line as Kafka does. The time before the first record counts as the rebalance."""
    whole = max(ended - begun, 1e-9)
    fetch = max(fetched_s, 1e-9)
    return (
        f"{moment(begun)}, {moment(ended)}, "
        f"{megabytes:.4f}, {megabytes / whole:.4f}, {records}, {records / whole:.4f}, "
        f"{round(waited_s * 1000)}, {round(fetched_s * 1000)}, {megabytes / fetch:.4f}, {records / fetch:.4f}\n"
    )


def moment(at: float) -> str:
    milliseconds = round(at * 1000) % 1000
    return time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(at)) + f":{milliseconds:03d}"
