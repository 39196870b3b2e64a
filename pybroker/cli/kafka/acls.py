"""``pybroker kafka-acls``: takes the options of kafka-acls.sh and answers as it does."""

from __future__ import annotations

import itertools
import sys
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, Final

import click

from pybroker.cli.common import acl_options
from pybroker.cli.common.acl_options import ALL, CONSUMER, IDEMPOTENT, OPERATIONS, PRODUCER, OperationType, Resource
from pybroker.cli.common.cluster_options import Cluster
from pybroker.cli.common.completing import GROUP, TOPIC, TRANSACTIONAL_ID
from pybroker.cli.common.output import write
from pybroker.cli.common.verbs import Verb
from pybroker.cli.kafka.common.options import on_kafka, only

if TYPE_CHECKING:
    from pyclient import Admin
    from pyclient.admin import (
        AccessControlEntry,
        AclBinding,
        AclBindingFilter,
        ResourcePattern,
        ResourcePatternFilter,
    )

    Entries = dict[ResourcePatternFilter, list[AccessControlEntry]]

ACTIONS: Final = ("add", "remove", "list")
PATTERNS: Final = ("any", "match", "literal", "prefixed")
ANY_HOST: Final = "*"
NO_RESOURCE: Final = (
    "You must provide at least one resource: --topic <topic> or --cluster or --group <group> or "
    "--delegation-token <Delegation Token ID>"
)
NO_GROUP: Final = (
    "With --consumer you must specify a --topic and a --group and no --cluster or --transactional-id option should be "
    "specified."
)


@click.command("kafka-acls", cls=Verb)
@click.option("--add", "actions", flag_value="add", multiple=True, help="Create ACLs.")
@click.option("--remove", "actions", flag_value="remove", multiple=True, help="Delete ACLs.")
@click.option("--list", "actions", flag_value="list", multiple=True, help="List ACLs, of a resource or all.")
@click.option("--topic", multiple=True, metavar="NAME", help="A topic; * is all.", shell_complete=TOPIC)
@click.option("--group", multiple=True, metavar="NAME", help="A group; * is all.", shell_complete=GROUP)
@click.option("--cluster", "is_cluster", is_flag=True, help="The cluster itself.")
@click.option(
    "--transactional-id", multiple=True, metavar="ID", help="A transactional id.", shell_complete=TRANSACTIONAL_ID
)
@click.option("--delegation-token", multiple=True, metavar="ID", help="A delegation token.")
@click.option("--user-principal", multiple=True, metavar="PRINCIPAL", help="A user, of whom tokens are created.")
@click.option("--resource-pattern-type", type=click.Choice(PATTERNS, case_sensitive=False), default="literal")
@click.option("--allow-principal", multiple=True, metavar="PRINCIPAL", help="User:alice, who may.")
@click.option("--deny-principal", multiple=True, metavar="PRINCIPAL", help="User:alice, who may not.")
@click.option("--allow-host", multiple=True, metavar="ADDRESS", help="Where --allow-principal comes from [*].")
@click.option("--deny-host", multiple=True, metavar="ADDRESS", help="Where --deny-principal comes from [*].")
@click.option("--operation", multiple=True, type=OperationType(), help="Read, Write, Describe … [All].")
@click.option("--producer", is_flag=True, help="The rights of a producer to --topic and --transactional-id.")
@click.option("--consumer", is_flag=True, help="The rights of a consumer to --topic and --group.")
@click.option("--idempotent", is_flag=True, help="With --producer: IdempotentWrite on the cluster, too.")
@click.option("--principal", multiple=True, metavar="PRINCIPAL", help="With --list: ACLs of these only.")
@click.option("--force", is_flag=True, help="With --remove: do not ask.")
@on_kafka()
def acls(cluster: Cluster, actions: tuple[str, ...], principal: tuple[str, ...], force: bool, **given: Any) -> int:
    """kafka-acls.sh: lists, adds and removes ACLs."""
    action = only(actions, ACTIONS)
    check(action, principal, given)
    resources = named(given)
    if action == "list":
        with cluster.admin() as admin:
            return listed(admin, resources, principals(principal, "--principal"))
    if action == "add" and given["resource_pattern_type"].lower() not in ("literal", "prefixed"):
        pattern = given["resource_pattern_type"].upper()
        raise click.UsageError(f"A '--resource-pattern-type' value of '{pattern}' is not valid when adding acls.")
    if not resources:
        raise click.UsageError(NO_RESOURCE)
    entries = wanted(resources, given)
    with cluster.admin() as admin:
        if action == "add":
            add(admin, entries)
        else:
            remove(admin, entries, force)
    return 0


def check(action: str, principal: tuple[str, ...], given: Mapping[str, Any]) -> None:
    """Raises UsageError for options that do not go together."""
    if principal and action != "list":
        raise click.UsageError("The --principal option is only available if --list is set")
    if given["idempotent"] and not given["producer"]:
        raise click.UsageError("The --idempotent option is only available if --producer is set")
    if given["producer"] and not given["topic"]:
        raise click.UsageError("With --producer you must specify a --topic")
    if given["consumer"]:
        others = not given["producer"] and (given["is_cluster"] or given["transactional_id"])
        if not given["topic"] or not given["group"] or others:
            raise click.UsageError(NO_GROUP)
    if action == "add" and not given["allow_principal"] and not given["deny_principal"]:
        raise click.UsageError(
            "You must specify one of: --allow-principal, --deny-principal when trying to add ACLs."
        )


def named(given: Mapping[str, Any]) -> list[ResourcePatternFilter]:
    """Returns the resources that the options name."""
    from pyclient.admin import PatternType

    pattern = PatternType[given["resource_pattern_type"].upper()]
    names = {
        "topic": given["topic"],
        "group": given["group"],
        "transactional-id": given["transactional_id"],
        "delegation-token": given["delegation_token"],
        "user": given["user_principal"],
    }
    found = [pattern_of((kind, name.strip()), pattern) for kind, some in names.items() for name in some]
    if pattern is PatternType.LITERAL and (given["is_cluster"] or given["idempotent"]):
        found.append(cluster_pattern())
    return found


def pattern_of(resource: Resource, pattern: Any) -> ResourcePatternFilter:
    from pyclient.admin import ResourcePatternFilter

    kind, name = resource
    return ResourcePatternFilter(acl_options.resource_type(kind), name, pattern)


def cluster_pattern() -> ResourcePatternFilter:
    from pyclient.admin import PatternType
    from pyclient.protocol.acls import CLUSTER_NAME

    return pattern_of(("cluster", CLUSTER_NAME), PatternType.LITERAL)


def principals(given: Iterable[str], option: str) -> list[str]:
    """Returns the principals. Raises UsageError for one without a type."""
    found = [each.strip() for each in given]
    for each in found:
        kind, mark, name = each.partition(":")
        if not (kind and mark and name):
            raise click.UsageError(f"{option} {each}: expected a string in format principalType:principalName")
    return found


def wanted(resources: list[ResourcePatternFilter], given: Mapping[str, Any]) -> Entries:
    """Returns the entries of each resource. Without principals there are no entries, so that --remove takes all. Raises
    UsageError.
    """
    found: Entries = {}

    def put(each: ResourcePatternFilter, operations: Iterable[str]) -> None:
        known = found.setdefault(each, [])
        known += (entry for entry in entries(operations, given) if entry not in known)

    roles = [role for role, name in ((PRODUCER, "producer"), (CONSUMER, "consumer")) if given[name]]
    for role in roles:
        for each in resources:
            if operations := role.get(acl_options.label(each.resource_type)):
                put(each, operations)
    if given["idempotent"]:
        put(cluster_pattern(), IDEMPOTENT["cluster"])
    if not roles:
        for each in resources:
            put(each, given["operation"] or (ALL,))
    for each, some in found.items():
        kind = acl_options.label(each.resource_type)
        known = (*OPERATIONS[kind], ALL)
        if any(acl_options.label(entry.operation) not in known for entry in some):
            supported = ",".join(name.upper().replace("-", "_") for name in known)
            raise click.UsageError(f"ResourceType {each.resource_type.name} only supports operations {supported}")
    return found


def entries(operations: Iterable[str], given: Mapping[str, Any]) -> list[AccessControlEntry]:
    """Returns an entry for each given principal and host."""
    from pyclient.admin import AccessControlEntry, AclPermissionType

    found = []
    for permission in (AclPermissionType.ALLOW, AclPermissionType.DENY):
        word = permission.name.lower()
        who = principals(given[f"{word}_principal"], f"--{word}-principal")
        hosts = [each.strip() for each in given[f"{word}_host"]] or [ANY_HOST]
        found += [
            AccessControlEntry(each, host, acl_options.operation(operation), permission)
            for each, host, operation in itertools.product(who, hosts, operations)
        ]
    return found


def add(admin: Admin, wanted: Entries) -> None:
    from pyclient.admin import AclBinding, AclBindingFilter, ResourcePattern

    for each, some in wanted.items():
        pattern = ResourcePattern(each.resource_type, each.name or "", each.pattern_type)
        there = {entry for _, entry in admin.describe_acls(AclBindingFilter(each))}
        for entry in filter(there.__contains__, some):
            write(f"Acl (pattern={pattern_text(pattern)}, entry={entry_text(entry)}) already exists.\n")
        if new := [entry for entry in some if entry not in there]:
            write(f"Adding ACLs for resource `{pattern_text(pattern)}`: \n {lines(new)}\n")
            admin.create_acls([AclBinding(pattern, entry) for entry in new])


def remove(admin: Admin, wanted: Entries, force: bool) -> None:
    from pyclient.admin import AccessControlEntryFilter, AclBindingFilter

    for each, some in wanted.items():
        where = f"resource filter `{pattern_text(each)}`? (y/n)"
        filters: list[AclBindingFilter] = [AclBindingFilter(each, AccessControlEntryFilter(*entry)) for entry in some]
        question = f"Are you sure you want to remove ACLs: \n {lines(some)} from {where}"
        if not some:
            filters = [AclBindingFilter(each)]
            question = f"Are you sure you want to delete all ACLs for {where}"
        if force or agreed(question):
            admin.delete_acls(filters)


def agreed(question: str) -> bool:
    write(question + "\n")
    return sys.stdin.readline().strip().lower() == "y"


def listed(admin: Admin, resources: list[ResourcePatternFilter], principals: Iterable[str]) -> int:
    """Shows the ACLs of these resources, or all. If principals are named, shows only theirs, one after the other."""
    from pyclient.admin import AclBindingFilter

    filters = [AclBindingFilter(each) for each in resources] or [AclBindingFilter()]
    found = list(dict.fromkeys(acl for filter in filters for acl in admin.describe_acls(filter)))
    named = list(principals)
    for who in named:
        write(f"ACLs for principal `{who}`\n")
        show(acl for acl in found if acl.entry.principal == who)
    if not named:
        show(found)
    return 0


def show(acls: Iterable[AclBinding]) -> None:
    by_pattern: dict[ResourcePattern, list[AccessControlEntry]] = {}
    for pattern, entry in acls:
        by_pattern.setdefault(pattern, []).append(entry)
    for pattern, some in by_pattern.items():
        write(f"Current ACLs for resource `{pattern_text(pattern)}`:\n{lines(some)}\n")


def lines(entries: Iterable[AccessControlEntry]) -> str:
    return "".join(f"\t{entry_text(each)}\n" for each in entries)


def pattern_text(pattern: ResourcePattern | ResourcePatternFilter) -> str:
    """Formats a pattern as Java does."""
    name = "<any>" if pattern.name is None else pattern.name
    kind, how = pattern.resource_type.name, pattern.pattern_type.name
    return f"ResourcePattern(resourceType={kind}, name={name}, patternType={how})"


def entry_text(entry: AccessControlEntry) -> str:
    """Formats an entry as Java does."""
    operation, permission = entry.operation.name, entry.permission_type.name
    return f"(principal={entry.principal}, host={entry.host}, operation={operation}, permissionType={permission})"
