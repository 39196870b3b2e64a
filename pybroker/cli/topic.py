"""``pybroker topic``: list, describe, create, alter, delete, trim, offsets."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING, Any

import click

from pybroker.cli.common.changes import CHANGED, DELETED, Change, changed, only_checked
from pybroker.cli.common.cluster_options import Cluster, on_cluster
from pybroker.cli.common.completing import TOPIC
from pybroker.cli.common.output import show, with_output
from pybroker.cli.common.places import Spot, SpotType, edges, offsets_at, partitions_of
from pybroker.cli.common.plans import at_once, nothing_was_changed
from pybroker.cli.common.verbs import Suggesting, failures, settings, without
from pybroker.cli.common.watching import watched, with_watch

if TYPE_CHECKING:
    from pyclient import Admin
    from pyclient.admin.types import ConfigEntry, TopicDescription

LISTED = ("name", "partitions", "replicas", "internal", "id")
CREATING = """
pybroker topic create flights -p 3 -c retention.ms=1d -c cleanup.policy=compact,delete
pybroker topic create a b c --if-not-exists
"""
DESCRIBED = ("topic", "partition", "leader", "epoch", "replicas", "isr", "offline", "retention")
ELIGIBLE = ("elr", "last_known_elr")
"""Fields that only documents have."""


@click.group(cls=Suggesting)
def topic() -> None:
    """Topics and their records."""


@topic.command("list")
@click.option("--internal", is_flag=True, help="Also Kafka's own, such as __consumer_offsets.")
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
@with_watch
@on_cluster
@with_output
def describe(cluster: Cluster, output: str, topics: tuple[str, ...], watch: float | None) -> int:
    """Shows the partitions of topics (all without TOPIC), and how long they keep records.

    JSON has the keys that are set as well. Bytes of retention are for each partition.
    """
    with cluster.admin() as admin:
        return watched(lambda: show_topics(admin, output, topics), watch, output)


def show_topics(admin: Admin, output: str, topics: tuple[str, ...]) -> int:
    """Shows topics, or all; returns the exit code."""
    names = topics or tuple(admin.list_topics())
    found = admin.describe_topics(names, check=False)
    configs = configs_of(admin, found)
    kept = {name: retention(keys) for name, keys in configs.items()}
    rows = [
        (each.name, *partition[: len(DESCRIBED) - 2], kept.get(each.name, {}).get("text"))
        for each in found.values()
        for partition in each.partitions
    ]
    documents = [document(each, configs.get(each.name, {}), kept.get(each.name)) for each in found.values()]
    show(output, DESCRIBED, rows, documents=documents)
    return failures("topic", found.errors)


def configs_of(admin: Admin, names: Collection[str]) -> dict[str, Mapping[str, ConfigEntry]]:
    """Returns the configuration of each topic."""
    from pyclient.admin import ConfigResource, ResourceType

    if not names:
        return {}
    resources = [ConfigResource(ResourceType.TOPIC, name) for name in names]
    return {resource.name: keys for resource, keys in admin.describe_configs(resources, check=False).items()}


def retention(keys: Mapping[str, ConfigEntry]) -> dict[str, Any]:
    """Returns how long a topic keeps its records (-1: without limit), and the same in words."""
    from pybroker.cli.common.units import retention_text

    values = {key: entry.value for key, entry in keys.items()}
    ms, size = int(values.get("retention.ms") or -1), int(values.get("retention.bytes") or -1)
    return {"ms": ms, "bytes": size, "text": retention_text(values.get("cleanup.policy") or "", ms, size)}


def document(topic: TopicDescription, keys: Mapping[str, ConfigEntry], kept: Any) -> dict[str, Any]:
    from pyclient.admin.types import ConfigSource

    return {
        "name": topic.name,
        "id": topic.topic_id,
        "internal": topic.is_internal,
        "configs": {key: row.value for key, row in keys.items() if row.source == ConfigSource.DYNAMIC_TOPIC_CONFIG},
        "retention": kept,
        "partitions": [dict(zip((*DESCRIBED[1:-1], *ELIGIBLE), each, strict=True)) for each in topic.partitions],
    }


@topic.command(examples=CREATING)
@click.argument("topics", nargs=-1, required=True, metavar="TOPIC…", shell_complete=TOPIC)
@click.option("-p", "--partitions", type=click.IntRange(1), metavar="N", help="[the broker's num.partitions]")
@click.option("-r", "--replicas", type=click.IntRange(1), default=None, metavar="N", help="[the broker's default]")
@click.option("-c", "--config", "configs", multiple=True, metavar="key=value", help="A key; 7d, 1GiB are numbers.")
@click.option("--if-not-exists", is_flag=True, help="Do not fail if the topic exists.")
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
    keys = settings(configs, "--config")
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
    if dry_run:
        only_checked()
    return failures("topic", without(done.errors, "TOPIC_ALREADY_EXISTS" if if_not_exists else ""))


@topic.command()
@click.argument("topics", nargs=-1, required=True, metavar="TOPIC…", shell_complete=TOPIC)
@click.option("-p", "--partitions", type=click.IntRange(1), metavar="N", help="Raise it to this many partitions.")
@click.option("--set", "changes", multiple=True, metavar="key=value", help="Set a key.")
@click.option("--unset", "defaults", multiple=True, metavar="key", help="Reset a key to its default.")
@click.option("--dry-run", is_flag=True, help="Only check it.")
@on_cluster
@with_output
def alter(
    cluster: Cluster,
    output: str,
    topics: tuple[str, ...],
    partitions: int | None,
    changes: tuple[str, ...],
    defaults: tuple[str, ...],
    dry_run: bool,
) -> int:
    """Adds partitions, sets and unsets keys, and shows what it has changed."""
    from pyclient.admin import AlterConfigOp, AlterOp, ConfigResource, ResourceType

    ops = [AlterConfigOp(key, value) for key, value in settings(changes, "--set").items()]
    ops += [AlterConfigOp(key, None, AlterOp.DELETE) for key in defaults]
    if not ops and partitions is None:
        raise click.UsageError("nothing to alter: --partitions, --set or --unset")
    with cluster.admin() as admin:
        errors: dict[Any, Any] = {}
        rows: list[Change] = []
        if ops:
            resources = {ConfigResource(ResourceType.TOPIC, name): ops for name in topics}
            done = admin.incremental_alter_configs(resources, validate_only=dry_run, check=False)
            errors |= {key.name: error for key, error in done.errors.items()}
            rows += changed((name for name in topics if name not in errors), ops)
        if partitions is not None:
            counts = {name: partitions for name in topics if name not in errors}
            refused = admin.create_partitions(counts, validate_only=dry_run, check=False).errors
            rows += [(name, "partitions", "set", partitions) for name in counts if name not in refused]
            errors |= refused
    show(output, CHANGED, rows)
    if dry_run:
        only_checked()
    return failures("topic", errors)


@topic.command()
@click.argument("topics", nargs=-1, required=True, metavar="TOPIC…", shell_complete=TOPIC)
@click.option("--if-exists", is_flag=True, help="Do not fail if the topic does not exist.")
@at_once
@on_cluster
@with_output
def delete(cluster: Cluster, output: str, topics: tuple[str, ...], if_exists: bool, dry_run: bool) -> int:
    """Deletes topics and their records, and shows which; --dry-run shows how many records each has."""
    with cluster.admin() as admin:
        if dry_run:
            found = admin.describe_topics(topics, check=False)
            show(output, ("topic", "partitions", "records"), [(name, *sizes(admin, name)) for name in found])
            nothing_was_changed()
            errors = found.errors
        else:
            errors = admin.delete_topics(topics, check=False).errors
            show(output, ("topic", "state"), [(name, DELETED) for name in topics if name not in errors])
    return failures("topic", without(errors, "UNKNOWN_TOPIC_OR_PARTITION" if if_exists else ""))


def sizes(admin: Admin, topic: str) -> tuple[int, int]:
    """Returns the topic's number of partitions, and the number of offsets that these span."""
    partitions = partitions_of(admin, [topic])
    first, last = edges(admin, partitions, latest=False), edges(admin, partitions, latest=True)
    return len(partitions), sum(last[tp] - first[tp] for tp in partitions)


@topic.command()
@click.argument("topics", nargs=-1, required=True, metavar="TOPIC…", shell_complete=TOPIC)
@click.option("--before", type=SpotType(), required=True, metavar="PLACE", help="latest, 42, -100, @MS, ISO time.")
@click.option("-p", "--partition", "numbers", type=click.IntRange(0), multiple=True, metavar="N", help="Only this one.")
@at_once
@on_cluster
@with_output
def trim(
    cluster: Cluster, output: str, topics: tuple[str, ...], before: Spot, numbers: tuple[int, ...], dry_run: bool
) -> int:
    """Deletes the records before a place; shows the first offsets that are left.

    --dry-run shows the first offsets that would be left, and how many offsets would be deleted.
    """
    with cluster.admin() as admin:
        partitions = partitions_of(admin, topics, numbers)
        places = offsets_at(admin, partitions, before)
        if dry_run:
            first = edges(admin, partitions, latest=False)
            rows = [(*tp, first[tp], places[tp], places[tp] - first[tp]) for tp in partitions]
            show(output, ("topic", "partition", "from", "to", "records"), rows)
            nothing_was_changed()
            return 0
        done = admin.delete_records(places, check=False)
    show(output, ("topic", "partition", "earliest"), [(*tp, low) for tp, low in sorted(done.items())])
    return failures("partition", done.errors)


@topic.command()
@click.argument("topics", nargs=-1, metavar="[TOPIC]…", shell_complete=TOPIC)
@click.option("--at", type=SpotType(), metavar="PLACE", help="The offsets of a time or another place.")
@with_watch
@on_cluster
@with_output
def offsets(cluster: Cluster, output: str, topics: tuple[str, ...], at: Spot | None, watch: float | None) -> int:
    """Shows the first offset of each partition and its end offset."""
    with cluster.admin() as admin:
        return watched(lambda: show_offsets(admin, output, topics, at), watch, output)


def show_offsets(admin: Admin, output: str, topics: tuple[str, ...], at: Spot | None) -> int:
    """Shows the offsets of topics, or of all; returns the exit code."""
    partitions = partitions_of(admin, topics or tuple(admin.list_topics()))
    if at is not None:
        found = offsets_at(admin, partitions, at)
        show(output, ("topic", "partition", "offset"), [(*tp, found[tp]) for tp in partitions])
        return 0
    first = edges(admin, partitions, latest=False) if partitions else {}
    last = edges(admin, partitions, latest=True) if partitions else {}
    rows = [(*tp, first[tp], last[tp], last[tp] - first[tp]) for tp in partitions]
    show(output, ("topic", "partition", "earliest", "latest", "span"), rows)
    return 0
