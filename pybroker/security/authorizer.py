"""Kafka's StandardAuthorizer: decides which user may do what. It reads no store and no clock.

1. A super user may do everything.
2. An ACL applies if it names the principal or ``User:*``, and the client's host or ``*``. A literal ``*`` matches every
   resource, a prefix matches the resources whose names begin with it.
3. If any of these ACLs denies the operation, it is denied. Otherwise, if any of them allows it, it is allowed.
4. If the resource has no ACL at all, ``allow.everyone.if.no.acl.found`` decides. Otherwise the operation is denied.

An ACL that allows reading, writing, deleting or altering also allows describing. An ACL that allows altering
configurations also allows describing them. An ACL that denies an operation denies no other operation.

``acl_index`` finds the ACLs that apply. A decision is cached until an ACL changes.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from itertools import chain, product
from typing import Final

from pybroker.security.acl_index import EVERYTHING, IMPLIED, AclIndex, bits_of, canonical
from pybroker.security.acls import (
    ANYBODY,
    NO_ENTRIES,
    AccessControlEntry,
    AclBinding,
    Entries,
    ResourcePattern,
)
from pybroker.security.audit import Audit, Question
from pyclient.protocol.acls import WILDCARD, AclOperation, AclPermissionType, AclResourceType, PatternType

MOST_KEPT: Final = 10_000
"""How many decisions are cached."""
LONGEST_KEPT: Final = 255
"""How long a name may be to be cached with its decision. Clients choose names, and must not fill memory with them."""
NOTHING: Final = 0
ANY_NAME: Final = "hardcode"
"""The name that Kafka uses to ask about a whole kind of resources: it finds out whether the user is a super user."""


class StandardAuthorizer:
    """Decides by the ACLs that were passed to ``update``."""

    def __init__(
        self, super_users: Collection[str] = (), *, allows_everyone: bool = False, audit: Audit | None = None
    ) -> None:
        """With ``allows_everyone``, everybody may do anything with resources that have no ACL."""
        self.version = 0
        self._super_users = frozenset(super_users)
        self._default = EVERYTHING if allows_everyone else NOTHING
        self._audit = audit
        self._acls: dict[ResourcePattern, Entries] = {}
        self._indexes = {kind: AclIndex() for kind in AclResourceType if kind > AclResourceType.ANY}
        self._rights: dict[tuple[str, str, AclResourceType, str], int] = {}
        self._any: dict[tuple[str, str, AclResourceType, AclOperation], bool] = {}

    def update(self, acls: Mapping[ResourcePattern, Entries]) -> None:
        """Replaces the ACLs of these patterns; empty entries remove a pattern."""
        for pattern, entries in acls.items():
            self._indexes[pattern.resource_type].put(pattern, self._acls.get(pattern, NO_ENTRIES), entries)
            self._acls[pattern] = entries
            if not entries:
                del self._acls[pattern]
        self.version += 1
        self._rights.clear()
        self._any.clear()

    def authorize(
        self,
        principal: str,
        host: str,
        operation: AclOperation,
        resource_type: AclResourceType,
        name: str,
        *,
        request: str = "",
        count: int = 1,
        is_told: bool = True,
    ) -> bool:
        """Returns whether ``principal`` (``User:alice``) at the address ``host`` may do the operation.

        ``request`` and ``count`` are for the audit log: the API, and how often the request names the resource. If
        ``is_told`` is False, nothing is logged: the caller leaves the resource out of an answer without an error.
        """
        rights = self._rights.get((principal, host, resource_type, name))
        if rights is None:
            rights = self._decide(principal, host, resource_type, name)
        is_allowed = bool(rights >> operation & 1)
        audit = self._audit
        if audit is not None and is_told and (not is_allowed or audit.tells_allowed):
            resource = ResourcePattern(resource_type, name)
            self._tell(audit, Question(principal, host, operation, resource, request, count), is_allowed=is_allowed)
        return is_allowed

    def authorize_any(
        self, principal: str, host: str, operation: AclOperation, resource_type: AclResourceType
    ) -> bool:
        """Returns whether the principal may do the operation to any resource of the kind."""
        key = (principal, host, resource_type, operation)
        found = self._any.get(key)
        if found is None:
            found = self.authorize(principal, host, operation, resource_type, ANY_NAME, is_told=False)
            found = found or self._may_any(principal, canonical(host), operation, resource_type)
            if len(self._any) >= MOST_KEPT:
                self._any.clear()
            self._any[key] = found
        return found

    # -- deciding ----------------------------------------------------------------------------------

    def _decide(self, principal: str, host: str, resource_type: AclResourceType, name: str) -> int:
        """Returns the allowed operations as bits."""
        rights = self._default
        if principal in self._super_users:
            rights = EVERYTHING
        elif groups := list(self._indexes[resource_type].groups(name)):
            denied = allowed = 0
            address = canonical(host)
            for group in groups:
                for bits in bits_of(group.get, principal, address):
                    denied |= bits.denied
                    allowed |= bits.allowed
            rights = allowed & ~denied
        if len(name) <= LONGEST_KEPT:
            if len(self._rights) >= MOST_KEPT:
                self._rights.clear()
            self._rights[principal, host, resource_type, name] = rights
        return rights

    def _may_any(self, principal: str, address: str, operation: AclOperation, resource_type: AclResourceType) -> bool:
        kind = self._indexes[resource_type]

        def patterns(permission: AclPermissionType) -> Iterator[dict[ResourcePattern, None]]:
            for entry in product(
                dict.fromkeys((principal, ANYBODY)), (address, WILDCARD), (operation, AclOperation.ALL), (permission,)
            ):
                if (found := kind.patterns.get(AccessControlEntry(*entry))) is not None:
                    yield found

        denied = list(patterns(AclPermissionType.DENY))

        def is_denied(pattern: ResourcePattern) -> bool:
            return any(pattern in each for each in denied)

        if is_denied(ResourcePattern(resource_type, WILDCARD)):
            return False
        for pattern in chain.from_iterable(patterns(AclPermissionType.ALLOW)):
            if not denied or pattern == (resource_type, WILDCARD, PatternType.LITERAL):
                return True
            if not is_denied(pattern) and not any(map(is_denied, self._prefixes(resource_type, pattern.name))):
                return True
        return False

    # -- the audit log -----------------------------------------------------------------------------

    def _tell(self, audit: Audit, question: Question, *, is_allowed: bool) -> None:
        if is_allowed:
            audit.allowed(question, self._rule(question, is_allowed=True))
        else:
            audit.denied(question, lambda: self._rule(question, is_allowed=False))

    def _rule(self, question: Question, *, is_allowed: bool) -> str:
        """Returns the reason of a decision, in Kafka's words."""
        principal, host, operation, resource, _, _ = question
        if principal in self._super_users:
            return "SuperUser"
        address, wanted = canonical(host), AclPermissionType.ALLOW if is_allowed else AclPermissionType.DENY
        for pattern in self._patterns(resource):
            for entry in self._acls[pattern]:
                if entry.permission_type is wanted and _is_about(entry, principal, address, operation):
                    return f"MatchingAcl(acl=StandardAcl{AclBinding(pattern, entry)})"
        return "DefaultAllow" if is_allowed else "DefaultDeny"

    def _patterns(self, resource: ResourcePattern) -> Iterator[ResourcePattern]:
        """Yields the patterns of existing ACLs that match the resource."""
        kind, name = resource.resource_type, resource.name
        literal = [ResourcePattern(kind, each) for each in dict.fromkeys((name, WILDCARD))]
        return (each for each in (*literal, *self._prefixes(kind, name)) if each in self._acls)

    def _prefixes(self, kind: AclResourceType, name: str) -> Iterator[ResourcePattern]:
        """Yields the prefixes of a name that have the lengths of existing prefixes."""
        lengths = self._indexes[kind].lengths
        return (ResourcePattern(kind, name[:n], PatternType.PREFIXED) for n in lengths if n <= len(name))


def _is_about(entry: AccessControlEntry, principal: str, address: str, operation: AclOperation) -> bool:
    if entry.principal not in (principal, ANYBODY) or (entry.host not in (WILDCARD, address) and (
        canonical(entry.host) != address
    )):
        return False
    if entry.operation in (AclOperation.ALL, operation):
        return True
    is_allowed = entry.permission_type is AclPermissionType.ALLOW
    return is_allowed and bool(IMPLIED.get(entry.operation, 0) >> operation & 1)
