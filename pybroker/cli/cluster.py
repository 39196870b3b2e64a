"""``pybroker cluster``: the brokers."""

from __future__ import annotations

import click

from pybroker.cli.cluster_options import Cluster, on_cluster
from pybroker.cli.output import show, with_output
from pybroker.cli.verbs import Suggesting

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


@cluster.command()
@on_cluster
@click.option("--data-dir", metavar="DIR", help="The folder of the brokers [the user's data folder].")
@click.option("--timeout", type=click.FloatRange(0), default=300.0, help="Seconds for each broker [300].")
def restart(cluster: Cluster, data_dir: str | None, timeout: float) -> None:
    """Restarts the brokers of a data folder one by one, each when all replicas are in sync."""
    from pybroker.cli.rolling_restart import RollingRestart
    from pybroker.data_folder import plan

    root = plan(data_dir, 1, ()).root
    RollingRestart(root, cluster, timeout, lambda line: click.echo(line, err=True)).run()
