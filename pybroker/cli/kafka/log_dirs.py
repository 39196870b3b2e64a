"""``pybroker kafka-log-dirs``: takes the options of kafka-log-dirs.sh; prints two lines and a JSON document."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING, Any

import click

from pybroker.cli.common.cluster_options import Cluster
from pybroker.cli.common.output import write
from pybroker.cli.common.verbs import Failure, Verb
from pybroker.cli.kafka.common.options import on_kafka

if TYPE_CHECKING:
    from pyclient.admin.results import Results
    from pyclient.admin.types import LogDirDescription


@click.command("kafka-log-dirs", cls=Verb)
@click.option("--describe", is_flag=True, required=True, help="The one thing it does.")
@click.option("--topic-list", metavar="t1,t2", default="", help="Only replicas of these topics.")
@click.option("--broker-list", metavar="1,2", default="", help="Only these brokers.")
@on_kafka()
def log_dirs(cluster: Cluster, describe: bool, topic_list: str, broker_list: str) -> int:
    """kafka-log-dirs.sh: shows what lies in the log dirs of brokers."""
    topics = {name for name in topic_list.split(",") if name}
    words = [word for word in broker_list.split(",") if word]
    if not all(word.isdecimal() for word in words):
        raise click.UsageError(f"--broker-list {broker_list}: expected numbers, as in 1,2")
    with cluster.admin() as admin:
        there = [each.id for each in admin.describe_cluster().brokers]
        wanted = sorted(set(map(int, words)) or set(there))
        missing = [each for each in wanted if each not in there]
        if missing:
            raise Failure(f"--broker-list: there is no broker {comma(missing)}: there are {comma(there)}")
        write("Querying brokers for log directories information\n")
        found = admin.describe_log_dirs(wanted)
    write(f"Received log directory information from brokers {comma(wanted)}\n")
    write(json.dumps(document(found, topics), separators=(",", ":")) + "\n")
    return 0


def comma(numbers: Collection[int]) -> str:
    return ",".join(map(str, numbers))


def document(found: Mapping[int, Results[str, LogDirDescription]], topics: Collection[str]) -> dict[str, Any]:
    brokers = [
        {
            "broker": broker,
            "logDirs": [
                *(log_dir(path, each, topics) for path, each in dirs.items()),
                *({"partitions": [], "error": error.name, "logDir": path} for path, error in dirs.errors.items()),
            ],
        }
        for broker, dirs in found.items()
    ]
    return {"version": 1, "brokers": brokers}


def log_dir(path: str, found: LogDirDescription, topics: Collection[str]) -> dict[str, Any]:
    partitions = [
        {
            "partition": f"{tp.topic}-{tp.partition}",
            "size": replica.size,
            "offsetLag": replica.offset_lag,
            "isFuture": replica.is_future,
        }
        for tp, replica in sorted(found.replicas.items())
        if not topics or tp.topic in topics
    ]
    return {"partitions": partitions, "error": None, "logDir": path}
