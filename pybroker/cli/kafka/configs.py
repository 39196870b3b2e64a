"""``pybroker kafka-configs``: takes the options of kafka-configs.sh and answers as it does."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from pybroker.cli.common.cluster_options import Cluster, properties
from pybroker.cli.common.completing import GROUP, TOPIC
from pybroker.cli.common.output import write
from pybroker.cli.common.verbs import Verb, failures
from pybroker.cli.kafka.common import client_quotas
from pybroker.cli.kafka.common.options import on_kafka, only

if TYPE_CHECKING:
    from pyclient import Admin
    from pyclient.admin import AlterConfigOp, ConfigEntry, ConfigResource

ACTIONS = ("describe", "alter")
TYPES = ("topics", "brokers", "broker-loggers", "client-metrics", "groups", "users", "clients", "ips")
#: An option for each type, which names one thing of it.
SHORT = {
    "topic": "topics",
    "broker": "brokers",
    "broker_logger": "broker-loggers",
    "client_metrics": "client-metrics",
    "group": "groups",
    "user": "users",
    "client": "clients",
    "ip": "ips",
}
DEFAULTS = {"broker_defaults": "brokers", "user_defaults": "users", "client_defaults": "clients", "ip_defaults": "ips"}
OUTSIDE_BRACKETS = r"(?=[^\]]*(?:\[|$))"


class Entity(NamedTuple):
    """The resource to configure. The name is empty for a default, and None for all resources."""

    type: str
    name: str | None

    @property
    def noun(self) -> str:
        return self.type.removesuffix("s")


@click.command("kafka-configs", cls=Verb)
@click.option("--describe", "actions", flag_value="describe", multiple=True, help="List what is set.")
@click.option("--alter", "actions", flag_value="alter", multiple=True, help="Set and unset keys.")
@click.option("--all", "everything", is_flag=True, help="With --describe: also keys with default values.")
@click.option("--entity-type", type=click.Choice(TYPES), multiple=True, metavar="TYPE", help=", ".join(TYPES))
@click.option("--entity-name", "entity_name", multiple=True, metavar="NAME", help="A thing of that type.")
@click.option("--entity-default", "entity_name", flag_value="", multiple=True, help="The default of that type.")
@click.option("--topic", metavar="NAME", help="--entity-type topics --entity-name NAME.", shell_complete=TOPIC)
@click.option("--broker", metavar="ID", help="--entity-type brokers --entity-name ID.")
@click.option("--broker-defaults", is_flag=True, help="--entity-type brokers --entity-default.")
@click.option("--broker-logger", metavar="ID", help="--entity-type broker-loggers --entity-name ID.")
@click.option("--client-metrics", metavar="NAME", help="--entity-type client-metrics --entity-name NAME.")
@click.option("--group", metavar="NAME", help="--entity-type groups --entity-name NAME.", shell_complete=GROUP)
@click.option("--user", metavar="NAME", help="--entity-type users --entity-name NAME.")
@click.option("--user-defaults", is_flag=True, help="--entity-type users --entity-default.")
@click.option("--client", metavar="ID", help="--entity-type clients --entity-name ID; also with --user.")
@click.option("--client-defaults", is_flag=True, help="--entity-type clients --entity-default.")
@click.option("--ip", metavar="ADDRESS", help="--entity-type ips --entity-name ADDRESS.")
@click.option("--ip-defaults", is_flag=True, help="--entity-type ips --entity-default.")
@click.option("--add-config", metavar="k=v,k=[v,v]", help="Keys to set.")
@click.option("--add-config-file", metavar="FILE", help="Keys to set, as a .properties file.")
@click.option("--delete-config", metavar="k,k", help="Keys to reset to their defaults.")
@on_kafka()
def configs(
    cluster: Cluster,
    actions: tuple[str, ...],
    everything: bool,
    entity_type: tuple[str, ...],
    entity_name: tuple[str, ...],
    add_config: str | None,
    add_config_file: str | None,
    delete_config: str | None,
    **short: Any,
) -> int:
    """kafka-configs.sh: --describe or --alter keys of topics, brokers, groups; passwords and quotas of users."""
    action = only(actions, ACTIONS)
    entities = chosen(entity_type, entity_name, short)
    if action == "describe":
        with cluster.admin() as admin:
            if entities[0].type in client_quotas.TYPES:
                return client_quotas.describe(admin, entities)
            return describe(admin, entities[0], everything)
    if any(entity.name is None for entity in entities):
        raise click.UsageError("--alter: --entity-name is missing")
    ops = changes(add_config, add_config_file, delete_config)
    change: Callable[[Admin], int] = partial(alter, entity=entities[0], ops=ops)
    if entities[0].type in client_quotas.TYPES:
        change = client_quotas.alteration(entities, ops)
    with cluster.admin() as admin:
        return change(admin)


def chosen(types: tuple[str, ...], names: tuple[str, ...], short: Mapping[str, Any]) -> list[Entity]:
    """Returns the named entity or type of entities; for a user with a client id, returns both. Raises UsageError."""
    if len(names) > len(types):
        raise click.UsageError("More entity names specified than entity types")
    found = [Entity(kind, names[at] if at < len(names) else None) for at, kind in enumerate(types)]
    found += [Entity(SHORT[option], short[option]) for option in SHORT if short[option] is not None]
    found += [Entity(DEFAULTS[option], "") for option in DEFAULTS if short[option]]
    if found and all(each.type in client_quotas.TYPES for each in found):
        client_quotas.check(found)
        return found
    if len(found) != 1:
        raise click.UsageError("use exactly one of --entity-type TYPE, --topic, --broker, --broker-defaults, --group …")
    (entity,) = found
    if entity.type in ("brokers", "broker-loggers") and entity.name and not entity.name.isdecimal():
        raise click.UsageError(f"the name of a broker must be its number, not {entity.name!r}")
    return found


def changes(added: str | None, file: str | None, deleted: str | None) -> list[AlterConfigOp]:
    """Returns the keys to set and to delete. Raises UsageError."""
    from pyclient.admin import AlterConfigOp, AlterOp

    if added is not None and file is not None:
        raise click.UsageError("use either --add-config or --add-config-file")
    if added is None and file is None and deleted is None:
        raise click.UsageError("--alter: one of --add-config, --add-config-file, --delete-config is missing")
    values = properties(file, (), "") if added is None else parsed(added)
    ops = [AlterConfigOp(key.strip(), None, AlterOp.DELETE) for key in (deleted or "").split(",") if key.strip()]
    return ops + [AlterConfigOp(key, value) for key, value in values.items()]


def parsed(text: str) -> dict[str, str]:
    """Parses ``k1=v1,k2=[v1,v2]``. Raises UsageError."""
    found = {}
    for part in re.split("," + OUTSIDE_BRACKETS, text):
        key, mark, value = part.partition("=")
        if not mark or not key.strip():
            raise click.UsageError(f"--add-config {part}: expected key=value, or key=[value,value]")
        found[key.strip()] = value.replace("[", "").replace("]", "").strip()
    return found


def resource(entity: Entity) -> ConfigResource:
    from pyclient.admin import ConfigResource, ResourceType

    kinds = {"client-metrics": ResourceType.CLIENT_METRICS, "broker-loggers": ResourceType.BROKER_LOGGER}
    kind = kinds.get(entity.type) or ResourceType[entity.noun.upper()]
    return ConfigResource(kind, entity.name or "")


def alter(admin: Admin, entity: Entity, ops: Iterable[AlterConfigOp]) -> int:
    done = admin.incremental_alter_configs({resource(entity): ops}, check=False)
    if done.errors:
        return failures(entity.noun, {key.name or "default": error for key, error in done.errors.items()})
    if entity.name:
        write(f"Completed updating config for {entity.noun} {entity.name}.\n")
    else:
        write(f"Completed updating default config for {entity.type} in the cluster.\n")
    return 0


def describe(admin: Admin, entity: Entity, everything: bool) -> int:
    if entity.name is not None:
        if not everything and entity.name and entity.name not in known(admin, entity.type):
            write(f"The {entity.noun} '{entity.name}' doesn't exist and doesn't have dynamic config.\n")
            return 0
        return show(admin, entity, everything)
    names = known(admin, entity.type) + ([""] if entity.type.startswith("broker") else [])
    return max([show(admin, entity._replace(name=name), everything) for name in names], default=0)


def known(admin: Admin, kind: str) -> list[str]:
    """Returns the existing entities of a type."""
    from pyclient.admin import ResourceType

    if kind == "topics":
        return list(admin.list_topics(list_internal=True))
    if kind.startswith("broker"):
        return [str(each.id) for each in admin.describe_cluster().brokers]
    wanted = ResourceType.GROUP if kind == "groups" else ResourceType.CLIENT_METRICS
    configured = {each.name for each in admin.list_config_resources([wanted]) if each.type == wanted}
    there = {each.group_id for each in admin.list_groups()} if kind == "groups" else set()
    return sorted(configured | there)


def show(admin: Admin, entity: Entity, everything: bool) -> int:
    from pyclient.admin.types import ConfigSource

    where = resource(entity)
    found = admin.describe_configs(where, include_synonyms=True, check=False)
    if found.errors:
        return failures(entity.noun, {key.name: error for key, error in found.errors.items()})
    default = entity.name == "" and entity.type == "brokers"
    dynamic = {
        "topics": ConfigSource.DYNAMIC_TOPIC_CONFIG,
        "brokers": ConfigSource.DYNAMIC_DEFAULT_BROKER_CONFIG if default else ConfigSource.DYNAMIC_BROKER_CONFIG,
        "client-metrics": ConfigSource.DYNAMIC_CLIENT_METRICS_CONFIG,
        "groups": ConfigSource.DYNAMIC_GROUP_CONFIG,
    }.get(entity.type)
    head = f"{'All' if everything else 'Dynamic'} configs for {entity.noun} {entity.name} are:"
    write((head if entity.name else f"Default configs for {entity.type} in the cluster are:") + "\n")
    shown = [each for _, each in sorted(found[where].items()) if everything or dynamic in (None, each.source)]
    write("".join(map(row, shown)))
    return 0


def row(entry: ConfigEntry) -> str:
    synonyms = ", ".join(f"{source(each.source)}:{each.name}={java(each.value)}" for each in entry.synonyms)
    sensitive = str(entry.is_sensitive).lower()
    return f"  {entry.name}={java(entry.value)} sensitive={sensitive} synonyms={{{synonyms}}}\n"


def java(value: str | None) -> str:
    return "null" if value is None else value


def source(number: int) -> str:
    """Returns Kafka's name of a value's source."""
    from pyclient.admin.types import ConfigSource

    try:
        name = ConfigSource(number).name
    except ValueError:
        return str(number)
    return name
