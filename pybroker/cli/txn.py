"""``pybroker txn``: list, describe, abort transactions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import click

from pybroker.cli.common.cluster_options import Cluster, on_cluster
from pybroker.cli.common.completing import TRANSACTIONAL_ID
from pybroker.cli.common.output import show, with_output
from pybroker.cli.common.plans import at_once, nothing_was_changed
from pybroker.cli.common.verbs import Suggesting, failures

if TYPE_CHECKING:
    from pyclient.admin.types import TransactionDescription

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
    show(output, DESCRIBED, described(found))
    return failures("transactional id", found.errors)


def described(found: Mapping[str, TransactionDescription]) -> list[tuple[Any, ...]]:
    return [
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


@txn.command()
@click.argument("ids", nargs=-1, required=True, metavar="ID…", shell_complete=TRANSACTIONAL_ID)
@at_once
@on_cluster
@with_output
def abort(cluster: Cluster, output: str, ids: tuple[str, ...], dry_run: bool) -> int:
    """Aborts the open transactions of transactional ids, and fences their producers.

    --dry-run shows the open transactions.
    """
    with cluster.admin() as admin:
        known = admin.describe_transactions(ids, check=False)  # fencing would make one that is not there
        if dry_run:
            show(output, DESCRIBED, described(known))
            nothing_was_changed()
            return failures("transactional id", known.errors)
        done = admin.fence_producers(list(known), check=False) if known else known
    errors = known.errors | done.errors
    show(output, ("id", "producer_id", "epoch"), [(name, *each[:2]) for name, each in done.items()])
    return failures("transactional id", errors)
