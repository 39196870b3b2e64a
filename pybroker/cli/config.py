"""``pybroker config``: get, set, unset keys of topics, brokers and groups."""

from __future__ import annotations

import re
from collections.abc import Collection
from typing import TYPE_CHECKING, Any

import click

from pybroker.cli.common.changes import CHANGED, changed, only_checked
from pybroker.cli.common.cluster_options import Cluster, on_cluster
from pybroker.cli.common.completing import NAME
from pybroker.cli.common.output import show, with_output
from pybroker.cli.common.verbs import Suggesting, complain, failures, with_unit

if TYPE_CHECKING:
    from pyclient.admin import AlterConfigOp, ConfigResource
    from pyclient.admin.types import ConfigEntry

KINDS = ("topic", "broker", "broker-logger", "group", "client-metrics")
SETTING = """
pybroker config set topic flights retention.ms=1000 cleanup.policy+=compact
pybroker config set broker default log.cleaner.threads=2
pybroker config set group readers consumer.session.timeout.ms=45000
"""
COLUMNS = ("key", "value", "source", "read_only")
CHANGE = re.compile(r"([^=+\-][^=]*?)([+-]?)=(.*)", re.DOTALL)


@click.group(cls=Suggesting)
def config() -> None:
    """Keys of topics, brokers (a number, or `default` for all) and groups."""


def resource(kind: str, name: str) -> ConfigResource:
    from pyclient.admin import ConfigResource, ResourceType

    where = ResourceType[kind.replace("-", "_").upper()]
    if kind == "broker" and not name.isdecimal() and name != "default":
        raise click.UsageError(f"broker {name}: expected a number, or `default` for all brokers")
    return ConfigResource(where, "" if kind == "broker" and name == "default" else name)


@config.command()
@click.argument("kind", type=click.Choice(KINDS))
@click.argument("name", shell_complete=NAME)
@click.argument("keys", nargs=-1, metavar="[KEY]…")
@click.option("--all", "everything", is_flag=True, help="Also keys with default values.")
@on_cluster
@with_output
def get(cluster: Cluster, output: str, kind: str, name: str, keys: tuple[str, ...], everything: bool) -> int:
    """Shows keys: these, or those that were set."""
    with cluster.admin() as admin:
        where = resource(kind, name)
        found = admin.describe_configs(where, keys=keys or None)[where]
    rows = [row(each) for key, each in sorted(found.items()) if keys or everything or not each.is_default]
    show(output, COLUMNS, rows, none="" if keys else "no key is set: --all shows the defaults")
    missing = [key for key in keys if key not in found]
    for key in missing:
        complain(f"{kind} {name}: no key {key}: `pybroker config get {kind} {name} --all` lists them")
    return 1 if missing else 0


def row(entry: ConfigEntry) -> tuple[Any, ...]:
    from pyclient.admin.types import ConfigSource

    try:
        source = ConfigSource(entry.source).name.lower()
    except ValueError:
        source = str(entry.source)
    return entry.name, entry.value, source, entry.is_read_only


@config.command("set", examples=SETTING)
@click.argument("kind", type=click.Choice(KINDS))
@click.argument("name", shell_complete=NAME)
@click.argument("changes", nargs=-1, required=True, metavar="KEY=VALUE…")
@click.option("--dry-run", is_flag=True, help="Only check it.")
@on_cluster
@with_output
def set_keys(cluster: Cluster, output: str, kind: str, name: str, changes: tuple[str, ...], dry_run: bool) -> int:
    """Sets keys, and shows what it has set; KEY+=VALUE adds to a list, KEY-=VALUE takes from it.

    Times and sizes may have a unit: retention.ms=7d, segment.bytes=1GiB.
    """
    return apply(cluster, output, kind, name, [change(each) for each in changes], dry_run)


def change(text: str) -> AlterConfigOp:
    from pyclient.admin import AlterConfigOp, AlterOp

    found = CHANGE.fullmatch(text)
    if found is None:
        raise click.UsageError(f"{text}: expected KEY=VALUE")
    key, sign, value = found.groups()
    how = {"": AlterOp.SET, "+": AlterOp.APPEND, "-": AlterOp.SUBTRACT}[sign]
    return AlterConfigOp(key, with_unit(key, value), how)


@config.command()
@click.argument("kind", type=click.Choice(KINDS))
@click.argument("name", shell_complete=NAME)
@click.argument("keys", nargs=-1, required=True, metavar="KEY…")
@click.option("--dry-run", is_flag=True, help="Only check it.")
@on_cluster
@with_output
def unset(cluster: Cluster, output: str, kind: str, name: str, keys: tuple[str, ...], dry_run: bool) -> int:
    """Resets keys to their defaults, and shows which."""
    from pyclient.admin import AlterConfigOp, AlterOp

    return apply(cluster, output, kind, name, [AlterConfigOp(key, None, AlterOp.DELETE) for key in keys], dry_run)


def apply(
    cluster: Cluster, output: str, kind: str, name: str, ops: Collection[AlterConfigOp], dry_run: bool
) -> int:
    where = resource(kind, name)
    with cluster.admin() as admin:
        done = admin.incremental_alter_configs({where: ops}, validate_only=dry_run, check=False)
    if not done.errors:
        show(output, CHANGED, changed([name], ops))
    if dry_run:
        only_checked()
    return failures(kind, {each.name or "default": error for each, error in done.errors.items()})
