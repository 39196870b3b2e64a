"""The controller's decisions about ACLs, as pure functions.

One node has all ACLs of a pattern. So a change writes all of them, and together they must fit into a node.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import groupby, product, starmap
from operator import attrgetter
from typing import Final

from pybroker.cluster.decisions.config_changes import BYTES_OF_A_WRITE, BYTES_PER_STEP
from pybroker.cluster.decisions.plan import Plan, Step
from pybroker.cluster.metadata import acl_nodes
from pybroker.cluster.metadata.image import MetadataDelta, MetadataImage
from pybroker.security.acls import NO_ENTRIES, AccessControlEntry, AclBinding, AclFilter, Entries, ResourcePattern
from pybroker.store.interface import Create, Delete, Operation, Set
from pyclient.protocol.acls import WILDCARD, AclResourceType, PatternType
from pyclient.protocol.errors import InvalidRequest, KafkaError

MOST_BYTES: Final = 1 << 19
"""How large a pattern's node may be. Together with its journal entry it fits into a write to ZooKeeper (1 MB)."""

MOST_PREFIXES: Final = 255
"""Up to this length, each prefix of a name is looked up; for a longer name, the search reads all ACLs."""

_EMPTY: Final = len(acl_nodes.encode(()))

Acls = Mapping[ResourcePattern, Entries]


def create(image: MetadataImage, bindings: Sequence[AclBinding]) -> Plan[list[KafkaError | None]]:
    """Creates ACLs. Returns None or an error for each, in order; an ACL that already exists is no error."""
    results: list[KafkaError | None] = []
    changed: dict[ResourcePattern, dict[AccessControlEntry, None]] = {}
    sizes: dict[ResourcePattern, int] = {}
    for binding in bindings:
        try:
            binding.check()
            pattern, entry = binding
            entries = changed.get(pattern)
            if entries is None:
                entries = dict.fromkeys(image.acls.get(pattern, NO_ENTRIES))
            if entry not in entries:
                sizes[pattern] = _grown(pattern, sizes.get(pattern) or len(acl_nodes.encode(entries)), entry)
                entries[entry] = None
                changed[pattern] = entries
            results.append(None)
        except KafkaError as error:
            results.append(error)
    return Plan(results, _steps(image, {pattern: tuple(entries) for pattern, entries in changed.items()}))


def _grown(pattern: ResourcePattern, size: int, entry: AccessControlEntry) -> int:
    """Returns the size that a node has with one more ACL. Raises InvalidRequest if it would be too large."""
    size += len(acl_nodes.encode([entry])) - _EMPTY + len(",")
    if size > MOST_BYTES:
        raise InvalidRequest(
            f"{pattern} has too many ACLs, which may have {MOST_BYTES} bytes together: "
            "let some of them cover more users or operations"
        )
    return size


def candidates(acls: Acls, wanted: AclFilter) -> Iterable[ResourcePattern]:
    """Returns the patterns that a filter may match: those of the resource that it names, or all if it names none."""
    kind, name, pattern_type = wanted[:3]
    is_match = pattern_type is PatternType.MATCH
    if name is None or (is_match and len(name) > min(len(acls), MOST_PREFIXES)):
        return acls
    kinds = [kind] if kind is not AclResourceType.ANY else AclResourceType
    types = [pattern_type] if pattern_type not in (PatternType.ANY, PatternType.MATCH) else PatternType
    names = {name, WILDCARD, *(name[:length] for length in range(1, len(name)))} if is_match else {name}
    named = starmap(ResourcePattern, product(kinds, names, types))
    return [pattern for pattern in named if pattern in acls]


def delete(image: MetadataImage, wanted: AclFilter, among: Iterable[ResourcePattern]) -> Plan[list[AclBinding]]:
    """Deletes and returns the ACLs of some patterns that match a filter. Raises InvalidRequest."""
    wanted.check()
    found = [
        AclBinding(pattern, entry)
        for pattern in among
        if wanted.matches_pattern(pattern)
        for entry in image.acls.get(pattern, NO_ENTRIES)
        if wanted.matches_entry(entry)
    ]
    changed: dict[ResourcePattern, Entries] = {}
    for pattern, entries in groupby(found, attrgetter("pattern")):
        gone = {each.entry for each in entries}
        changed[pattern] = tuple(entry for entry in image.acls[pattern] if entry not in gone)
    return Plan(found, _steps(image, changed))


def _steps(image: MetadataImage, changed: Acls) -> list[Step]:
    return [Step(operations, MetadataDelta(acls=part)) for operations, part in _parts(image, changed)]


def _parts(image: MetadataImage, changed: Acls) -> Iterator[tuple[list[Operation], Acls]]:
    """Yields the changes in parts that each fit into one write to the store."""
    operations: list[Operation] = []
    part: dict[ResourcePattern, Entries] = {}
    size = 0
    for pattern, entries in changed.items():
        operation = _write(image, pattern, entries)
        more = BYTES_OF_A_WRITE + len(operation.path) + (0 if isinstance(operation, Delete) else len(operation.data))
        if part and size + more > BYTES_PER_STEP:
            yield operations, part
            operations, part, size = [], {}, 0
        operations.append(operation)
        part[pattern] = entries
        size += more
    if part:
        yield operations, part


def _write(image: MetadataImage, pattern: ResourcePattern, entries: Entries) -> Create | Set | Delete:
    path = acl_nodes.path(pattern)
    if not entries:
        return Delete(path)
    data = acl_nodes.encode(entries)
    return Set(path, data) if pattern in image.acls else Create(path, data)
