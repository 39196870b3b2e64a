"""Helpers that the tests of ACLs share: short names, and ACLs as a user would type them."""

from __future__ import annotations

from collections.abc import Iterable

from pybroker.security.acls import AccessControlEntry, AclBinding, Entries, ResourcePattern
from pyclient.protocol.acls import AclOperation, AclPermissionType, AclResourceType, PatternType

ALLOW, DENY = AclPermissionType.ALLOW, AclPermissionType.DENY
LITERAL, PREFIXED = PatternType.LITERAL, PatternType.PREFIXED
TOPIC, GROUP, CLUSTER = AclResourceType.TOPIC, AclResourceType.GROUP, AclResourceType.CLUSTER
READ, WRITE, DESCRIBE, ALL = AclOperation.READ, AclOperation.WRITE, AclOperation.DESCRIBE, AclOperation.ALL


def acl(
    name: str,
    principal: str = "User:alice",
    operation: AclOperation = READ,
    permission: AclPermissionType = ALLOW,
    *,
    host: str = "*",
    kind: AclResourceType = TOPIC,
    pattern: PatternType = LITERAL,
) -> AclBinding:
    """Returns an ACL; by default alice may read topic ``name``."""
    return AclBinding(
        ResourcePattern(kind, name, pattern), AccessControlEntry(principal, host, operation, permission)
    )


def by_pattern(bindings: Iterable[AclBinding]) -> dict[ResourcePattern, Entries]:
    """Returns the ACLs by resource pattern, like the metadata."""
    found: dict[ResourcePattern, Entries] = {}
    for pattern, entry in bindings:
        found[pattern] = (*found.get(pattern, ()), entry)
    return found
