"""The nodes of ACLs: the paths and JSON of Kafka on ZooKeeper.

A node has the name of its resource, as in Kafka. Characters that ZooKeeper does not allow in a path are encoded as in a
URL; only groups and transactional ids may have such characters. A ``%`` that would look like a code is encoded too.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from typing import Final
from urllib.parse import quote, unquote

from pybroker.security.acls import (
    AccessControlEntry,
    Entries,
    ResourcePattern,
    by_word,
    word,
)
from pyclient.protocol.acls import AclOperation, AclPermissionType, AclResourceType, PatternType

ROOTS: Final[Mapping[PatternType, str]] = {
    PatternType.LITERAL: "/kafka-acl",
    PatternType.PREFIXED: "/kafka-acl-extended/prefixed",
}
KINDS: Final = tuple(kind for kind in AclResourceType if kind > AclResourceType.ANY)


def folder(pattern_type: PatternType, kind: AclResourceType) -> str:
    """Returns the folder of the ACLs of such patterns."""
    return f"{ROOTS[pattern_type]}/{word(kind)}"


FOLDERS: Final = (
    ROOTS[PatternType.LITERAL],
    ROOTS[PatternType.PREFIXED].rpartition("/")[0],
    ROOTS[PatternType.PREFIXED],
    *(folder(pattern_type, kind) for pattern_type in ROOTS for kind in KINDS),
)
"""The folders of ACLs, which are created when they are first needed."""

_VERSION: Final = 1
_NOT_IN_A_PATH: Final = re.compile(r"[/\x00-\x1f\x7f-\x9f\ud800-\uf8ff\ufff0-\U0010ffff]|%(?=[0-9A-Fa-f]{2})")
_compact = json.JSONEncoder(separators=(",", ":")).encode


def path(pattern: ResourcePattern) -> str:
    """Returns the pattern's node."""
    return f"{folder(pattern.pattern_type, pattern.resource_type)}/{_entity(pattern.name)}"


def _entity(name: str) -> str:
    if name in (".", ".."):
        return name.replace(".", "%2E")
    return _NOT_IN_A_PATH.sub(lambda found: quote(found[0], safe=""), name)


def name_of(entity: str) -> str:
    """Returns the resource's name from a node's name. Raises ValueError if no resource has such a node."""
    name = unquote(entity, errors="strict")
    if _entity(name) != entity:
        raise ValueError("no resource has a node of this name")
    return name


def encode(entries: Iterable[AccessControlEntry]) -> bytes:
    """Encodes a pattern's ACLs."""
    rows = [
        {"principal": principal, "permissionType": word(permission), "operation": word(operation), "host": host}
        for principal, host, operation, permission in entries
    ]
    return _compact({"version": _VERSION, "acls": rows}).encode()


def decode(data: bytes) -> Entries:
    """Decodes a pattern's ACLs, without duplicates; an empty node has none. Raises ValueError and others for malformed
    data.
    """
    if not data:
        return ()
    fields = json.loads(data)
    if fields["version"] != _VERSION:
        raise ValueError(f"version {fields['version']} is unknown")
    return tuple(dict.fromkeys(map(_entry, fields["acls"])))


def _entry(row: Mapping[str, str]) -> AccessControlEntry:
    principal, host = row["principal"], row["host"]
    if not isinstance(host, str) or ":" not in principal:
        raise ValueError(f"{principal!r} from {host!r} is not a valid principal and host")
    return AccessControlEntry(
        principal, host, by_word(AclOperation, row["operation"]), by_word(AclPermissionType, row["permissionType"])
    )
