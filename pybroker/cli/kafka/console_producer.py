"""``pybroker kafka-console-producer``: takes the options of kafka-console-producer.sh."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any

import click

from pybroker.cli.common.cluster_options import Cluster, properties
from pybroker.cli.common.completing import TOPIC
from pybroker.cli.common.records.record_documents import Given
from pybroker.cli.common.verbs import Verb, misuse
from pybroker.cli.kafka.common.line_reader import LineReader
from pybroker.cli.kafka.common.options import on_kafka
from pybroker.cli.produce import Failures, refuse_failed, send_all

READERS = ("LineMessageReader",)
#: Options that are settings of the producer by another name.
SETTINGS = {
    "compression_codec": "compression.type",
    "batch_size": "batch.size",
    "max_partition_memory_bytes": "batch.size",
    "message_send_max_retries": "retries",
    "retry_backoff_ms": "retry.backoff.ms",
    "linger": "linger.ms",
    "request_required_acks": "acks",
    "request_timeout_ms": "request.timeout.ms",
    "metadata_expiry_ms": "metadata.max.age.ms",
    "max_block_ms": "max.block.ms",
    "max_memory_bytes": "buffer.memory",
    "socket_buffer_size": "send.buffer.bytes",
}


@click.command("kafka-console-producer", cls=Verb)
@click.option("--topic", required=True, metavar="TOPIC", help="The topic to write to.", shell_complete=TOPIC)
@click.option("--sync", is_flag=True, help="A record at a time, each acknowledged before the next.")
@click.option("--compression-codec", is_flag=False, flag_value="gzip", help="none, gzip, snappy, lz4, zstd [gzip].")
@click.option("--batch-size", metavar="BYTES", help="batch.size.")
@click.option("--max-partition-memory-bytes", metavar="BYTES", help="batch.size, the older name.")
@click.option("--message-send-max-retries", metavar="N", help="retries.")
@click.option("--retry-backoff-ms", metavar="MS", help="retry.backoff.ms.")
@click.option("--timeout", "linger", metavar="MS", help="linger.ms.")
@click.option("--request-required-acks", metavar="ACKS", help="acks: 0, 1, all.")
@click.option("--request-timeout-ms", metavar="MS", help="request.timeout.ms.")
@click.option("--metadata-expiry-ms", metavar="MS", help="metadata.max.age.ms.")
@click.option("--max-block-ms", metavar="MS", help="max.block.ms.")
@click.option("--max-memory-bytes", metavar="BYTES", help="buffer.memory.")
@click.option("--socket-buffer-size", metavar="BYTES", help="send.buffer.bytes.")
@click.option("--line-reader", metavar="CLASS", help="LineMessageReader, which is the only one here.")
@click.option(
    *("--reader-property", "--property", "reader"),
    multiple=True,
    metavar="key=value",
    help="parse.key, key.separator, parse.headers, null.marker …",
)
@click.option("--reader-config", metavar="FILE", help="Such properties in a file.")
@on_kafka(config="--producer.config", setting="--producer-property", bootstrap="--broker-list")
def console_producer(
    cluster: Cluster,
    topic: str,
    sync: bool,
    line_reader: str | None,
    reader: tuple[str, ...],
    reader_config: str | None,
    **options: Any,
) -> int:
    """kafka-console-producer.sh: sends each line of stdin as a record."""
    if line_reader is not None and line_reader.rpartition(".")[2] not in READERS:
        raise click.UsageError(f"--line-reader {line_reader}: Java classes cannot be used; there is {READERS[0]}")
    with misuse("--reader-property"):
        read = LineReader(properties(reader_config, reader, "--reader-property"))
    failed = Failures()
    own = {SETTINGS[name]: value for name, value in options.items() if value is not None}
    with cluster.producer(**own) as producer:
        sent = send_all(producer, topic, read(lines()), Given(None), failed, one_at_a_time=sync)
        producer.flush()
    refuse_failed(failed, sent, topic)
    return 0


def lines() -> Iterator[bytes]:
    """Yields the lines of stdin without their ends; shows Kafka's prompt on a terminal."""
    prompt = sys.stdin.isatty()
    source = sys.stdin.buffer
    while True:
        if prompt:
            print(">", end="", file=sys.stderr, flush=True)
        line = source.readline()
        if not line:
            return
        yield line.removesuffix(b"\n").removesuffix(b"\r")
