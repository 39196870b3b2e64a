"""ACLs as values: principals, resources, allowed and denied operations, and filters to find ACLs.

They are the ACLs of KIP-11 and KIP-290. The words are Kafka's: ``Read``, ``Topic``, ``Allow`` in nodes of the store,
``READ`` and ``TOPIC`` elsewhere.
"""

from __future__ import annotations

from enum import IntEnum
from typing import Final, NamedTuple, TypeVar

from pybroker.printable import printable
from pyclient.protocol.acls import (
    CLUSTER_NAME,
    WILDCARD,
    AclOperation,
    AclPermissionType,
    AclResourceType,
    PatternType,
)
from pyclient.protocol.errors import InvalidRequest

ANYBODY: Final = "User:*"
"""The principal of an ACL that applies to everybody."""
MOST_SHOWN: Final = 249
"""How many characters of a name are shown in a message or log line."""

CIDR_MARK: Final = "/"
"""A host that contains this mark is a range of addresses; no single address contains it."""

Kind = TypeVar("Kind", bound=IntEnum)


class ResourcePattern(NamedTuple):
    """The resources of an ACL: one resource, all, or those whose names begin with a prefix."""

    resource_type: AclResourceType
    name: str
    pattern_type: PatternType = PatternType.LITERAL

    def __str__(self) -> str:
        return f"{word(self.resource_type)}:{self.pattern_type.name}:{shown(self.name)}"

    def matches(self, name: str) -> bool:
        """Returns whether the resource with that name, of the same kind, matches."""
        if self.pattern_type is PatternType.PREFIXED:
            return name.startswith(self.name)
        return self.name in (name, WILDCARD)


class AccessControlEntry(NamedTuple):
    """What an ACL allows or denies to a principal (``User:alice``) from a host."""

    principal: str
    host: str
    operation: AclOperation
    permission_type: AclPermissionType


Entries = tuple[AccessControlEntry, ...]
"""The entries of one pattern, without duplicates."""
NO_ENTRIES: Final[Entries] = ()
UNREADABLE: Final[Entries] = (
    AccessControlEntry(ANYBODY, WILDCARD, AclOperation.ALL, AclPermissionType.DENY),
)
"""The entries used instead of unreadable ACLs. They deny everything, until an administrator deletes them."""


class AclBinding(NamedTuple):
    """An ACL: an entry of rights, and the pattern of resources to which it applies."""

    pattern: ResourcePattern
    entry: AccessControlEntry

    def __str__(self) -> str:
        (kind, name, pattern_type), (principal, host, operation, permission) = self
        return (
            f"(resourceType={kind.name}, resourceName={shown(name)}, patternType={pattern_type.name},"
            f" principal={shown(principal)}, host={shown(host)}, operation={operation.name},"
            f" permissionType={permission.name})"
        )

    def check(self) -> None:
        """Raises InvalidRequest if the ACL has a value that the broker cannot store."""
        (kind, name, pattern_type), (principal, host, operation, permission) = self
        if kind <= AclResourceType.ANY:
            raise InvalidRequest(f"Invalid resourceType {kind.name}")
        if pattern_type not in (PatternType.LITERAL, PatternType.PREFIXED):
            raise InvalidRequest(f"Invalid patternType {pattern_type.name}")
        if operation <= AclOperation.ANY:
            raise InvalidRequest(f"Invalid operation {operation.name}")
        if permission <= AclPermissionType.ANY:
            raise InvalidRequest(f"Invalid permissionType {permission.name}")
        if not name:
            raise InvalidRequest("Resource name should not be empty")
        if kind is AclResourceType.CLUSTER and name != CLUSTER_NAME:
            raise InvalidRequest(f"The only valid name for the CLUSTER resource is {CLUSTER_NAME}")
        if ":" not in principal:
            raise InvalidRequest(
                f"Could not parse principal from `{shown(principal)}` "
                "(no colon is present separating the principal type from the principal name)"
            )
        if not host:
            raise InvalidRequest("Host pattern cannot be null or empty")
        if CIDR_MARK in host:
            raise InvalidRequest(f"CIDR-based ACL host patterns such as {shown(host)} are not supported")


class AclFilter(NamedTuple):
    """A filter for ACLs; None and ANY match all."""

    resource_type: AclResourceType = AclResourceType.ANY
    name: str | None = None
    pattern_type: PatternType = PatternType.ANY
    principal: str | None = None
    host: str | None = None
    operation: AclOperation = AclOperation.ANY
    permission_type: AclPermissionType = AclPermissionType.ANY

    def check(self) -> None:
        """Raises InvalidRequest if the filter has a type, an operation or a permission that Kafka does not know."""
        if self.resource_type == AclResourceType.UNKNOWN or self.pattern_type == PatternType.UNKNOWN:
            raise InvalidRequest("Unknown patternFilter.")
        if self.operation == AclOperation.UNKNOWN or self.permission_type == AclPermissionType.UNKNOWN:
            raise InvalidRequest("Unknown entryFilter.")

    def matches_pattern(self, pattern: ResourcePattern) -> bool:
        """Returns whether ACLs of the pattern may match."""
        if self.resource_type not in (AclResourceType.ANY, pattern.resource_type):
            return False
        if self.pattern_type is PatternType.MATCH:
            return self.name is None or pattern.matches(self.name)
        is_kind = self.pattern_type in (PatternType.ANY, pattern.pattern_type)
        return is_kind and self.name in (None, pattern.name)

    def matches_entry(self, entry: AccessControlEntry) -> bool:
        """Returns whether the entry matches the filter. The pattern is not compared."""
        return (
            self.principal in (None, entry.principal)
            and self.host in (None, entry.host)
            and self.operation in (AclOperation.ANY, entry.operation)
            and self.permission_type in (AclPermissionType.ANY, entry.permission_type)
        )


def by_code(kind: type[Kind], code: int) -> Kind:
    """Returns the member with that number, UNKNOWN if there is none, as in Kafka."""
    try:
        return kind(code)
    except ValueError:
        return kind(0)


def word(member: IntEnum) -> str:
    """Returns Kafka's word for a member in paths and nodes: ``TransactionalId`` for TRANSACTIONAL_ID."""
    return member.name.title().replace("_", "")


def by_word(kind: type[Kind], text: str) -> Kind:
    """Reverses ``word``. Raises ValueError."""
    for member in kind:
        if member > 1 and word(member) == text:  # neither UNKNOWN nor ANY
            return member
    raise ValueError(f"{text!r} is not one of the names of {kind.__name__}")


def shown(text: str) -> str:
    """Returns a client's text in a form for log lines: without line breaks, and limited in length."""
    cut = text if len(text) <= MOST_SHOWN else f"{text[:MOST_SHOWN]}…"
    return printable(cut)
