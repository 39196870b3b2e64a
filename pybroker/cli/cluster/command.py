"""``pybroker cluster``: describe, health, restart."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import TYPE_CHECKING, NamedTuple

import click

from cy.counted import counted
from pybroker.cli.common.cluster_options import Cluster, on_cluster
from pybroker.cli.common.output import show, with_output
from pybroker.cli.common.verbs import Suggesting
from pybroker.cli.partition import described

if TYPE_CHECKING:
    from pyclient import Admin
    from pyclient.admin import ResourceType, Results
    from pyclient.admin.types import ConfigEntry, LogDirDescription, PartitionDescription

MIN_ISR = "min.insync.replicas"
DEFAULT_FACTOR = "default.replication.factor"
ANSWER_S = 5.0
STRAY = "-stray"
"""The suffix of the file that describes a stray, after the name of its folder."""
COLUMNS = ("id", "host", "port", "rack", "controller", "cluster")


@click.group(cls=Suggesting)
def cluster() -> None:
    """The cluster as a whole."""


@cluster.command()
@on_cluster
@with_output
def describe(cluster: Cluster, output: str) -> None:
    """Shows the brokers, which of them is the controller, and the cluster's id."""
    with cluster.admin() as admin:
        found = admin.describe_cluster()
    rows = [
        (each.id, each.host, each.port, each.rack, each.id == found.controller_id, found.cluster_id)
        for each in found.brokers
    ]
    document = {
        "cluster_id": found.cluster_id,
        "controller_id": found.controller_id,
        "brokers": [dict(zip(COLUMNS[:4], row[:4], strict=True)) for row in rows],
    }
    show(output, COLUMNS, rows, documents=[document])


class Trouble(NamedTuple):
    """A fault of the cluster."""

    severity: str
    what: str
    where: str


@cluster.command()
@on_cluster
@with_output
def health(cluster: Cluster, output: str) -> int:
    """Shows what is wrong with the cluster. If nothing is, it shows no row and exits with 0.

    error: records cannot be read or written; warning: they can, but one more failure may prevent it.
    """
    with cluster.admin() as admin:
        found = list(troubles(admin))
    show(output, Trouble._fields, found, documents=[each._asdict() for each in found], none="all is well")
    return 1 if any(each.severity == "error" for each in found) else 0


def troubles(admin: Admin) -> Iterator[Trouble]:
    """Yields all troubles of the cluster."""
    yield from controller_troubles(admin)
    yield from partition_troubles(admin)
    yield from replica_troubles(admin)
    yield from log_dir_troubles(admin)


def controller_troubles(admin: Admin) -> Iterator[Trouble]:
    found = admin.describe_cluster()
    if found.controller_id < 0:
        yield Trouble("error", "no controller", f"cluster {found.cluster_id}")


def partition_troubles(admin: Admin) -> Iterator[Trouble]:
    """Yields missing brokers, then partitions with faults. Partitions of a topic with the same fault share a row."""
    found = described(admin, ())
    there = {each.id for each in admin.describe_cluster().brokers}
    used = {replica for _, each in found for replica in each.replicas}
    for broker in sorted((used | registered(admin)) - there):
        what = "is not there" if broker in used else "is not there, and has no partitions"
        yield Trouble("warning", what, f"broker {broker}")
    required = min_isr_of(admin, [(topic, each) for topic, each in found if len(each.isr) < len(each.replicas)])
    rows: dict[tuple[str, str, str], list[int]] = {}
    for topic, each in sorted(found, key=lambda row: (row[0].startswith("__"), row[0], row[1].partition)):
        trouble = trouble_of(each, required.get((topic, each.leader), 1), there)
        if trouble is not None:
            rows.setdefault((*trouble, topic), []).append(each.partition)
    for (severity, what, topic), partitions in rows.items():
        more = f" and {counted(len(partitions) - 1, 'more partition')}" if len(partitions) > 1 else ""
        yield Trouble(severity, what, f"{topic}-{partitions[0]}{more}")


def registered(admin: Admin) -> set[int]:
    """Returns the ids of brokers that have ever been in the cluster, as far as the cluster reports them."""
    from pyclient.errors import UnsupportedByBroker

    try:
        return {each.id for each in admin.describe_cluster(include_fenced=True).brokers}
    except UnsupportedByBroker:
        return set()


def trouble_of(partition: PartitionDescription, min_isr: int, there: Collection[int]) -> tuple[str, str] | None:
    """Returns the severity and the description of a partition's fault, None if it has none. ``there`` are the live
    brokers.
    """
    isr, replicas, leader = partition.isr, partition.replicas, partition.leader
    missing = ", ".join(map(str, sorted({*replicas} - {*isr})))
    if leader < 0:
        return "error", f"no leader; last in sync: {', '.join(map(str, isr)) or 'none'}"
    if leader not in there:
        return "error", f"no leader: broker {leader}, which is not there, leads until the controller elects another"
    if gone := [str(each) for each in isr if each not in there]:
        return "error", f"acks=all waits for in-sync replicas on absent brokers: {', '.join(gone)}"
    if missing and len(isr) < min_isr:
        refused = f"acks=all is refused: {len(isr)} in sync, min.insync.replicas is {min_isr}"
        return "error", f"{refused}; not in sync: {missing}"
    if missing:
        return "warning", f"not in sync: {missing}"
    if replicas and leader != replicas[0]:
        return "warning", f"broker {leader} leads instead of {replicas[0]}"
    return None


def replica_troubles(admin: Admin) -> Iterator[Trouble]:
    """Yields partitions that have fewer replicas than new topics get, or a single replica in a cluster of several
    brokers: one row for each number of replicas. A cluster that began as one broker has such partitions, because topics
    keep their replication factor.
    """
    brokers = [each.id for each in admin.describe_cluster().brokers]
    if len(brokers) < 2:
        return
    wanted = min(len(brokers), max(2, default_factor(admin, brokers[0])))
    rows: dict[int, list[tuple[str, int]]] = {}
    for topic, each in sorted(described(admin, ()), key=lambda row: (row[0].startswith("__"), row[0])):
        if len(each.replicas) < wanted:
            rows.setdefault(len(each.replicas), []).append((topic, each.partition))
    remedy = f"`pybroker partition reassign --all --replicas {wanted}` plans more"
    for count, found in sorted(rows.items()):
        has = "1 replica: it ends with its broker" if count == 1 else f"{count} replicas of {wanted}"
        topics = len({topic for topic, _ in found})
        more = f" and {len(found) - 1} more, of {counted(topics, 'topic')}" if len(found) > 1 else ""
        yield Trouble("warning", f"{has}; {remedy}", f"{found[0][0]}-{found[0][1]}{more}")


def default_factor(admin: Admin, broker: int) -> int:
    """Returns default.replication.factor of this broker; 1 if it does not report it."""
    from pyclient.admin import ConfigResource, ResourceType

    asked = ConfigResource(ResourceType.BROKER, str(broker))
    found = admin.describe_configs([asked], keys=[DEFAULT_FACTOR], check=False).get(asked, {})
    entry = found.get(DEFAULT_FACTOR)
    return 1 if entry is None else int(entry.value or 1)


def min_isr_of(admin: Admin, partitions: Collection[tuple[str, PartitionDescription]]) -> dict[tuple[str, int], int]:
    """Returns min.insync.replicas by topic and leader: the topic's own value, else the leader's. Other brokers may have
    another value.
    """
    from pyclient.admin import ResourceType
    from pyclient.admin.types import ConfigSource

    of_topics = _min_isr(admin, ResourceType.TOPIC, {topic for topic, _ in partitions})
    own = {topic for topic, entry in of_topics.items() if entry.source is ConfigSource.DYNAMIC_TOPIC_CONFIG}
    leaders = {str(each.leader) for topic, each in partitions if topic not in own and each.leader >= 0}
    of_brokers = _min_isr(admin, ResourceType.BROKER, leaders)
    decisive = {
        (topic, each.leader): (None if topic in own else of_brokers.get(str(each.leader))) or of_topics.get(topic)
        for topic, each in partitions
    }
    return {key: int(entry.value or 1) for key, entry in decisive.items() if entry is not None}


def _min_isr(admin: Admin, kind: ResourceType, names: Collection[str]) -> dict[str, ConfigEntry]:
    """Returns min.insync.replicas of each resource that still exists."""
    from pyclient.admin import ConfigResource

    if not names:
        return {}
    found = admin.describe_configs([ConfigResource(kind, name) for name in sorted(names)], keys=[MIN_ISR], check=False)
    return {resource.name: entries[MIN_ISR] for resource, entries in found.items()}


def log_dir_troubles(admin: Admin) -> Iterator[Trouble]:
    from pyclient.errors import KafkaError

    for broker in admin.describe_cluster().brokers:
        try:
            found = admin.describe_log_dirs([broker.id], timeout=ANSWER_S)
        except KafkaError as error:
            if error.grant:
                raise
            what = "does not answer" if error.retriable else "does not tell its log dirs"
            yield Trouble("error", f"{what}: {error.name}", f"broker {broker.id}")
        else:
            yield from _troubles_of(found)


def _troubles_of(found: Mapping[int, Results[str, LogDirDescription]]) -> Iterator[Trouble]:
    for broker, dirs in found.items():
        for path, error in dirs.errors.items():
            yield Trouble("error", f"log dir is offline: {error.name}", f"broker {broker}: {path}")
        for each in dirs.values():
            strays = sorted(topic for topic, _ in each.replicas if topic.endswith(STRAY))
            if strays:
                more = f" and {len(strays) - 1} more" if len(strays) > 1 else ""
                what = "belongs to no topic: pybroker log strays"
                yield Trouble("warning", what, f"broker {broker}: {each.path}/{strays[0]}{more}")
            if 0 <= each.usable_bytes * 20 < each.total_bytes:
                yield Trouble("warning", f"{each.usable_bytes >> 20} MiB are free", f"broker {broker}: {each.path}")


@cluster.command()
@on_cluster
@click.option("--data-dir", metavar="DIR", help="The folder of the brokers [the user's data folder].")
@click.option("--timeout", type=click.FloatRange(0), default=300.0, help="Seconds for each broker [300].")
def restart(cluster: Cluster, data_dir: str | None, timeout: float) -> None:
    """Restarts the brokers of a data folder one by one, each when all replicas are in sync."""
    from pybroker.cli.cluster.rolling_restart import RollingRestart
    from pybroker.data_folder import plan

    root = plan(data_dir, 1, ()).root
    RollingRestart(root, cluster, timeout, lambda line: click.echo(line, err=True)).run()
