"""The index of ACLs by which the authorizer decides.

For each pattern, principal and host, the operations are kept as bits of numbers. A decision looks up the literal
pattern, the wildcard, and one prefix of the name for each existing length of prefixes. To find out whether a principal
may do an operation on any resource, it looks up the patterns that have the same entry. So both questions take the same
time with few ACLs and with many.
"""

from __future__ import annotations

import ipaddress
from collections import Counter
from collections.abc import Callable, Iterator
from functools import lru_cache
from typing import Final, NamedTuple

from pybroker.security.acls import ANYBODY, AccessControlEntry, Entries, ResourcePattern
from pyclient.protocol.acls import WILDCARD, AclOperation, AclPermissionType, PatternType

EVERYTHING: Final = (1 << (max(AclOperation) + 1)) - 1
"""The bits of all operations."""
IMPLIED: Final = {
    **dict.fromkeys(
        (AclOperation.READ, AclOperation.WRITE, AclOperation.DELETE, AclOperation.ALTER), 1 << AclOperation.DESCRIBE
    ),
    AclOperation.ALTER_CONFIGS: 1 << AclOperation.DESCRIBE_CONFIGS,
}
"""The operations that an allowed operation implies."""


class Bits(NamedTuple):
    """The operations of one pattern, principal and host, as bits."""

    denied: int
    allowed: int


_NO_BITS: Final = Bits(0, 0)
Hosts = dict[str, Bits]
Group = dict[str, Hosts]
"""The bits of one pattern, by principal and host."""


class AclIndex:
    """The ACLs of one kind of resource."""

    __slots__ = ("lengths", "literal", "patterns", "prefixed", "sizes")

    def __init__(self) -> None:
        self.literal: dict[str, Group] = {}
        self.prefixed: dict[str, Group] = {}
        self.patterns: dict[AccessControlEntry, dict[ResourcePattern, None]] = {}
        """The patterns that have an entry, by entry. The entry's host is in canonical form."""
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

    def groups(self, name: str) -> Iterator[Group]:
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


def bits_of(hosts_of: Callable[[str], Hosts | None], principal: str, address: str) -> Iterator[Bits]:
    """Yields the bits of a pattern's ACLs for the principal at this address."""
    for who in (principal, ANYBODY):
        if (hosts := hosts_of(who)) is not None:
            if (bits := hosts.get(address)) is not None:
                yield bits
            if (bits := hosts.get(WILDCARD)) is not None:
                yield bits


def _grouped(entries: Entries) -> Group:
    group: Group = {}
    for principal, host, operation, permission in entries:
        hosts = group.setdefault(principal, {})
        host = canonical(host)
        denied, allowed = hosts.get(host, _NO_BITS)
        bits = EVERYTHING if operation is AclOperation.ALL else 1 << operation
        if permission is AclPermissionType.DENY:
            hosts[host] = Bits(denied | bits, allowed)
        else:
            hosts[host] = Bits(denied, allowed | bits | IMPLIED.get(operation, 0))
    return group


def _in_one_form(entry: AccessControlEntry) -> AccessControlEntry:
    return entry._replace(host=canonical(entry.host)) if ":" in entry.host else entry


@lru_cache(maxsize=4096)
def canonical(host: str) -> str:
    """Returns the one text for an address: IPv6 in its short form, and an IPv4 address that came over IPv6 as IPv4.

    Kafka compares IPv6 as Java writes it (``0:0:0:0:0:0:0:1``), so an ACL with ``::1`` has no effect there.
    """
    if ":" not in host:
        return host
    try:
        address = ipaddress.IPv6Address(host)
    except ValueError:
        return host
    return str(address.ipv4_mapped or address)
