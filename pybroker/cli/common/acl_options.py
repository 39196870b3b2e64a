"""ACLs in the form of command lines: resources, operations, and the operations that a producer or consumer needs."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final

import click
from click.shell_completion import CompletionItem

if TYPE_CHECKING:
    from pyclient.admin import AclBinding, AclBindingFilter, AclOperation, AclPermissionType, AclResourceType

OPERATIONS: Final[Mapping[str, tuple[str, ...]]] = {
    "topic": ("read", "write", "create", "describe", "delete", "alter", "describe-configs", "alter-configs"),
    "group": ("read", "describe", "delete", "describe-configs", "alter-configs"),
    "cluster": (
        *("create", "cluster-action", "describe-configs", "alter-configs", "idempotent-write", "alter", "describe"),
    ),
    "transactional-id": ("describe", "write", "two-phase-commit"),
    "delegation-token": ("describe",),
    "user": ("create-tokens", "describe-tokens"),
}
"""Operations that a right to a resource of each type may name, besides ``all``."""
ALL: Final = "all"
NAMES: Final = (*dict.fromkeys(name for some in OPERATIONS.values() for name in some), ALL)
PRODUCER: Final[Mapping[str, tuple[str, ...]]] = {
    "topic": ("write", "describe", "create"),
    "transactional-id": ("write", "describe"),
}
IDEMPOTENT: Final[Mapping[str, tuple[str, ...]]] = {"cluster": ("idempotent-write",)}
CONSUMER: Final[Mapping[str, tuple[str, ...]]] = {"topic": ("read", "describe"), "group": ("read",)}
_PRINCIPAL: Final = re.compile("[A-Za-z]+:.+", re.DOTALL)

Resource = tuple[str, str | None]
"""A type and a name; None means any name."""


class OperationType(click.ParamType):  # type: ignore[type-arg,unused-ignore]
    """An operation in any of its spellings: ``describe-configs``, ``DescribeConfigs``, ``DESCRIBE_CONFIGS``."""

    name = "operation"

    def convert(self, value: Any, parameter: click.Parameter | None, context: click.Context | None) -> str:
        plain = re.sub("[-_]", "", str(value)).lower()
        for name in NAMES:
            if name.replace("-", "") == plain:
                return name
        self.fail(f"{value!r} is not an operation; the operations are {', '.join(NAMES)}", parameter, context)

    def shell_complete(
        self, context: click.Context, parameter: click.Parameter, incomplete: str
    ) -> list[CompletionItem]:
        return [CompletionItem(name) for name in NAMES if name.startswith(incomplete)]


def principal(text: str) -> str:
    """Completes a principal: ``alice`` becomes ``User:alice``."""
    return text if _PRINCIPAL.fullmatch(text) else f"User:{text}"


def needed(role: Mapping[str, tuple[str, ...]], resources: Iterable[Resource]) -> Iterator[tuple[Resource, str]]:
    """Yields each resource with each operation that the role needs on resources of that type."""
    for resource in resources:
        for operation in role.get(resource[0], ()):
            yield resource, operation


def check(resources: Iterable[Resource], operations: Collection[str]) -> None:
    """Raises UsageError for an operation that the resource does not have."""
    for kind, _ in resources:
        wrong = [name for name in operations if name != ALL and name not in OPERATIONS[kind]]
        if wrong:
            known = ", ".join((*OPERATIONS[kind], ALL))
            raise click.UsageError(f"--operation {wrong[0]} does not apply to --{kind}, which has {known}")


def label(kind: AclResourceType | AclOperation | AclPermissionType | Any) -> str:
    """Formats an enum's member for a command line: ``transactional-id``."""
    return str(kind.name.lower().replace("_", "-"))


def resource_type(name: str) -> AclResourceType:
    from pyclient.admin import AclResourceType

    return AclResourceType[name.replace("-", "_").upper()]


def operation(name: str) -> AclOperation:
    from pyclient.admin import AclOperation

    return AclOperation[name.replace("-", "_").upper()]


def filter_of(acl: AclBinding) -> AclBindingFilter:
    """Returns a filter that finds only this ACL."""
    from pyclient.admin import AccessControlEntryFilter, AclBindingFilter, ResourcePatternFilter

    return AclBindingFilter(ResourcePatternFilter(*acl.pattern), AccessControlEntryFilter(*acl.entry))
