"""``pybroker kafka-broker-api-versions``: takes the options of kafka-broker-api-versions.sh."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from pybroker.cli.common.cluster_options import Cluster
from pybroker.cli.common.output import write
from pybroker.cli.common.verbs import Verb
from pybroker.cli.kafka.common.options import on_kafka

if TYPE_CHECKING:
    from pyclient.admin.types import BrokerDescription, VersionRange


@click.command("kafka-broker-api-versions", cls=Verb)
@on_kafka()
def broker_api_versions(cluster: Cluster) -> None:
    """kafka-broker-api-versions.sh: shows the APIs and versions of each broker."""
    with cluster.admin() as admin:
        for broker in admin.describe_cluster().brokers:
            found = admin.api_versions(broker.id)
            rows = [line(name, each) for name, each in sorted(found.items(), key=lambda item: item[1].key)]
            write(f"{address(broker)} -> (\n\t" + ",\n\t".join(rows) + "\n)\n")


def address(broker: BrokerDescription) -> str:
    rack = "null" if broker.rack is None else broker.rack
    return f"{broker.host}:{broker.port} (id: {broker.id} rack: {rack} isFenced: {str(broker.is_fenced).lower()})"


def line(name: str, each: VersionRange) -> str:
    low, high = each.min_version, each.max_version
    versions = str(low) if low == high else f"{low} to {high}"
    usable = "[unusable: node too new]" if each.usable is None else f"[usable: {each.usable}]"
    return f"{name}({each.key}): {versions} {usable}"
