"""``pybroker kafka-leader-election``: takes the options of kafka-leader-election.sh."""

from __future__ import annotations

from collections.abc import Iterable

import click

from pybroker.cli.common.cluster_options import Cluster
from pybroker.cli.common.completing import TOPIC
from pybroker.cli.common.output import write
from pybroker.cli.common.verbs import Failure, Verb
from pybroker.cli.kafka.common.json_files import partitions_of_file
from pybroker.cli.kafka.common.options import on_kafka
from pyclient import TopicPartition

NOT_NEEDED = "ELECTION_NOT_NEEDED"


@click.command("kafka-leader-election", cls=Verb)
@click.option("--election-type", required=True, type=click.Choice(("PREFERRED", "UNCLEAN"), case_sensitive=False))
@click.option("--topic", metavar="TOPIC", help="With --partition.", shell_complete=TOPIC)
@click.option("--partition", type=click.IntRange(0), metavar="N", help="With --topic.")
@click.option("--all-topic-partitions", is_flag=True, help="All that need it.")
@click.option("--path-to-json-file", metavar="FILE", help='{"partitions": [{"topic": "t", "partition": 0}]}')
@on_kafka(config="--admin.config")
def leader_election(
    cluster: Cluster,
    election_type: str,
    topic: str | None,
    partition: int | None,
    all_topic_partitions: bool,
    path_to_json_file: str | None,
) -> int:
    """kafka-leader-election.sh: elects the first replica, or any that is alive."""
    from pyclient.admin import Election

    if [topic is not None, all_topic_partitions, path_to_json_file is not None].count(True) != 1:
        raise click.UsageError("use one of --topic with --partition, --all-topic-partitions, --path-to-json-file")
    if (topic is None) != (partition is None):
        raise click.UsageError("--topic and --partition go together")
    wanted = None if all_topic_partitions else chosen(topic, partition, path_to_json_file)
    kind = election_type.upper()
    with cluster.admin() as admin:
        done = admin.elect_leaders(Election[kind], wanted, check=False)
    if done:
        write(f"Successfully completed leader election ({kind}) for partitions {names(done)}\n")
    needless = [tp for tp, error in done.errors.items() if error.name == NOT_NEEDED]
    if needless:
        write(f"Valid replica already elected for partitions {names(needless)}\n")
    failed = {tp: error for tp, error in done.errors.items() if error.name != NOT_NEEDED}
    for tp, error in failed.items():
        write(f"Error completing leader election ({kind}) for partition: {names([tp])}: {error}\n")
    if failed:
        raise Failure(f"{len(failed)} replica(s) could not be elected: see `pybroker cluster health`")
    return 0


def chosen(topic: str | None, partition: int | None, path: str | None) -> list[TopicPartition]:
    """Returns the named partition, or those that the JSON file at ``path`` lists. Raises Failure."""
    if path is None:
        return [TopicPartition(str(topic), partition or 0)]
    try:
        return [TopicPartition(str(row["topic"]), int(row["partition"])) for row in partitions_of_file(path)]
    except (KeyError, ValueError, TypeError) as error:
        raise Failure(f"{path}: each entry of \"partitions\" needs a topic and a partition: {error!r}") from error


def names(partitions: Iterable[TopicPartition]) -> str:
    return ", ".join(f"{tp.topic}-{tp.partition}" for tp in partitions)
