"""``pybroker acl``: list, create and delete ACLs."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import click

from pybroker.cli.common import acl_options
from pybroker.cli.common.acl_options import CONSUMER, IDEMPOTENT, PRODUCER, OperationType, Resource, label, principal
from pybroker.cli.common.cluster_options import Cluster, on_cluster
from pybroker.cli.common.completing import GROUP, TOPIC, TRANSACTIONAL_ID
from pybroker.cli.common.output import show, with_output
from pybroker.cli.common.plans import at_once, nothing_was_changed
from pybroker.cli.common.verbs import Suggesting, complain, failures

if TYPE_CHECKING:
    from pyclient.admin import AclBinding, AclBindingFilter

COLUMNS: Final = ("principal", "permission", "operation", "resource", "name", "pattern", "host")
PATTERNS: Final = ("literal", "prefixed", "match", "any")
ANY_HOST: Final = "*"
CREATING: Final = """
pybroker acl create --allow User:alice --operation read --topic flights --group app
pybroker acl create --allow alice --producer --topic flights
pybroker acl create --allow bob --consumer --topic 'flights-' --group 'app-' --prefixed
pybroker acl create --deny User:eve --host 10.0.0.7 --operation all --topic '*'
"""
DELETING: Final = """
pybroker acl delete --allow User:alice --operation read --topic flights --group app
pybroker acl delete --principal User:alice --dry-run
"""


class Wanted(NamedTuple):
    """The ACLs that the options describe. ``principals`` have ``allow``, ``deny`` or ``any``."""

    principals: tuple[tuple[str, str], ...]
    hosts: tuple[str, ...]
    operations: tuple[str, ...]
    resources: tuple[Resource, ...]
    producer: bool
    consumer: bool
    idempotent: bool

    def rights(self) -> list[tuple[Resource, str]]:
        """Returns each resource with each operation that the user names, or that a role needs. Raises UsageError."""
        acl_options.check(self.resources, self.operations)
        roles = ((PRODUCER, self.producer), (CONSUMER, self.consumer))
        found = list(itertools.product(self.resources, self.operations))
        for role, is_wanted in roles:
            found += acl_options.needed(role, self.resources) if is_wanted else ()
        if self.idempotent:
            found += acl_options.needed(IDEMPOTENT, [cluster()])
        return list(dict.fromkeys(found))

    def check_roles(self) -> None:
        """Raises UsageError if a role lacks the resource that it needs."""
        kinds = {kind for kind, _ in self.resources}
        if self.producer and "topic" not in kinds:
            raise click.UsageError("--producer needs --topic")
        if self.consumer and not {"topic", "group"} <= kinds:
            raise click.UsageError("--consumer needs --topic and --group")
        if self.idempotent and not self.producer:
            raise click.UsageError("--idempotent needs --producer")
        if (self.producer or self.consumer) and any(kind == "deny" for kind, _ in self.principals):
            raise click.UsageError("--producer and --consumer grant rights: they cannot be used with --deny")


def cluster() -> Resource:
    from pyclient.protocol.acls import CLUSTER_NAME

    return "cluster", CLUSTER_NAME


def with_acl(*, find: bool) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Adds the options of ACLs to a verb, which gets them as ``wanted``. All verbs get ``prefixed``; a verb that finds
    ACLs also gets ``pattern``.
    """

    def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(function)
        def call(
            allow: tuple[str, ...],
            deny: tuple[str, ...],
            hosts: tuple[str, ...],
            operations: tuple[str, ...],
            topic: tuple[str, ...],
            group: tuple[str, ...],
            transactional_id: tuple[str, ...],
            delegation_token: tuple[str, ...],
            user: tuple[str, ...],
            is_cluster: bool,
            producer: bool,
            consumer: bool,
            idempotent: bool,
            either: tuple[str, ...] = (),
            **options: Any,
        ) -> Any:
            named = {"topic": topic, "group": group, "transactional-id": transactional_id}
            named |= {"delegation-token": delegation_token, "user": tuple(map(principal, user))}
            resources = [(kind, name) for kind, names in named.items() for name in names]
            principals = [("allow", name) for name in allow] + [("deny", name) for name in deny]
            principals += [("any", name) for name in either]
            wanted = Wanted(
                tuple((kind, principal(name)) for kind, name in principals),
                hosts,
                operations,
                (*resources, *([cluster()] if is_cluster else [])),
                producer,
                consumer,
                idempotent,
            )
            wanted.check_roles()
            return function(wanted=wanted, **options)

        for option in reversed((*_principals(find), *_resources(), *_roles(), *_patterns(find))):
            call = option(call)
        return call

    return decorate


def _principals(find: bool) -> Iterator[Callable[..., Any]]:
    yield click.option("--allow", multiple=True, metavar="PRINCIPAL", help="A user who may: alice, User:alice, User:*.")
    yield click.option("--deny", multiple=True, metavar="PRINCIPAL", help="A user who may not, whatever allows it.")
    if find:
        either = "A user who may or may not."
        yield click.option("--principal", "either", multiple=True, metavar="PRINCIPAL", help=either)
    yield click.option("--host", "hosts", multiple=True, metavar="ADDRESS", help="Only from there [any].")
    yield click.option(
        *("--operation", "operations"),
        multiple=True,
        type=OperationType(),
        metavar="NAME",
        help="read, write, create, delete, alter, describe, all …",
    )


def _resources() -> Iterator[Callable[..., Any]]:
    every = "; * is all of them."
    yield click.option("--topic", multiple=True, metavar="NAME", help=f"A topic{every}", shell_complete=TOPIC)
    yield click.option("--group", multiple=True, metavar="NAME", help=f"A group{every}", shell_complete=GROUP)
    yield click.option(
        *("--transactional-id",),
        multiple=True,
        metavar="ID",
        help=f"A transactional id{every}",
        shell_complete=TRANSACTIONAL_ID,
    )
    yield click.option("--cluster", "is_cluster", is_flag=True, help="The cluster itself.")
    yield click.option("--delegation-token", multiple=True, metavar="ID", help=f"A delegation token{every}")
    yield click.option("--user", multiple=True, metavar="USER", help="A user for whom tokens are created or shown.")


def _roles() -> Iterator[Callable[..., Any]]:
    yield click.option("--producer", is_flag=True, help="What a producer needs of --topic, --transactional-id.")
    yield click.option("--consumer", is_flag=True, help="What a consumer needs of --topic and --group.")
    yield click.option("--idempotent", is_flag=True, help="With --producer: IdempotentWrite, for old brokers.")


def _patterns(find: bool) -> Iterator[Callable[..., Any]]:
    yield click.option("--prefixed", is_flag=True, help="Names are the beginnings of names.")
    if find:
        how = "How names are compared; match: whatever covers them."
        yield click.option("--pattern", type=click.Choice(PATTERNS), help=how)


@click.group(cls=Suggesting)
def acl() -> None:
    """ACLs: which user may do what."""


@acl.command("list")
@with_acl(find=True)
@on_cluster
@with_output
def list_acls(cluster: Cluster, output: str, wanted: Wanted, prefixed: bool, pattern: str | None) -> None:
    """Lists ACLs: all, or those that fit every option. A name finds each ACL that covers it."""
    filters = list(found_by(wanted, chosen(prefixed, pattern) or "match"))
    with cluster.admin() as admin:
        found = [each for filter in filters for each in admin.describe_acls(filter)]
    show(output, COLUMNS, rows(found), none="no ACLs")


@acl.command(examples=CREATING)
@with_acl(find=False)
@click.option("--dry-run", is_flag=True, help="Only show them.")
@on_cluster
@with_output
def create(cluster: Cluster, output: str, wanted: Wanted, prefixed: bool, dry_run: bool) -> int:
    """Creates ACLs: each operation on each resource, for each user and host. They count at once."""
    acls = created(wanted, prefixed)
    with cluster.admin() as admin:
        if dry_run:
            there = set(admin.describe_acls())
            show(output, COLUMNS, rows(each for each in acls if each not in there), none="they are there already")
            complain("nothing was changed: without --dry-run they are created")
            return 0
        done = admin.create_acls(acls, check=False)
    show(output, COLUMNS, rows(done))
    return failures("ACL", {text_of(each): error for each, error in done.errors.items()})


@acl.command(examples=DELETING)
@with_acl(find=True)
@click.option("--all", "everything", is_flag=True, help="All ACLs that there are.")
@at_once
@on_cluster
@with_output
def delete(
    cluster: Cluster,
    output: str,
    wanted: Wanted,
    prefixed: bool,
    pattern: str | None,
    everything: bool,
    dry_run: bool,
) -> int:
    """Deletes the ACLs that fit every option, and shows them. This counts at once."""
    if not everything and not wanted.principals and not wanted.resources:
        raise click.UsageError("which ones? Name a user or a resource, or say --all")
    filters = list(found_by(wanted, chosen(prefixed, pattern) or "literal"))
    errors: dict[Any, BaseException] = {}
    with cluster.admin() as admin:
        if dry_run:
            found = [each for filter in filters for each in admin.describe_acls(filter)]
        else:
            done = admin.delete_acls(filters, check=False)
            found = [each for some in done.values() for each in some]
            errors = {described(each): error for each, error in done.errors.items()}
    show(output, COLUMNS, rows(found), none="no ACLs")
    if dry_run:
        nothing_was_changed()
    return failures("ACLs:", errors)


def chosen(prefixed: bool, pattern: str | None) -> str | None:
    """Returns the pattern type that --prefixed or --pattern names. Raises UsageError if they contradict each other."""
    if prefixed and pattern not in (None, "prefixed"):
        raise click.UsageError("use either --prefixed or --pattern")
    return "prefixed" if prefixed else pattern


def created(wanted: Wanted, prefixed: bool) -> list[AclBinding]:
    """Returns the ACLs to create. Raises UsageError."""
    from pyclient.admin import AccessControlEntry, AclBinding, AclPermissionType, PatternType, ResourcePattern

    if not wanted.principals:
        raise click.UsageError("for whom? --allow USER or --deny USER is missing")
    if not wanted.resources:
        raise click.UsageError("to what? --topic, --group, --transactional-id, --cluster … is missing")
    if not wanted.operations and not wanted.producer and not wanted.consumer:
        raise click.UsageError("--operation is missing, or --producer, or --consumer")
    found = []
    for (permission, who), host, ((kind, name), operation) in itertools.product(
        wanted.principals, wanted.hosts or (ANY_HOST,), wanted.rights()
    ):
        how = PatternType.PREFIXED if prefixed and kind != "cluster" else PatternType.LITERAL
        entry = AccessControlEntry(
            who, host, acl_options.operation(operation), AclPermissionType[permission.upper()]
        )
        found.append(AclBinding(ResourcePattern(acl_options.resource_type(kind), name or "", how), entry))
    return list(dict.fromkeys(found))


def found_by(wanted: Wanted, pattern: str) -> Iterator[AclBindingFilter]:
    """Yields the filters of the options. A missing option matches anything. Raises UsageError."""
    from pyclient.admin import (
        AccessControlEntryFilter,
        AclBindingFilter,
        AclOperation,
        AclPermissionType,
        AclResourceType,
        PatternType,
        ResourcePatternFilter,
    )

    rights: Iterable[tuple[Resource | None, str]] = wanted.rights()
    if not wanted.resources or not (wanted.operations or wanted.producer or wanted.consumer):
        rights = itertools.product(wanted.resources or (None,), wanted.operations or ("any",))
    principals = wanted.principals or (("any", None),)
    hosts = wanted.hosts or (None,)
    for (permission, who), host, (resource, operation) in itertools.product(principals, hosts, rights):
        patterns = ResourcePatternFilter(AclResourceType.ANY, None, PatternType.ANY)
        if resource is not None:
            kind, name = resource
            how = PatternType.LITERAL if kind == "cluster" else PatternType[pattern.upper()]
            patterns = ResourcePatternFilter(acl_options.resource_type(kind), name, how)
        which = AclOperation.ANY if operation == "any" else acl_options.operation(operation)
        entry = AccessControlEntryFilter(who, host, which, AclPermissionType[permission.upper()])
        yield AclBindingFilter(patterns, entry)


def rows(acls: Iterable[AclBinding]) -> list[tuple[str, ...]]:
    """Returns rows in order, without repetition."""
    return sorted({row(each) for each in acls})


def row(acl: AclBinding) -> tuple[str, ...]:
    (kind, name, pattern), (who, host, operation, permission) = acl
    return who, label(permission), label(operation), label(kind), name, label(pattern), host


def text_of(acl: AclBinding) -> str:
    who, permission, operation, kind, name, *_ = row(acl)
    return f"{permission} {who} {operation} {kind} {name}"


def described(filter: AclBindingFilter) -> str:
    """Describes what the filter looks for."""
    (kind, name, _), (who, _, operation, permission) = filter
    return f"{label(permission)} {who or 'user'} {label(operation)} {label(kind)} {name or 'name'}"
