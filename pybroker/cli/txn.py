"""``pybroker txn``: list, describe, abort transactions."""

from __future__ import annotations

import click

from pybroker.cli.cluster_options import Cluster, on_cluster
from pybroker.cli.completing import TRANSACTIONAL_ID
from pybroker.cli.output import show, with_output
from pybroker.cli.verbs import Suggesting, failures

DESCRIBED = ("id", "state", "producer_id", "epoch", "timeout_ms", "start_ms", "coordinator", "partitions")


@click.group(cls=Suggesting)
def txn() -> None:
    """Transactional ids and what they have open."""


@txn.command("list")
@click.option("--state", "states", multiple=True, help="Only those: Ongoing, CompleteCommit, …")
@click.option("--longer-than-ms", type=click.IntRange(0), default=None, metavar="N", help="Only those open for longer.")
@on_cluster
@with_output
def list_ids(cluster: Cluster, output: str, states: tuple[str, ...], longer_than_ms: int | None) -> None:
    """Lists transactional ids."""
    longer = -1 if longer_than_ms is None else longer_than_ms
    with cluster.admin() as admin:
        found = admin.list_transactions(states=states, longer_than_ms=longer)
    show(output, ("id", "producer_id", "state"), found, none="no transactions")


@txn.command()
@click.argument("ids", nargs=-1, required=True, metavar="ID…", shell_complete=TRANSACTIONAL_ID)
@on_cluster
@with_output
def describe(cluster: Cluster, output: str, ids: tuple[str, ...]) -> int:
    """Shows transactional ids and the partitions of what is open."""
    with cluster.admin() as admin:
        found = admin.describe_transactions(ids, check=False)
    rows = [
        (
            name,
            each.state,
            each.producer_id,
            each.producer_epoch,
            each.timeout_ms,
            each.start_time_ms if each.start_time_ms >= 0 else None,
            each.coordinator,
            [str(tp) for tp in each.partitions],
        )
        for name, each in found.items()
    ]
    show(output, DESCRIBED, rows)
    return failures("transactional id", found.errors)


@txn.command()
@click.argument("ids", nargs=-1, required=True, metavar="ID…", shell_complete=TRANSACTIONAL_ID)
@on_cluster
@with_output
def abort(cluster: Cluster, output: str, ids: tuple[str, ...]) -> int:
    """Aborts what transactional ids have open. Their producers are fenced: they can do nothing more."""
    with cluster.admin() as admin:
        known = admin.describe_transactions(ids, check=False)  # fencing would make one that is not there
        done = admin.fence_producers(list(known), check=False) if known else known
    errors = known.errors | done.errors
    show(output, ("id", "producer_id", "epoch"), [(name, *each[:2]) for name, each in done.items()])
    return failures("transactional id", errors)
