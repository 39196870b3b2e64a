"""``pybroker kafka-topics``: takes the options of kafka-topics.sh and answers as it does."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from pybroker.cli.cluster.command import MIN_ISR
from pybroker.cli.common.cluster_options import Cluster
from pybroker.cli.common.completing import TOPIC
from pybroker.cli.common.output import write
from pybroker.cli.common.verbs import Failure, Verb, failures, misuse, pairs, without
from pybroker.cli.kafka.common.options import on_kafka, only

if TYPE_CHECKING:
    from pyclient import Admin
    from pyclient.admin.types import PartitionDescription, TopicDescription

ACTIONS = ("list", "describe", "create", "alter", "delete")
#: What --describe may be narrowed to, by option.
REPORTS = ("under_replicated_partitions", "unavailable_partitions", "under_min_isr_partitions", "at_min_isr_partitions")


class Asked(NamedTuple):
    """The action that the options request, and the topics that they name."""

    topic: str | None
    topic_id: str | None
    partitions: int | None
    replication_factor: int | None
    replica_assignment: dict[int, list[int]] | None
    keys: dict[str, str]
    if_exists: bool
    if_not_exists: bool
    exclude_internal: bool
    topics_with_overrides: bool
    reports: frozenset[str]

    @property
    def shows_topics(self) -> bool:
        """True if --describe shows lines of topics, not only partitions with problems."""
        return not self.reports


@click.command("kafka-topics", cls=Verb)
@click.option("--list", "actions", flag_value="list", multiple=True, help="Names, a line each.")
@click.option("--describe", "actions", flag_value="describe", multiple=True, help="Topics and their partitions.")
@click.option("--create", "actions", flag_value="create", multiple=True, help="A topic.")
@click.option("--alter", "actions", flag_value="alter", multiple=True, help="More partitions.")
@click.option("--delete", "actions", flag_value="delete", multiple=True, help="Topics and their records.")
@click.option("--topic", metavar="NAME", help="A name, or without --create an expression.", shell_complete=TOPIC)
@click.option("--topic-id", metavar="ID", help="With --describe: instead of --topic.")
@click.option("--partitions", type=click.IntRange(1), metavar="N", help="[the broker's num.partitions]")
@click.option("--replication-factor", type=click.IntRange(1), metavar="N", help="[the broker's default]")
@click.option("--replica-assignment", metavar="1:2,2:3", help="Brokers of each partition, instead of numbers.")
@click.option("--config", "configs", multiple=True, metavar="key=value", help="With --create: a key of the topic.")
@click.option("--delete-config", hidden=True)
@click.option("--if-exists", is_flag=True, help="Do not fail if the topic does not exist.")
@click.option("--if-not-exists", is_flag=True, help="With --create: do not fail if the topic exists.")
@click.option("--exclude-internal", is_flag=True, help="Without Kafka's own topics.")
@click.option("--topics-with-overrides", is_flag=True, help="With --describe: only topics with their own settings.")
@click.option("--under-replicated-partitions", is_flag=True, help="With --describe: only those.")
@click.option("--unavailable-partitions", is_flag=True, help="With --describe: only those without a leader.")
@click.option("--under-min-isr-partitions", is_flag=True, help="With --describe: only those.")
@click.option("--at-min-isr-partitions", is_flag=True, help="With --describe: only those.")
@click.option("--partition-size-limit-per-response", type=int, hidden=True)
@on_kafka()
def topics(
    cluster: Cluster,
    actions: tuple[str, ...],
    configs: tuple[str, ...],
    replica_assignment: str | None,
    delete_config: str | None,
    partition_size_limit_per_response: int | None,
    **options: Any,
) -> int:
    """kafka-topics.sh: --list, --describe, --create, --alter or --delete."""
    action = only(actions, ACTIONS)
    reports = frozenset(name for name in REPORTS if options.pop(name))
    assignment = None if replica_assignment is None else assigned(replica_assignment)
    keys = pairs(configs, "--config")
    asked = Asked(**options, replica_assignment=assignment, keys=keys, reports=reports)
    check(action, asked, delete_config)
    pattern = matcher(asked.topic)
    with cluster.admin() as admin:
        if action == "create":
            return create(admin, asked)
        # an expression that matches Kafka's own topics does not delete them
        there = admin.list_topics(list_internal=not asked.exclude_internal and action != "delete")
        names = [name for name, each in there.items() if is_meant(name, each.topic_id, asked, pattern)]
        if action == "list":
            write("".join(f"{name}\n" for name in names))
            return 0
        if not names and (asked.topic or asked.topic_id):
            return missing(asked)
        if action == "describe":
            describe(admin, names, asked)
            return 0
        if action == "delete":
            return failures("topic", admin.delete_topics(names, check=False).errors)
        return alter(admin, names, asked)


def check(action: str, asked: Asked, delete_config: str | None) -> None:
    """Raises UsageError for options that do not go together."""
    if asked.topic is None and action not in ("list", "describe"):
        raise click.UsageError(f"--{action}: --topic is missing")
    if action == "alter" and (asked.keys or delete_config):
        raise click.UsageError("since Kafka 3.0, --alter changes no keys: use `pybroker kafka-configs --alter`")
    if action == "alter" and asked.partitions is None:
        raise click.UsageError("--alter: --partitions is missing; `pybroker kafka-configs` alters keys")
    if asked.replica_assignment and action == "create" and (asked.partitions or asked.replication_factor):
        raise click.UsageError("--replica-assignment cannot be used with --partitions or --replication-factor")


def assigned(text: str) -> dict[int, list[int]]:
    """Reads the brokers of partitions 0, 1 from ``1:2,2:3``. Raises UsageError."""
    try:
        rows = [[int(number) for number in part.split(":")] for part in text.split(",")]
    except ValueError:
        raise click.UsageError(f"--replica-assignment {text}: expected 1:2,2:3, brokers of each partition") from None
    if any(len(set(row)) < len(row) or len(row) != len(rows[0]) for row in rows):
        raise click.UsageError(f"--replica-assignment {text}: partitions need equally many brokers, each once")
    return dict(enumerate(rows))


def matcher(topic: str | None) -> re.Pattern[str]:
    """Compiles the value of --topic: a regular expression, or several separated by commas."""
    with misuse(f"--topic {topic}"):
        try:
            return re.compile((".*" if topic is None else topic).replace(",", "|"))
        except re.error as error:
            raise ValueError(str(error)) from error


def is_meant(name: str, topic_id: str, asked: Asked, pattern: re.Pattern[str]) -> bool:
    if asked.topic_id is not None:
        return topic_id == asked.topic_id
    return pattern.fullmatch(name) is not None


def missing(asked: Asked) -> int:
    if asked.if_exists:
        return 0
    what = f"TopicId '{asked.topic_id}'" if asked.topic_id else f"Topic '{asked.topic}'"
    raise Failure(f"{what} does not exist as expected: --list shows the existing ones")


def create(admin: Admin, asked: Asked) -> int:
    from pyclient.admin import NewTopic

    topic = NewTopic(
        asked.topic or "",
        asked.partitions or -1,
        asked.replication_factor or -1,
        asked.replica_assignment,
        asked.keys,
    )
    done = admin.create_topics(topic, check=False)
    write("".join(f"Created topic {name}.\n" for name in done))
    return failures("topic", without(done.errors, "TOPIC_ALREADY_EXISTS" if asked.if_not_exists else ""))


def alter(admin: Admin, names: list[str], asked: Asked) -> int:
    """Adds partitions. If an assignment is given, ignores its rows for existing partitions."""
    count = asked.partitions or 1
    placed = None
    if asked.replica_assignment:
        described = admin.describe_topics(names)
        rows = asked.replica_assignment
        placed = {name: [rows[at] for at in sorted(rows)[len(described[name].partitions) :]] for name in names}
    done = admin.create_partitions(dict.fromkeys(names, count), assignments=placed, check=False)
    return failures("topic", done.errors)


def describe(admin: Admin, names: list[str], asked: Asked) -> None:
    """Prints a line for each topic and each partition."""
    from pyclient.admin import ConfigResource, ResourceType

    if not names:
        return
    found = admin.describe_configs([ConfigResource(ResourceType.TOPIC, name) for name in names], check=False)
    configs = {resource.name: entries for resource, entries in found.items()}
    for topic in admin.describe_topics(names).values():
        entries = configs.get(topic.name, {})
        own = {key: each.value for key, each in entries.items() if not each.is_default}
        if asked.shows_topics and (own or not asked.topics_with_overrides):
            write(head(topic, own))
        if not asked.topics_with_overrides:
            least = int(entries[MIN_ISR].value or 1) if MIN_ISR in entries else 1
            shown = [each for each in topic.partitions if asked.shows_topics or is_troubled(each, asked.reports, least)]
            write("".join(row(topic.name, each) for each in shown))


def is_troubled(partition: PartitionDescription, reports: Collection[str], least: int) -> bool:
    """Says whether a partition belongs in one of these reports."""
    alive = len(partition.isr)
    true = {
        "under_replicated_partitions": alive < len(partition.replicas),
        "unavailable_partitions": partition.leader < 0,
        "under_min_isr_partitions": partition.leader < 0 or alive < least,
        "at_min_isr_partitions": alive == least,
    }
    return any(true[name] for name in reports)


def head(topic: TopicDescription, keys: Mapping[str, str | None]) -> str:
    replicas = max((len(each.replicas) for each in topic.partitions), default=0)
    shown = ",".join(f"{key}={value}" for key, value in keys.items())
    return (
        f"Topic: {topic.name}\tTopicId: {topic.topic_id}\tPartitionCount: {len(topic.partitions)}"
        f"\tReplicationFactor: {replicas}\tConfigs: {shown}\n"
    )


def row(topic: str, each: PartitionDescription) -> str:
    leader = each.leader if each.leader >= 0 else "none"
    lists = each.replicas, each.isr, each.elr, each.last_known_elr
    replicas, in_sync, elr, last_known = ("N/A" if ids is None else ",".join(map(str, ids)) for ids in lists)
    return (
        f"\tTopic: {topic}\tPartition: {each.partition}\tLeader: {leader}\tReplicas: {replicas}\tIsr: {in_sync}"
        f"\tElr: {elr}\tLastKnownElr: {last_known}\n"
    )
