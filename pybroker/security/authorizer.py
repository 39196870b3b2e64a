"""Kafka's StandardAuthorizer: decides which user may do what. It reads no store and no clock.

1. A super user may do everything.
2. An ACL counts if it names the principal or ``User:*``, and the client's host or ``*``. A literal ``*`` matches every
   resource, a prefix those whose names begin with it.
3. If an ACL denies the operation, it is denied. Else if one allows it, it is allowed.
4. If the resource has no ACL at all, ``allow.everyone.if.no.acl.found`` decides. Else it is denied.

An ACL that allows reading, writing, deleting or altering also allows describing. One that allows altering
configurations also allows describing them. An ACL that denies implies nothing.

For each pattern, principal and host the operations are kept as bits of numbers. A decision looks at the literal, at the
wildcard, and at one prefix of the name for each existing length of prefixes. Whether a principal may do something to
any resource is found by the patterns that have the same entry. So both cost the same with few ACLs and with many. A
decision is cached until an ACL changes.
"""

from __future__ import annotations

import ipaddress
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping
from functools import lru_cache
from itertools import chain, product
from typing import Final, NamedTuple

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
"""The longest name whose decisions are cached. Clients choose the names, and must not fill memory with them."""
EVERYTHING: Final = (1 << (max(AclOperation) + 1)) - 1
NOTHING: Final = 0
ANY_NAME: Final = "hardcode"
"""The name with which Kafka first asks about a whole kind of resources: super users may do it to any of them."""

_IMPLIED: Final = {
    **dict.fromkeys(
        (AclOperation.READ, AclOperation.WRITE, AclOperation.DELETE, AclOperation.ALTER), 1 << AclOperation.DESCRIBE
    ),
    AclOperation.ALTER_CONFIGS: 1 << AclOperation.DESCRIBE_CONFIGS,
}
"""The operations that an allowed operation implies."""


class _Bits(NamedTuple):
    """The bits of one pattern, principal and host."""

    denied: int
    allowed: int


_NO_BITS: Final = _Bits(0, 0)
_Hosts = dict[str, _Bits]
_Group = dict[str, _Hosts]
"""The bits of one pattern, by principal and host."""


class _Kind:
    """The ACLs of one kind of resource, by pattern."""

    __slots__ = ("lengths", "literal", "patterns", "prefixed", "sizes")

    def __init__(self) -> None:
        self.literal: dict[str, _Group] = {}
        self.prefixed: dict[str, _Group] = {}
        self.patterns: dict[AccessControlEntry, dict[ResourcePattern, None]] = {}
        """The patterns that have an entry, by the entry with its host in canonical form."""
        self.lengths: list[int] = []
        """The lengths of the prefixes, in order."""
        self.sizes = Counter[int]()

    def put(self, pattern: ResourcePattern, before: Entries, entries: Entries) -> None:
        """Replaces the ACLs of a pattern, which were ``before``; empty ``entries`` remove it."""
        for entry in set(map(_in_one_form, before)):
            patterns = self.patterns[entry]
            del patterns[pattern]
            if not patterns:
                del self.patterns[entry]
        for entry in map(_in_one_form, entries):
            self.patterns.setdefault(entry, {})[pattern] = None
        groups = self.literal if pattern.pattern_type is PatternType.LITERAL else self.prefixed
        groups.pop(pattern.name, None)
        if entries:
            groups[pattern.name] = _grouped(entries)
        if groups is self.prefixed:
            self._count(len(pattern.name), bool(entries) - bool(before))

    def _count(self, length: int, change: int) -> None:
        self.sizes[length] += change
        if not self.sizes[length]:
            del self.sizes[length]
        if len(self.sizes) != len(self.lengths):
            self.lengths = sorted(self.sizes)

    def groups(self, name: str) -> Iterator[_Group]:
        """Yields the bits of every pattern that matches the name."""
        if (found := self.literal.get(name)) is not None:
            yield found
        if name != WILDCARD and (found := self.literal.get(WILDCARD)) is not None:
            yield found
        for length in self.lengths:
            if length > len(name):
                return
            if (found := self.prefixed.get(name[:length])) is not None:
                yield found


class StandardAuthorizer:
    """Decides by the ACLs that ``update`` has set."""

    def __init__(
        self, super_users: Collection[str] = (), *, allows_everyone: bool = False, audit: Audit | None = None
    ) -> None:
        """With ``allows_everyone``, everybody may do anything with resources that have no ACL."""
        self.version = 0
        self._super_users = frozenset(super_users)
        self._default = EVERYTHING if allows_everyone else NOTHING
        self._audit = audit
        self._acls: dict[ResourcePattern, Entries] = {}
        self._kinds = {kind: _Kind() for kind in AclResourceType if kind > AclResourceType.ANY}
        self._rights: dict[tuple[str, str, AclResourceType, str], int] = {}
        self._any: dict[tuple[str, str, AclResourceType, AclOperation], bool] = {}

    def update(self, acls: Mapping[ResourcePattern, Entries]) -> None:
        """Replaces the ACLs of these patterns; empty entries remove a pattern."""
        for pattern, entries in acls.items():
            self._kinds[pattern.resource_type].put(pattern, self._acls.get(pattern, NO_ENTRIES), entries)
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

        ``request`` and ``count`` are for the audit log: the API, and how often it names the resource. With ``is_told``
        False nothing is logged: a resource is then left out of an answer without an error.
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
        elif groups := list(self._kinds[resource_type].groups(name)):
            denied = allowed = 0
            address = canonical(host)
            for group in groups:
                for bits in _bits(group.get, principal, address):
                    denied |= bits.denied
                    allowed |= bits.allowed
            rights = allowed & ~denied
        if len(name) <= LONGEST_KEPT:
            if len(self._rights) >= MOST_KEPT:
                self._rights.clear()
            self._rights[principal, host, resource_type, name] = rights
        return rights

    def _may_any(self, principal: str, address: str, operation: AclOperation, resource_type: AclResourceType) -> bool:
        kind = self._kinds[resource_type]

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
        lengths = self._kinds[kind].lengths
        return (ResourcePattern(kind, name[:n], PatternType.PREFIXED) for n in lengths if n <= len(name))


def _grouped(entries: Entries) -> _Group:
    group: _Group = {}
    for principal, host, operation, permission in entries:
        hosts = group.setdefault(principal, {})
        host = canonical(host)
        denied, allowed = hosts.get(host, _NO_BITS)
        bits = EVERYTHING if operation is AclOperation.ALL else 1 << operation
        if permission is AclPermissionType.DENY:
            hosts[host] = _Bits(denied | bits, allowed)
        else:
            hosts[host] = _Bits(denied, allowed | bits | _IMPLIED.get(operation, 0))
    return group


def _in_one_form(entry: AccessControlEntry) -> AccessControlEntry:
    return entry._replace(host=canonical(entry.host)) if ":" in entry.host else entry


def _bits(hosts_of: Callable[[str], _Hosts | None], principal: str, address: str) -> Iterator[_Bits]:
    """Yields the bits of a pattern's ACLs for the principal at this address."""
    for who in (principal, ANYBODY):
        if (hosts := hosts_of(who)) is not None:
            if (bits := hosts.get(address)) is not None:
                yield bits
            if (bits := hosts.get(WILDCARD)) is not None:
                yield bits


def _is_about(entry: AccessControlEntry, principal: str, address: str, operation: AclOperation) -> bool:
    if entry.principal not in (principal, ANYBODY) or (entry.host not in (WILDCARD, address) and (
        canonical(entry.host) != address
    )):
        return False
    if entry.operation in (AclOperation.ALL, operation):
        return True
    is_allowed = entry.permission_type is AclPermissionType.ALLOW
    return is_allowed and bool(_IMPLIED.get(entry.operation, 0) >> operation & 1)


@lru_cache(maxsize=4096)
def canonical(host: str) -> str:
    """Returns one text for each address: IPv6 in its short form, and an IPv4 address that came over IPv6 as IPv4.

    Kafka compares IPv6 as Java writes it (``0:0:0:0:0:0:0:1``), so an ACL with ``::1`` has no effect there.
    """
    if ":" not in host:
        return host
    try:
        address = ipaddress.IPv6Address(host)
    except ValueError:
        return host
    return str(address.ipv4_mapped or address)
