"""``pybroker partition``: under-replicated, elect, reassign, reassignments."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

import click

from pybroker.cli.common.cluster_options import Cluster, on_cluster
from pybroker.cli.common.completing import TOPIC
from pybroker.cli.common.output import show, with_output
from pybroker.cli.common.places import chosen
from pybroker.cli.common.plans import nothing_was_changed, planned
from pybroker.cli.common.replica_plan import plan
from pybroker.cli.common.verbs import Suggesting, complain, failures, without
from pyclient import TopicPartition

if TYPE_CHECKING:
    from pyclient import Admin
    from pyclient.admin.types import PartitionDescription

REASSIGNING = """
pybroker partition reassign flights --brokers 2,3,4          shows the plan
pybroker partition reassign flights:0 --replicas 3 --execute
pybroker partition reassign --all --replicas 3 --execute     one broker has become three
pybroker partition reassign flights --cancel --execute
"""
TROUBLED = ("topic", "partition", "leader", "replicas", "isr", "missing")
SOME = "TOPIC[:0,1]"


@click.group(cls=Suggesting)
def partition() -> None:
    """Replicas and leaders of partitions."""


@partition.command("under-replicated")
@click.argument("topics", nargs=-1, metavar="[TOPIC]…", shell_complete=TOPIC)
@click.option("--offline", is_flag=True, help="Only those without a leader.")
@on_cluster
@with_output
def under_replicated(cluster: Cluster, output: str, topics: tuple[str, ...], offline: bool) -> int:
    """Shows partitions that have no leader or a replica that is not in sync; exit code 1 if there are any."""
    with cluster.admin() as admin:
        found = described(admin, topics)
    rows = [
        (name, each.partition, each.leader, each.replicas, each.isr, sorted({*each.replicas} - {*each.isr}))
        for name, each in found
        if each.leader < 0 or (not offline and len(each.isr) < len(each.replicas))
    ]
    show(output, TROUBLED, rows, none="no partition is in trouble")
    return 1 if rows else 0


def described(admin: Admin, topics: Iterable[str]) -> list[tuple[str, PartitionDescription]]:
    """Returns each partition of ``topics`` with its topic; without ``topics``, the partitions of all topics."""
    names = list(topics) or list(admin.list_topics(list_internal=True))
    found = admin.describe_topics(names)
    return [(name, each) for name, topic in found.items() for each in topic.partitions]


@partition.command()
@click.argument("partitions", nargs=-1, metavar=f"[{SOME}]…", shell_complete=TOPIC)
@click.option("--all", "everything", is_flag=True, help="All that need it.")
@click.option("--unclean", is_flag=True, help="Any live replica: RECORDS THAT IT LACKS ARE LOST.")
@click.option("--dry-run", is_flag=True, help="Only show it; with --unclean this is the default.")
@click.option("--execute", is_flag=True, help="Do it; --unclean needs it.")
@on_cluster
@with_output
def elect(
    cluster: Cluster,
    output: str,
    partitions: tuple[str, ...],
    everything: bool,
    unclean: bool,
    dry_run: bool,
    execute: bool,
) -> int:
    """Makes the first replica of partitions their leader again; shows those that got another leader."""
    from pyclient.admin import Election

    if bool(partitions) == everything:
        raise click.UsageError(f"name the partitions: either {SOME} or --all")
    if dry_run and execute:
        raise click.UsageError("--dry-run and --execute exclude each other")
    with cluster.admin() as admin:
        wanted = [tp for each in partitions for tp in chosen(admin, each)]
        if dry_run or (unclean and not execute):
            meant = wanted or list(needing_election(admin, unclean))
            show(output, ("topic", "partition"), meant, none="no partition needs it")
            nothing_was_changed("records may be lost" if unclean else "")
            return 0
        kind = Election.UNCLEAN if unclean else Election.PREFERRED
        done = admin.elect_leaders(kind, None if everything else wanted, check=False)
    show(output, ("topic", "partition"), sorted(done))
    return failures("partition", without(done.errors, "ELECTION_NOT_NEEDED"))


def needing_election(admin: Admin, unclean: bool) -> Iterator[TopicPartition]:
    """Yields the partitions without a leader (``unclean``), or those that another replica than the first leads."""
    for name, each in described(admin, ()):
        if each.leader < 0 if unclean else each.leader != each.replicas[0]:
            yield TopicPartition(name, each.partition)


@partition.command(examples=REASSIGNING)
@click.argument("partitions", nargs=-1, metavar=f"[{SOME}]…", shell_complete=TOPIC)
@click.option("--all", "everything", is_flag=True, help="Every topic, also internal ones; --replicas only adds.")
@click.option("--brokers", metavar="1,2,3", help="Spread replicas over these [all].")
@click.option("--replicas", type=click.IntRange(1), metavar="N", help="Replicas per partition [as now].")
@click.option("--cancel", is_flag=True, help="Stop the current reassignments of these partitions.")
@planned()
@on_cluster
@with_output
def reassign(
    cluster: Cluster,
    output: str,
    partitions: tuple[str, ...],
    everything: bool,
    brokers: str | None,
    replicas: int | None,
    cancel: bool,
    execute: bool,
) -> int:
    """Gives partitions to other brokers, moving as few replicas as it can; shows the plan until --execute."""
    if cancel and (brokers or replicas):
        raise click.UsageError("--cancel cannot be used with --brokers or --replicas")
    if bool(partitions) == everything:
        raise click.UsageError(f"name the partitions: either {SOME} or --all")
    with cluster.admin() as admin:
        now = replicas_of(admin, partitions, below=replicas if everything else None)
        there = [each.id for each in admin.describe_cluster().brokers]
        then: dict[Any, Any] = dict.fromkeys(now) if cancel else plan(now, numbers(brokers, there), replicas)
        changes = {tp: each for tp, each in then.items() if each != now[tp]}
        errors = admin.alter_partition_reassignments(changes, check=False).errors if execute and changes else {}
    show(output, ("topic", "partition", "from", "to"), [(*tp, now[tp], changes[tp]) for tp in sorted(changes)])
    if not changes:
        complain("nothing to move: every partition is where it should be")
    elif not execute:
        nothing_was_changed()
    return failures("partition", errors)


def replicas_of(admin: Admin, partitions: Iterable[str], below: int | None) -> dict[TopicPartition, tuple[int, ...]]:
    """Returns the replicas of these partitions, by default of all. With ``below``, returns only partitions with fewer
    replicas. Raises UsageError.
    """
    wanted = {tp for each in partitions for tp in chosen(admin, each)}
    found = {
        TopicPartition(name, each.partition): each.replicas
        for name, each in described(admin, sorted({tp.topic for tp in wanted}))
    }
    return {
        tp: replicas
        for tp, replicas in found.items()
        if (not wanted or tp in wanted) and (below is None or len(replicas) < below)
    }


def numbers(text: str | None, there: list[int]) -> list[int]:
    """Returns the named brokers, or all. Raises UsageError."""
    if text is None:
        return there
    words = [word.strip() for word in text.split(",")]
    strange = [word for word in words if not word.isdecimal() or int(word) not in there]
    if strange:
        raise click.UsageError(f"--brokers: there is no broker {strange[0]}: there are {', '.join(map(str, there))}")
    return list(dict.fromkeys(map(int, words)))


@partition.command()
@on_cluster
@with_output
def reassignments(cluster: Cluster, output: str) -> None:
    """Shows the reassignments in progress."""
    with cluster.admin() as admin:
        found = admin.list_partition_reassignments()
    rows = [(*tp, each.replicas, each.adding, each.removing) for tp, each in sorted(found.items())]
    show(output, ("topic", "partition", "replicas", "adding", "removing"), rows, none="no partition is moving")
