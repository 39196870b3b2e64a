"""``pybroker kafka-delete-records``: takes the options of kafka-delete-records.sh."""

from __future__ import annotations

import click

from pybroker.cli.common.cluster_options import Cluster
from pybroker.cli.common.output import write
from pybroker.cli.common.verbs import Failure, Verb
from pybroker.cli.kafka.common.json_files import partitions_of_file
from pybroker.cli.kafka.common.options import on_kafka
from pyclient import TopicPartition

SHAPE = '{"partitions": [{"topic": "t", "partition": 0, "offset": 42}], "version": 1}'


@click.command("kafka-delete-records", cls=Verb)
@click.option("--offset-json-file", required=True, metavar="FILE", help=SHAPE)
@on_kafka()
def delete_records(cluster: Cluster, offset_json_file: str) -> int:
    """kafka-delete-records.sh: deletes the records before an offset of each partition; -1 is the end."""
    rows = partitions_of_file(offset_json_file)
    try:
        before = {TopicPartition(str(row["topic"]), int(row["partition"])): int(row["offset"]) for row in rows}
    except (KeyError, TypeError, ValueError) as error:
        raise Failure(f"{offset_json_file}: {error!r}: expected {SHAPE}") from error
    if len(before) < len(rows):
        raise Failure(f"{offset_json_file}: a partition is named twice")
    write("Executing records delete operation\n")
    with cluster.admin() as admin:
        done = admin.delete_records(before, check=False)
    write("Records delete operation completed:\n")
    for tp in before:
        result = f"error: {done.errors[tp]}" if tp in done.errors else f"low_watermark: {done[tp]}"
        write(f"partition: {tp.topic}-{tp.partition}\t{result}\n")
    return 1 if done.errors else 0

