"""``pybroker topic``: list, describe, create, alter, delete, trim, offsets."""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING, Any

import click

from pybroker.cli.cluster_options import Cluster, on_cluster
from pybroker.cli.completing import TOPIC
from pybroker.cli.output import show, with_output
from pybroker.cli.places import Spot, SpotType, edges, offsets_at, partitions_of
from pybroker.cli.verbs import Suggesting, failures, pairs, without

if TYPE_CHECKING:
    from pyclient import Admin
    from pyclient.admin.types import TopicDescription

LISTED = ("name", "partitions", "replicas", "internal", "id")
CREATING = """
pybroker topic create flights -p 3 -c retention.ms=86400000 -c cleanup.policy=compact,delete
pybroker topic create a b c --if-not-exists
"""
DESCRIBED = ("topic", "partition", "leader", "epoch", "replicas", "isr", "offline")


@click.group(cls=Suggesting)
def topic() -> None:
    """Topics and their records."""


@topic.command("list")
@click.option("--internal", is_flag=True, help="Also Kafka's own, as __consumer_offsets.")
@on_cluster
@with_output
def list_topics(cluster: Cluster, output: str, internal: bool) -> None:
    """Lists topics."""
    with cluster.admin() as admin:
        names = list(admin.list_topics(list_internal=internal))
        found = admin.describe_topics(names, check=False) if names and output != "name" else {}
    if output == "name":
        show(output, ("name",), [(name,) for name in names], none="no topics")
    else:
        show(output, LISTED, [listed(each) for each in found.values()], none="no topics")


def listed(topic: TopicDescription) -> tuple[Any, ...]:
    replicas = max((len(each.replicas) for each in topic.partitions), default=0)
    return topic.name, len(topic.partitions), replicas, topic.is_internal, topic.topic_id


@topic.command()
@click.argument("topics", nargs=-1, metavar="[TOPIC]…", shell_complete=TOPIC)
@on_cluster
@with_output
def describe(cluster: Cluster, output: str, topics: tuple[str, ...]) -> int:
    """Shows the partitions of topics (all without TOPIC); JSON has the keys that are set as well."""
    with cluster.admin() as admin:
        names = topics or tuple(admin.list_topics())
        found = admin.describe_topics(names, check=False)
        configs = configs_of(admin, found) if output in ("json", "jsonl") else {}
    rows = [(each.name, *partition) for each in found.values() for partition in each.partitions]
    documents = [document(each, configs.get(each.name, {})) for each in found.values()]
    show(output, DESCRIBED, rows, documents=documents)
    return failures("topic", found.errors)


def configs_of(admin: Admin, names: Collection[str]) -> dict[str, dict[str, str | None]]:
    """What was set of each topic."""
    from pyclient.admin import ConfigResource, ResourceType
    from pyclient.admin.types import ConfigSource

    if not names:
        return {}
    resources = [ConfigResource(ResourceType.TOPIC, name) for name in names]
    return {
        resource.name: {
            key: row.value for key, row in keys.items() if row.source == ConfigSource.DYNAMIC_TOPIC_CONFIG
        }
        for resource, keys in admin.describe_configs(resources, check=False).items()
    }


def document(topic: TopicDescription, configs: dict[str, str | None]) -> dict[str, Any]:
    return {
        "name": topic.name,
        "id": topic.topic_id,
        "internal": topic.is_internal,
        "configs": configs,
        "partitions": [dict(zip(DESCRIBED[1:], each, strict=True)) for each in topic.partitions],
    }


@topic.command(examples=CREATING)
@click.argument("topics", nargs=-1, required=True, metavar="TOPIC…", shell_complete=TOPIC)
@click.option("-p", "--partitions", type=click.IntRange(1), metavar="N", help="[the broker's num.partitions]")
@click.option("-r", "--replicas", type=click.IntRange(1), default=None, metavar="N", help="[the broker's default]")
@click.option("-c", "--config", "configs", multiple=True, metavar="key=value", help="A key of the topic.")
@click.option("--if-not-exists", is_flag=True, help="One that is there is no failure.")
@click.option("--dry-run", is_flag=True, help="Only say what would happen.")
@on_cluster
@with_output
def create(
    cluster: Cluster,
    output: str,
    topics: tuple[str, ...],
    partitions: int | None,
    replicas: int | None,
    configs: tuple[str, ...],
    if_not_exists: bool,
    dry_run: bool,
) -> int:
    """Creates topics and shows them."""
    keys = pairs(configs, "--config")
    with cluster.admin() as admin:
        done = admin.create_topics(
            topics,
            num_partitions=partitions or -1,
            replication_factor=replicas or -1,
            configs=keys,
            validate_only=dry_run,
            check=False,
        )
    rows = [(name, row.num_partitions, row.replication_factor, row.topic_id) for name, row in done.items()]
    show(output, ("name", "partitions", "replicas", "id"), rows)
    return failures("topic", without(done.errors, "TOPIC_ALREADY_EXISTS" if if_not_exists else ""))


@topic.command()
@click.argument("topics", nargs=-1, required=True, metavar="TOPIC…", shell_complete=TOPIC)
@click.option("-p", "--partitions", type=click.IntRange(1), metavar="N", help="Raise it to so many partitions.")
@click.option("--set", "changes", multiple=True, metavar="key=value", help="Set a key.")
@click.option("--unset", "defaults", multiple=True, metavar="key", help="Give a key its default again.")
@on_cluster
def alter(
    cluster: Cluster,
    topics: tuple[str, ...],
    partitions: int | None,
    changes: tuple[str, ...],
    defaults: tuple[str, ...],
) -> int:
    """Adds partitions, sets and unsets keys."""
    from pyclient.admin import AlterConfigOp, AlterOp, ConfigResource, ResourceType

    ops = [AlterConfigOp(key, value) for key, value in pairs(changes, "--set").items()]
    ops += [AlterConfigOp(key, None, AlterOp.DELETE) for key in defaults]
    if not ops and partitions is None:
        raise click.UsageError("nothing to alter: --partitions, --set or --unset")
    with cluster.admin() as admin:
        errors: dict[Any, Any] = {}
        if ops:
            resources = {ConfigResource(ResourceType.TOPIC, name): ops for name in topics}
            errors |= {key.name: e for key, e in admin.incremental_alter_configs(resources, check=False).errors.items()}
        if partitions is not None:
            counts = {name: partitions for name in topics if name not in errors}
            errors |= admin.create_partitions(counts, check=False).errors
    return failures("topic", errors)


@topic.command()
@click.argument("topics", nargs=-1, required=True, metavar="TOPIC…", shell_complete=TOPIC)
@click.option("--if-exists", is_flag=True, help="One that is not there is no failure.")
@on_cluster
def delete(cluster: Cluster, topics: tuple[str, ...], if_exists: bool) -> int:
    """Deletes topics and their records."""
    with cluster.admin() as admin:
        done = admin.delete_topics(topics, check=False)
    return failures("topic", without(done.errors, "UNKNOWN_TOPIC_OR_PARTITION" if if_exists else ""))


@topic.command()
@click.argument("topics", nargs=-1, required=True, metavar="TOPIC…", shell_complete=TOPIC)
@click.option("--before", type=SpotType(), required=True, metavar="PLACE", help="latest, 42, -100, @MS, ISO time.")
@click.option("-p", "--partition", "numbers", type=click.IntRange(0), multiple=True, metavar="N", help="Only this one.")
@on_cluster
@with_output
def trim(cluster: Cluster, output: str, topics: tuple[str, ...], before: Spot, numbers: tuple[int, ...]) -> int:
    """Deletes the records before a place; shows the first offsets that are left."""
    with cluster.admin() as admin:
        places = offsets_at(admin, partitions_of(admin, topics, numbers), before)
        done = admin.delete_records(places, check=False)
    show(output, ("topic", "partition", "earliest"), [(*tp, low) for tp, low in sorted(done.items())])
    return failures("partition", done.errors)


@topic.command()
@click.argument("topics", nargs=-1, metavar="[TOPIC]…", shell_complete=TOPIC)
@click.option("--at", type=SpotType(), metavar="PLACE", help="The offsets of a time or another place.")
@on_cluster
@with_output
def offsets(cluster: Cluster, output: str, topics: tuple[str, ...], at: Spot | None) -> None:
    """Shows the first offset of each partition and that behind the last."""
    with cluster.admin() as admin:
        partitions = partitions_of(admin, topics or tuple(admin.list_topics()))
        if at is not None:
            found = offsets_at(admin, partitions, at)
            show(output, ("topic", "partition", "offset"), [(*tp, found[tp]) for tp in partitions])
            return
        first = edges(admin, partitions, latest=False) if partitions else {}
        last = edges(admin, partitions, latest=True) if partitions else {}
    rows = [(*tp, first[tp], last[tp], last[tp] - first[tp]) for tp in partitions]
    show(output, ("topic", "partition", "earliest", "latest", "span"), rows)
