"""``pybroker api-versions``: what a broker serves."""

from __future__ import annotations

import click

from pybroker.cli.common.cluster_options import Cluster, on_cluster
from pybroker.cli.common.output import show, with_output
from pybroker.cli.common.verbs import Verb

COLUMNS = ("api", "key", "min", "max", "usable")


@click.command("api-versions", cls=Verb)
@click.option("--broker", type=click.IntRange(0), metavar="ID", help="The broker to ask [any].")
@on_cluster
@with_output
def api_versions(cluster: Cluster, output: str, broker: int | None) -> None:
    """Shows the APIs and versions that a broker serves, and the version this client would use."""
    with cluster.admin() as admin:
        found = admin.api_versions(broker)
    rows = [
        (name, each.key, each.min_version, each.max_version, each.usable)
        for name, each in sorted(found.items(), key=lambda item: item[1].key)
    ]
    show(output, COLUMNS, rows)
