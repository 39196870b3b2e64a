"""``pybroker kafka-topics``: takes the options of kafka-topics.sh and answers as it does."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING

import click

from pybroker.cli.cluster_options import Cluster
from pybroker.cli.completing import TOPIC
from pybroker.cli.kafka.options import on_kafka, only
from pybroker.cli.output import write
from pybroker.cli.topic import configs_of
from pybroker.cli.verbs import Failure, Verb, failures, misuse, pairs, without

if TYPE_CHECKING:
    from pyclient import Admin
    from pyclient.admin.types import TopicDescription

ACTIONS = ("list", "describe", "create", "alter", "delete")


@click.command("kafka-topics", cls=Verb)
@click.option("--list", "actions", flag_value="list", multiple=True)
@click.option("--describe", "actions", flag_value="describe", multiple=True)
@click.option("--create", "actions", flag_value="create", multiple=True)
@click.option("--alter", "actions", flag_value="alter", multiple=True)
@click.option("--delete", "actions", flag_value="delete", multiple=True)
@click.option(
    "--topic", metavar="NAME", help="A name; a regular expression but for --create.", shell_complete=TOPIC
)
@click.option("--partitions", type=click.IntRange(1))
@click.option("--replication-factor", type=click.IntRange(1))
@click.option("--config", "configs", multiple=True, metavar="key=value")
@click.option("--if-exists", is_flag=True)
@click.option("--if-not-exists", is_flag=True)
@click.option("--exclude-internal", is_flag=True)
@on_kafka()
def topics(
    cluster: Cluster,
    actions: tuple[str, ...],
    topic: str | None,
    partitions: int | None,
    replication_factor: int | None,
    configs: tuple[str, ...],
    if_exists: bool,
    if_not_exists: bool,
    exclude_internal: bool,
) -> int:
    """kafka-topics.sh: --list, --describe, --create, --alter or --delete."""
    action = only(actions, ACTIONS)
    if topic is None and action not in ("list", "describe"):
        raise click.UsageError(f"--{action}: --topic is missing")
    if action == "alter" and partitions is None:
        raise click.UsageError("--alter: --partitions is missing; `pybroker config set topic` alters keys")
    keys = pairs(configs, "--config")
    pattern = matcher(topic)
    with cluster.admin() as admin:
        if action == "create":
            return create(admin, topic or "", partitions, replication_factor, keys, if_not_exists)
        # an expression that matches Kafka's own topics does not delete them
        there = admin.list_topics(list_internal=not exclude_internal and action != "delete")
        names = [name for name in there if pattern.fullmatch(name)]
        if action == "list":
            write("".join(f"{name}\n" for name in names))
            return 0
        if not names and topic is not None:
            return missing(topic, if_exists)
        if action == "describe":
            describe(admin, names)
            return 0
        if action == "delete":
            return failures("topic", admin.delete_topics(names, check=False).errors)
        return failures("topic", admin.create_partitions(dict.fromkeys(names, partitions or 1), check=False).errors)


def matcher(topic: str | None) -> re.Pattern[str]:
    """Of the names that --topic means: an expression, or several with commas."""
    with misuse(f"--topic {topic}"):
        try:
            return re.compile((".*" if topic is None else topic).replace(",", "|"))
        except re.error as error:
            raise ValueError(str(error)) from error


def missing(topic: str, is_allowed: bool) -> int:
    if is_allowed:
        return 0
    raise Failure(f"Topic '{topic}' does not exist as expected: --list shows what there is")


def create(
    admin: Admin,
    topic: str,
    partitions: int | None,
    replicas: int | None,
    keys: Mapping[str, str],
    if_not_exists: bool,
) -> int:
    done = admin.create_topics(
        topic, num_partitions=partitions or -1, replication_factor=replicas or -1, configs=keys, check=False
    )
    write("".join(f"Created topic {name}.\n" for name in done))
    return failures("topic", without(done.errors, "TOPIC_ALREADY_EXISTS" if if_not_exists else ""))


def describe(admin: Admin, names: list[str]) -> None:
    """A line for each topic and each partition."""
    configs = configs_of(admin, names)
    for topic in admin.describe_topics(names).values() if names else ():
        write(described(topic, configs.get(topic.name, {})))


def described(topic: TopicDescription, keys: Mapping[str, str | None]) -> str:
    replicas = max((len(each.replicas) for each in topic.partitions), default=0)
    shown = ",".join(f"{key}={value}" for key, value in keys.items())
    head = (
        f"Topic: {topic.name}\tTopicId: {topic.topic_id}\tPartitionCount: {len(topic.partitions)}"
        f"\tReplicationFactor: {replicas}\tConfigs: {shown}\n"
    )
    rows = (
        f"\tTopic: {topic.name}\tPartition: {each.partition}"
        f"\tLeader: {each.leader if each.leader >= 0 else 'none'}"
        f"\tReplicas: {','.join(map(str, each.replicas))}\tIsr: {','.join(map(str, each.isr))}\n"
        for each in topic.partitions
    )
    return head + "".join(rows)
